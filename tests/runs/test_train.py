import json
from dataclasses import replace

import pytest
import torch
from lightning_fabric import Fabric
from lightning_fabric.loggers.csv_logs import CSVLogger
from safetensors.torch import load_file
from torch import nn

from noisebound.catalog import METHOD_NAMES
from noisebound.data import Normalization
from noisebound.errors import RunError
from noisebound.runs import SavedModel, train_run
from noisebound.runs.keeper import read_metrics
from noisebound.training import TrainingConfig
from noisebound.training.data import split_validation
from training_data import NOISE_RATE, noisy_clouds, noisy_images

QUICK = {"noise_rate": NOISE_RATE, "epochs": 3, "batch_size": 30}


def weights_of(folder):
    return torch.cat([p.flatten() for p in SavedModel.load(folder).model.parameters()])


@pytest.mark.parametrize("loss", [*METHOD_NAMES, "ce+b", "sce+b", "fce+b", "gce+b", "cep+b"])
def test_every_method_trains(tmp_path, loss):
    result = train_run(noisy_clouds(), TrainingConfig(loss=loss, **QUICK), tmp_path / "run").result
    assert result.final.epoch == 3
    assert result.final.train_loss == pytest.approx(result.final.train_loss)  # not NaN
    assert (result.bound is not None) == loss.endswith("+b")


@pytest.mark.parametrize("model", ["small_cnn", "resnet18"])
def test_images_and_batch_norm(tmp_path, model):
    config = TrainingConfig(model=model, augment=True, **(QUICK | {"epochs": 2}))
    train_run(noisy_images(), config, tmp_path / "run")
    saved = SavedModel.load(tmp_path / "run")
    probabilities = saved.probabilities(noisy_images().test.inputs)
    assert torch.isfinite(probabilities).all()
    # the averaged statistics are those of data, not the ones that batch norm starts with
    statistics = [b for name, b in saved.model.named_buffers() if name.endswith("running_mean")]
    assert all(mean.abs().max() > 0 for mean in statistics)


def test_the_bound_keeps_the_model_from_memorizing(tmp_path):
    """What it is all for, on four clouds."""
    settings = {"noise_rate": NOISE_RATE, "epochs": 150, "batch_size": 54, "learning_rate": 3e-3}
    settings |= {"measure_every": 150}  # only the end is looked at
    plain, bounded = (
        train_run(
            noisy_clouds(), TrainingConfig(loss=loss, **settings), tmp_path / loss
        ).result.final
        for loss in ("ce", "ce+b")
    )
    assert plain.memorized > 0.9
    assert bounded.memorized < 0.4
    assert bounded.test_top1 > plain.test_top1 + 0.1
    assert bounded.train_loss == pytest.approx(bounded.bound, rel=0.15)
    assert 0.2 < bounded.share_below < 0.8
    assert plain.share_below is None


def test_what_is_measured(tmp_path):
    """Recomputed from the saved model, without averaging."""
    splits = noisy_clouds()
    config = TrainingConfig(**QUICK, average_epochs=0, validation_share=0)
    result = train_run(splits, config, tmp_path / "run").result
    saved = SavedModel.load(tmp_path / "run")
    said = saved.probabilities(splits.test.inputs).argmax(1)
    assert result.final.test_top1 == (said == splits.test.labels).double().mean()
    wrong = splits.train.labels != splits.train.true_labels
    repeated = (
        saved.probabilities(splits.train.inputs).argmax(1)[wrong] == splits.train.labels[wrong]
    )
    assert result.final.memorized == repeated.double().mean()
    assert result.final.validation_top1 is None
    assert result.best_on_validation is None
    assert result.final.test_top5 is None  # of four classes


def test_noisy_validation_chooses_the_best_epoch(tmp_path):
    run = train_run(noisy_clouds(), TrainingConfig(**(QUICK | {"epochs": 8})), tmp_path / "run")
    history = read_metrics(tmp_path / "run" / "metrics.jsonl")
    best = max(history, key=lambda metrics: metrics.averaged_validation_top1)
    assert run.result.best_on_validation == best
    assert run.result.final == history[-1]
    assert run.epochs == history


def test_the_test_set_decides_nothing(tmp_path):
    splits = noisy_clouds()
    upset = replace(splits, test=replace(splits.test, labels=splits.test.labels.flip(0)))
    for name, data in (("one", splits), ("other", upset), ("none", replace(splits, test=None))):
        train_run(data, TrainingConfig(**QUICK), tmp_path / name)
    assert torch.equal(weights_of(tmp_path / "one"), weights_of(tmp_path / "other"))
    assert torch.equal(weights_of(tmp_path / "one"), weights_of(tmp_path / "none"))


@pytest.mark.parametrize("loss", ["ce+b", "mixup", "elr"])
def test_deterministic_given_a_seed(tmp_path, loss):
    before = torch.get_rng_state()
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        train_run(noisy_clouds(), TrainingConfig(loss=loss, **QUICK, seed=seed), tmp_path / name)
    one, same, other = (weights_of(tmp_path / name) for name in ("one", "same", "other"))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(before, torch.get_rng_state())


def test_micro_batches_give_what_one_batch_gives(tmp_path):
    """With the bound crossed, in float64."""
    for parts in (1, 4):
        config = TrainingConfig(**(QUICK | {"epochs": 12}), accumulate=parts, learning_rate=1e-2)
        fabric = Fabric(accelerator="cpu", devices=1, precision="64-true")
        run = train_run(noisy_clouds(), config, tmp_path / str(parts), fabric=fabric)
    assert 0 < run.result.final.share_below < 1
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("1", "4"))
    assert max((one[name] - other[name]).abs().max() for name in one) < 1e-9


def test_averaged_weights_are_an_exponential_average(tmp_path):
    """One long step after another, followed by hand."""
    config = TrainingConfig(**(QUICK | {"epochs": 4, "batch_size": 200}), average_epochs=3)
    train_run(noisy_clouds(), config, tmp_path / "averaged")
    expected, decay = None, 1 - 1 / 3
    for epochs in (1, 2, 3, 4):
        settings = QUICK | {"epochs": epochs, "batch_size": 200}
        train_run(
            noisy_clouds(), TrainingConfig(**settings, average_epochs=0), tmp_path / str(epochs)
        )
        weights = weights_of(tmp_path / str(epochs)).double()
        expected = weights if expected is None else decay * expected + (1 - decay) * weights
    torch.testing.assert_close(
        weights_of(tmp_path / "averaged").double(), expected, atol=1e-6, rtol=0
    )


def test_a_network_of_ones_own(tmp_path):
    def network():
        return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, 4))

    torch.manual_seed(0)
    train_run(noisy_clouds(), TrainingConfig(**QUICK), tmp_path / "run", model=network())
    saved = SavedModel.load(tmp_path / "run", model=network())
    assert saved.probabilities(noisy_clouds().test.inputs).shape == (80, 4)
    with pytest.raises(RunError, match="a network of your own: pass `model`"):
        SavedModel.load(tmp_path / "run")


def test_a_given_network_is_not_trained_itself(tmp_path):
    network = nn.Linear(6, 4)
    before = network.weight.clone()
    run = train_run(noisy_clouds(), TrainingConfig(**QUICK), tmp_path / "run", model=network)
    assert torch.equal(network.weight, before)
    assert not torch.equal(run.model.weight, before)


def test_what_is_written(tmp_path):
    train_run(noisy_clouds(), TrainingConfig(**QUICK), tmp_path / "run")
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {
        "config.json", "metrics.jsonl", "result.json", "model.safetensors", "model.json",
        "checkpoints", ".owner.lock",
    }  # fmt: skip
    assert TrainingConfig.model_validate_json((tmp_path / "run/config.json").read_text())
    card = json.loads((tmp_path / "run/model.json").read_text())
    assert card["class_names"] == ["a", "b", "c", "d"]


def test_trackers_get_the_measurements(tmp_path):
    fabric = Fabric(accelerator="cpu", devices=1, loggers=CSVLogger(tmp_path, name="logs"))
    train_run(noisy_clouds(), TrainingConfig(**QUICK), tmp_path / "run", fabric=fabric)
    (log,) = tmp_path.glob("logs/*/metrics.csv")
    header, *lines = log.read_text().splitlines()
    assert {"train_loss", "bound", "share_below", "validation_top1"} <= set(header.split(","))
    assert len(lines) == 3


def test_a_finished_run_is_not_run_again(tmp_path):
    first = train_run(noisy_clouds(), TrainingConfig(**QUICK), tmp_path / "run")
    modified = (tmp_path / "run" / "metrics.jsonl").stat().st_mtime_ns
    again = train_run(noisy_clouds(), TrainingConfig(**QUICK), tmp_path / "run", resume=True)
    assert again.result.model_dump() == first.result.model_dump()
    assert (tmp_path / "run" / "metrics.jsonl").stat().st_mtime_ns == modified


def test_a_folder_that_is_taken(tmp_path):
    train_run(noisy_clouds(), TrainingConfig(**QUICK), tmp_path / "run")
    with pytest.raises(FileExistsError, match="continue it with `resume`"):
        train_run(noisy_clouds(), TrainingConfig(**QUICK), tmp_path / "run")
    with pytest.raises(ValueError, match=r"another config \(seed 0 → 3\)"):
        train_run(noisy_clouds(), TrainingConfig(**QUICK, seed=3), tmp_path / "run", resume=True)


def test_other_data_is_noticed(tmp_path):
    config = TrainingConfig(**QUICK)
    train_run(noisy_clouds(), config, tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    with pytest.raises(ValueError, match="other data"):
        train_run(noisy_clouds(seed=9), config, tmp_path / "run", resume=True)


def test_other_data_is_noticed_when_all_is_done(tmp_path):
    train_run(noisy_clouds(), TrainingConfig(**QUICK), tmp_path / "run")
    with pytest.raises(ValueError, match="a finished run on other data"):
        train_run(noisy_clouds(seed=9), TrainingConfig(**QUICK), tmp_path / "run", resume=True)


def test_a_failed_start_leaves_the_folder_free(tmp_path):
    with pytest.raises(ValueError, match="these inputs are features"):
        train_run(noisy_clouds(), TrainingConfig(**QUICK, augment=True), tmp_path / "run")
    train_run(noisy_clouds(), TrainingConfig(**QUICK), tmp_path / "run")


def test_tied_weights(tmp_path):
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6), nn.Linear(6, 4))
    model[2].weight = model[0].weight
    train_run(noisy_clouds(), TrainingConfig(**QUICK), tmp_path / "run", model=model)
    weights = load_file(tmp_path / "run" / "model.safetensors")
    assert torch.equal(weights["0.weight"], weights["2.weight"])


def test_the_only_example_of_a_class_is_trained_on(tmp_path):
    splits = noisy_clouds(n=60)
    labels = splits.train.labels.clone()
    labels[labels == 3] = 0
    labels[7] = 3
    lonely = replace(splits, train=replace(splits.train, labels=labels))
    for seed in range(20):
        config = TrainingConfig(**QUICK, seed=seed, validation_share=0.5)
        assert split_validation(lonely, config)[0].train.class_counts().min() > 0
    with pytest.raises(ValueError, match="leaves none to train on: lower `validation_share`"):
        split_validation(noisy_clouds(n=60), TrainingConfig(**QUICK, validation_share=0.999))


def test_normalization_is_that_of_the_training_examples(tmp_path):
    splits = noisy_clouds()
    train_run(splits, TrainingConfig(**QUICK, validation_share=0), tmp_path / "run")
    saved = SavedModel.load(tmp_path / "run")
    assert saved.normalization == Normalization.of(splits.train.inputs)


def test_training_that_diverges_says_so(tmp_path):
    config = TrainingConfig(loss="ce", epochs=20, learning_rate=1e30)
    with pytest.raises(ValueError, match=r"training has diverged; lower `learning_rate`"):
        train_run(noisy_clouds(), config, tmp_path / "run")


def test_fewer_examples_than_a_batch(tmp_path):
    config = TrainingConfig(**(QUICK | {"batch_size": 10_000}), accumulate=7)
    assert train_run(noisy_clouds(n=20), config, tmp_path / "run").result.final.epoch == 3


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "is damaged"),
        ("{}", "is damaged, or of another version of noisebound"),
        ('{"format": 99}', "of another version of noisebound: format: Input should be 3"),
        ('{"format": 3}', "is damaged"),
    ],
)
def test_a_result_of_another_version_or_damaged_is_said_to_be_one(tmp_path, content, complaint):
    """And nothing is trained again in silence."""
    config = TrainingConfig(**(QUICK | {"epochs": 1}))
    train_run(noisy_clouds(), config, tmp_path / "run")
    (tmp_path / "run" / "result.json").write_text(content)
    with pytest.raises(ValueError, match=complaint):
        train_run(noisy_clouds(), config, tmp_path / "run", resume=True)
