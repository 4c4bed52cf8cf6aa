"""``noise_rate="auto"``: measured before training, told in the result, as good as known."""

import json

import pytest
import torch

import noisebound as nb
from noisebound.training import TrainingConfig, fit
from noisebound.training.cross_fit import CrossFit
from noisebound.training.measure import measure_noise
from training_data import NOISE_RATE, noisy_clouds


def config(**changes):
    settings = {"epochs": 30, "batch_size": 30, "learning_rate": 3e-3, "average_epochs": 3}
    return TrainingConfig(**(settings | changes))


def many_clouds(kind="symmetric", rate=NOISE_RATE):
    splits = noisy_clouds(n=2000)
    clean = splits.train.true_labels
    generator = torch.Generator().manual_seed(1)
    noisy = nb.corrupt(clean, kind, rate, 4, generator=generator) if rate else None
    train = splits.train.with_labels(clean if noisy is None else noisy.labels)
    return type(splits)("clouds", train, splits.test, source="made")


def test_it_is_the_default(tmp_path):
    result = fit(many_clouds(), config(), tmp_path / "run")
    assert result.noise["noise_rate"] == pytest.approx(NOISE_RATE, abs=0.04)
    low, high = result.noise["interval"]
    assert low < NOISE_RATE < high
    assert result.bound == pytest.approx(nb.noise_bound(nb.CrossEntropy(), 1 / 3, 4), abs=0.08)
    assert result.bound_origin in ("estimated transition", "measured floor")
    assert "measured" in result.bound_reason or "held-out" in result.bound_reason
    stored = json.loads((tmp_path / "run" / "result.json").read_text())
    assert stored["noise"] == result.noise
    assert stored["bound_reason"] == result.bound_reason
    assert result.noise["floor"]["level"] == pytest.approx(result.bound, abs=0.15)
    assert result.final["averaged_test_top1"] > 0.95


@pytest.mark.parametrize("kind", ["symmetric", "pairwise"])
def test_the_structure_of_the_noise_is_found(kind):
    splits = many_clouds(kind, 0.4)
    found = measure_noise(splits.train, config(model="mlp")).estimate
    truth = nb.corrupt(splits.train.true_labels, kind, 0.4, 4, exact=True).transition
    torch.testing.assert_close(found.transition, truth, atol=0.12, rtol=0)


def test_clean_labels_are_left_in_peace(tmp_path):
    result = fit(many_clouds(rate=0.0), config(), tmp_path / "run")
    assert result.noise["noise_rate"] < 0.03
    assert result.bound < 0.15
    assert result.final["averaged_test_top1"] > 0.95


@pytest.mark.parametrize("loss", ["ce+b", "sce+b", "gce+b", "cep+b", "fce", "backward+b", "mse+b"])
def test_for_any_loss_that_needs_it(tmp_path, loss):
    result = fit(noisy_clouds(), config(loss=loss, epochs=6), tmp_path / "run")
    assert 0 < result.noise["noise_rate"] < 0.75
    assert (result.bound is not None) == loss.endswith("+b")
    assert (tmp_path / "run" / "cross-fit" / "both.safetensors").exists()


@pytest.mark.parametrize("changes", [{"loss": "ce"}, {"loss": "elr"}, {"loss": "ce+b", "bound": 1}])
def test_and_for_no_other(tmp_path, changes):
    result = fit(noisy_clouds(), config(epochs=2, **changes), tmp_path / "run")
    assert result.noise is None
    assert not (tmp_path / "run" / "cross-fit").exists()


def test_a_given_bound_does_not_say_what_to_correct(tmp_path):
    result = fit(noisy_clouds(), config(epochs=4, loss="fce+b", bound=0.7), tmp_path / "run")
    assert result.noise is not None
    assert (result.bound, result.bound_origin) == (0.7, "given")


def test_the_bound_is_the_lower_of_theory_and_measurement():
    noise = measure_noise(many_clouds("pairwise", 0.4).train, config(model="mlp"))
    plain = nb.CrossEntropy()
    chosen = noise.bound(plain)
    assert chosen.level == pytest.approx(
        min(nb.noise_bound(plain, noise.noise_rate, 4), noise.floor(plain).cautious_level)
    )
    assert chosen.origin == "measured floor"  # which knows that the noise is not symmetric
    corrected = noise.bound(nb.ForwardCrossEntropy(noise.transition))
    theory = nb.transition_bound(plain, noise.transition, noise.estimate.class_prior)
    assert corrected.level == pytest.approx(min(theory, noise.floor(plain).cautious_level))
    assert noise.bound(nb.BackwardCrossEntropy(noise.transition)).level == pytest.approx(
        0, abs=1e-6
    )


def test_a_training_that_is_stuck_is_told(tmp_path):
    """At this rate a network is soon sure and wrong, and the correction has no gradient there."""
    stuck = fit(many_clouds(), config(learning_rate=3e-2), tmp_path / "stuck")
    assert stuck.final["averaged_test_top1"] < 0.8
    assert stuck.is_stuck
    assert not fit(many_clouds(), config(), tmp_path / "run").is_stuck


def test_interrupted_while_measuring(tmp_path, monkeypatch):
    undisturbed = fit(noisy_clouds(), config(epochs=8), tmp_path / "whole")
    plain, calls = CrossFit._half, []

    def interrupted(self, is_held_out, title):
        calls.append(title)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return plain(self, is_held_out, title)

    monkeypatch.setattr(CrossFit, "_half", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fit(noisy_clouds(), config(epochs=8), tmp_path / "run")
    resumed = fit(noisy_clouds(), config(epochs=8), tmp_path / "run", resume=True)
    assert calls == [f"measuring the noise {number}/2" for number in (1, 2, 2)]
    assert resumed.noise == undisturbed.noise
    left, right = (tmp_path / run / "model.safetensors" for run in ("whole", "run"))
    assert left.read_bytes() == right.read_bytes()


class TestKnownTransition:
    matrix = ((0.7, 0.0, 0.0, 0.3), (0.3, 0.7, 0.0, 0.0), (0.0, 0.3, 0.7, 0.0), (0, 0, 0.3, 0.7))

    def test_it_is_used_for_the_loss_and_its_bound(self, tmp_path):
        result = fit(noisy_clouds(), config(transition=self.matrix, epochs=3), tmp_path / "run")
        assert result.bound == pytest.approx(nb.transition_bound(nb.CrossEntropy(), self.matrix))
        assert result.bound_origin == "given transition"
        assert result.noise["noise_rate"] == pytest.approx(0.3)
        assert not (tmp_path / "run" / "cross-fit").exists()

    def test_of_other_classes(self, tmp_path):
        with pytest.raises(ValueError, match="transition is of 2 classes, the data has 4"):
            fit(noisy_clouds(), config(transition=((1, 0), (0, 1))), tmp_path / "run")

    def test_not_beside_a_rate(self, tmp_path):
        with pytest.raises(ValueError, match="not both"):
            fit(noisy_clouds(), config(transition=self.matrix, noise_rate=0.3), tmp_path / "run")

    def test_its_transpose_is_refused(self, tmp_path):
        wrong = ((0.5, 0.5, 0.0, 0.0), (1, 0, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1))
        with pytest.raises(ValueError, match="pass its transpose"):
            fit(noisy_clouds(), config(transition=wrong), tmp_path / "run")


class TestGranularity:
    @pytest.mark.parametrize("granularity", ["example", "class", "running"])
    def test_the_raw_loss_is_what_is_measured(self, tmp_path, granularity):
        settings = config(loss="ce+b", noise_rate=NOISE_RATE, granularity=granularity)
        result = fit(noisy_clouds(), settings, tmp_path / "run")
        assert result.bound is not None
        assert result.final["train_loss"] > 0.3  # not the distance from the bound
        assert result.final["share_below"] is None

    def test_a_running_mean_is_resumed(self, tmp_path):
        settings = config(loss="ce+b", noise_rate=NOISE_RATE, granularity="running", epochs=6)
        whole = fit(noisy_clouds(), settings, tmp_path / "whole")
        fit(noisy_clouds(), settings, tmp_path / "run", checkpoint_seconds=0)
        folder = tmp_path / "run"
        (folder / "result.json").unlink()
        max((folder / "checkpoints").iterdir()).unlink()  # back by an epoch
        resumed = fit(noisy_clouds(), settings, folder, resume=True)
        assert resumed.final | {"seconds": 0} == whole.final | {"seconds": 0}

    def test_without_a_bound_it_means_nothing(self, tmp_path):
        with pytest.raises(ValueError, match="granularity is one of the bound"):
            fit(noisy_clouds(), config(loss="ce", granularity="example"), tmp_path / "run")


class TestMemorizing:
    def test_plain_training_is_watched(self, tmp_path):
        settings = config(loss="ce", noise_rate=NOISE_RATE, epochs=60)
        result = fit(noisy_clouds(), settings, tmp_path / "run")
        assert 1 < result.memorizing_since < 60

    @pytest.mark.parametrize("changes", [{"loss": "ce+b", "noise_rate": 0.3}, {"loss": "ce"}])
    def test_not_with_a_bound_nor_without_a_rate(self, tmp_path, changes):
        result = fit(noisy_clouds(), config(**changes), tmp_path / "run")
        assert result.memorizing_since is None


class TestWhatCannotBeMeasured:
    """Then it is said, and no harm is done."""

    slow = {"learning_rate": 1e-4, "batch_size": 400, "epochs": 16}  # noqa: RUF012

    @pytest.mark.parametrize("loss", ["fce+b", "ce+b", "cep+b"])
    def test_training_is_plain(self, tmp_path, loss):
        result = fit(many_clouds(rate=0.0), config(loss=loss, **self.slow), tmp_path / "run")
        assert result.bound_origin == "not measured"
        assert result.bound == pytest.approx(0, abs=1e-6)
        assert "still learning when their epochs ended" in result.bound_reason
        assert result.noise["warnings"]
        plain = fit(many_clouds(rate=0.0), config(loss="ce", **self.slow), tmp_path / "plain")
        if loss != "cep+b":
            assert result.final["test_top1"] == plain.final["test_top1"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": "elr+b"}, r"elr has no noise-bound.*--bound"),
        ({"loss": "truncated+b"}, "truncated has no noise-bound"),
        ({"loss": "ce+b", "bound_classes": 2}, "bound_classes enters the noise-bound of a"),
        ({"loss": "ce+b", "bound_classes": 2, "bound": 1.0}, "bound_classes enters"),
        ({"loss": "gce", "transition": TestKnownTransition.matrix}, "no use for a transition"),
        ({"loss": "mixup", "transition": TestKnownTransition.matrix}, "no use for a transition"),
    ],
)
def test_refused_before_anything_is_measured(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        fit(noisy_clouds(), config(**changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_too_few_to_measure(tmp_path):
    with pytest.raises(ValueError, match=r"too few to estimate their noise.*--noise-rate"):
        fit(noisy_clouds(n=16), config(), tmp_path / "run")
    fit(noisy_clouds(n=16), config(noise_rate=0.3, epochs=2), tmp_path / "run")  # it is not taken


def test_a_loss_by_any_spelling():
    assert config(loss="FCE+B") == config(loss="fce+b")
