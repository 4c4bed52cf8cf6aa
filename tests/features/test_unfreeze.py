"""Fine-tuning: the encoder is trained too, through the one loop, and saved with the run."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from commands import command
from lightning_fabric import Fabric
from safetensors.torch import load_file
from transformers import AutoModel
from tuning import EXACT, SmallEncoder, texts_and_numbers, tune_images, tune_texts

import noisebound as nb
from noisebound.data.rows import as_rows
from noisebound.errors import DataError, InvalidValueError, RunError
from noisebound.features import Texts, load_embedded, parse_backbone
from noisebound.runs import train_run
from noisebound.runs.keeper import read_metrics
from noisebound.training import TrainingConfig
from noisebound.training.fine_tuning import FineTuned, encoder_inputs
from processes import environment
from training_data import noisy_images


@pytest.fixture(scope="session")
def short_minilm(minilm, tmp_path_factory):
    """Return the real encoder cut to one layer, and without dropout, whose masks are random."""
    folder = tmp_path_factory.mktemp("models") / "minilm"
    shutil.copytree(minilm, folder, ignore=shutil.ignore_patterns("*.safetensors", "*.bin"))
    network = AutoModel.from_pretrained(
        minilm, num_hidden_layers=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    network.save_pretrained(folder)
    return folder


def exact(devices=1):
    fabric = Fabric(accelerator="cpu", devices=devices, precision="64-true")
    fabric.launch()
    return fabric


@pytest.fixture(scope="module")
def image_run(tmp_path_factory):
    return tune_images(tmp_path_factory.mktemp("tuned") / "run", fabric=exact())


@pytest.fixture(scope="module")
def text_run(short_minilm, tmp_path_factory):
    return tune_texts(tmp_path_factory.mktemp("tuned") / "run", short_minilm, fabric=exact())


def difference(one, other):
    """The largest between the weights of two runs, those of the encoder included."""
    found = 0.0
    for name in ("encoder.safetensors", "model.safetensors"):
        ours, theirs = load_file(one / name), load_file(other / name)
        assert ours.keys() == theirs.keys()
        found = max(found, *((ours[key] - theirs[key]).abs().max().item() for key in ours))
    return found


def crosses_its_bound(run):
    shares = [epoch.share_below for epoch in run.epochs]
    return 0 < sum(shares) < len(shares)


def test_the_encoder_is_trained_and_the_users_own_is_not(image_run):
    before, after = SmallEncoder().state_dict(), load_file(image_run.path / "encoder.safetensors")
    changed = {name for name in before if not torch.equal(before[name].double(), after[name])}
    assert changed == {
        "layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias",
        "layers.4.weight", "layers.4.bias",
    }  # batch norm's statistics and the unused layer stay  # fmt: skip


def test_fine_tuning_starts_like_a_head_on_frozen_embeddings(tmp_path):
    settings = {**EXACT, "epochs": 1, "batch_size": 48, "loss": "ce", "bound": None}
    frozen = nb.fit(noisy_images(), out=tmp_path / "frozen", backbone=SmallEncoder(), **settings)
    tuned = tune_images(tmp_path / "tuned", **settings)
    assert tuned.epochs[0].train_loss == pytest.approx(frozen.epochs[0].train_loss, rel=1e-5)


def test_the_saved_model_is_the_one_that_was_evaluated(image_run, tmp_path):
    images = noisy_images()
    said = nb.load_run(image_run.path, backbone=SmallEncoder()).predict_proba(images)
    assert np.array_equal(said, image_run.predict_proba(images))
    accuracy = (said.argmax(1) == images.test.labels.numpy()).mean()
    assert accuracy == image_run.final("test_top1")
    assert image_run.suspects().height == 48
    assert image_run.backbone.fingerprint != parse_backbone(SmallEncoder()).fingerprint


def test_texts_and_the_columns_beside_them(text_run):
    new = texts_and_numbers()
    assert text_run.saved_model.card.input_shape == (385,)
    again = nb.load_run(text_run.path)
    assert np.array_equal(again.predict_proba(new), text_run.predict_proba(new))
    other_stars = again.predict_proba(new.with_columns(stars=10 - pl.col("stars")))
    assert not np.allclose(other_stars, again.predict_proba(new))
    assert again.suspects(new).height == 24
    validation_loss = text_run.epochs[-1].averaged_validation_loss
    assert validation_loss is not None


def test_dead_dimensions_of_a_whole_encoder_stay_small(reviews, minilm, tmp_path):
    """MiniLM's last layer has some that vary by at most 1e-9; once they dominated all others."""
    texts, labels = reviews
    settings = {**EXACT, "epochs": 2, "batch_size": 10, "learning_rate": 1e-3, "loss": "ce"}
    settings |= {"bound": None, "backbone": f"hf:{minilm}", "out": tmp_path / "run"}
    run = nb.fit((texts, labels), unfreeze=True, **settings)
    assert min(run.saved_model.card.std) > 1e-4
    assert (run.predict(texts) == np.array(labels)).all()


@pytest.mark.parametrize("kind", ["images", "texts"])
def test_the_bound_is_exact_over_micro_batches(kind, image_run, text_run, short_minilm, tmp_path):
    if kind == "images":
        whole, parts = image_run, tune_images(tmp_path / "run", accumulate=3, fabric=exact())
    else:
        whole = text_run
        parts = tune_texts(tmp_path / "run", short_minilm, accumulate=4, fabric=exact())
    assert crosses_its_bound(whole)
    assert difference(whole.path, parts.path) < 1e-9


def test_large_batches_are_split_automatically(tmp_path, monkeypatch):
    sizes = []
    forward = FineTuned.forward
    monkeypatch.setattr(
        FineTuned, "forward", lambda self, x: sizes.append(len(x)) or forward(self, x)
    )
    tune_images(tmp_path / "run", batch_size=48, epochs=1)
    assert max(sizes) <= 32


def test_two_ranks_train_as_one(image_run, text_run, short_minilm, tmp_path):
    script = Path(__file__).with_name("tuning.py")
    command = [sys.executable, script, "2", tmp_path, short_minilm]
    result = subprocess.run(
        command, capture_output=True, text=True, env=environment(), timeout=1200
    )
    assert result.returncode == 0, result.stderr
    assert difference(tmp_path / "images", image_run.path) < 1e-6
    assert difference(tmp_path / "texts", text_run.path) < 1e-6


def test_an_interrupted_run_ends_with_the_same_bits(tmp_path):
    config = TrainingConfig(
        loss="ce+b", noise_rate=0.3, unfreeze=True, model="mlp_head", epochs=4, batch_size=20
    )
    backbone = parse_backbone(SmallEncoder())
    splits = load_embedded(noisy_images(), backbone)
    whole, folder = tmp_path / "whole", tmp_path / "run"
    train_run(splits, config, whole, backbone=backbone, checkpoint_seconds=0, show=False)
    shutil.copytree(whole, folder)
    for name in ("result.json", "model.json", "model.safetensors", "encoder.safetensors"):
        (folder / name).unlink()
    (folder / "checkpoints" / "epoch-000004.safetensors").unlink()
    train_run(splits, config, folder, backbone=backbone, resume=True, show=False)
    for name in ("model.safetensors", "encoder.safetensors", "model.json"):
        assert (folder / name).read_bytes() == (whole / name).read_bytes()
    assert len(read_metrics(folder / "metrics.jsonl")) == 4


def test_the_encoder_has_a_lower_rate_and_both_warm_up(tmp_path, monkeypatch):
    rates = []
    step = torch.optim.Adam.step

    def watched(self, closure=None):
        rates.append([group["lr"] for group in self.param_groups])
        return step(self, closure)

    monkeypatch.setattr(torch.optim.Adam, "step", watched)
    tune_images(tmp_path / "run", epochs=2, encoder_rate=0.1, learning_rate=1e-2, warmup_epochs=0.5)
    assert len(rates) == 8  # 43 examples in batches of 14, twice
    encoder, head = np.array(rates).T
    assert encoder == pytest.approx(0.1 * head)
    assert head == pytest.approx([0.5e-2, *[1e-2] * 7])


def test_bf16(short_minilm, tmp_path):
    fabric = Fabric(accelerator="cpu", devices=1, precision="bf16-mixed")
    fabric.launch()
    run = tune_texts(tmp_path / "run", short_minilm, epochs=1, fabric=fabric)
    weights = load_file(run.path / "encoder.safetensors")
    assert {value.dtype for value in weights.values()} == {torch.float32}
    assert run.predict_proba(texts_and_numbers()).shape == (24, 2)


@pytest.mark.filterwarnings("ignore::noisebound.training.UnknownNoiseWarning")
def test_the_noise_is_estimated_on_frozen_embeddings(tmp_path):
    """Also if the estimate is rejected, by heads that train for longer than the encoder."""
    settings = {"epochs": 1, "batch_size": 40, "show": False, "report": False, "augment": True}
    run = nb.fit(
        noisy_images(120), out=tmp_path / "run", backbone=SmallEncoder(), unfreeze=True, **settings
    )
    assert run.recipe is not None
    assert run.config.learner == "auto"
    assert run.noise.out_of_fold is not None
    assert len(run.epochs) == 1
    assert run.suspects().height == 120


class Initials(torch.nn.Module):
    """How often each letter occurs, each with a weight that can be trained."""

    def __init__(self):
        super().__init__()
        self.weights = torch.nn.Parameter(torch.ones(26))

    def forward(self, texts):
        counts = [[float(text.count(chr(97 + k))) for k in range(26)] for text in texts]
        return self.weights * torch.tensor(counts)


def test_a_users_module_that_takes_texts(reviews, tmp_path):
    settings = {**EXACT, "epochs": 1, "bound": 0.1}
    run = nb.fit(reviews, out=tmp_path / "run", backbone=Initials(), unfreeze=True, **settings)
    weights = load_file(run.path / "encoder.safetensors")["module.weights"]
    assert not torch.equal(weights, torch.ones(26))
    assert nb.load_run(run.path, backbone=Initials()).predict(["a dog"]).shape == (1,)


def test_an_example_that_a_person_found_unusable_is_left_out(reviews, tmp_path):
    settings = {**EXACT, "epochs": 1, "bound": 0.1, "backbone": Initials()}
    checked = nb.fit(reviews, out=tmp_path / "checked", **settings)
    for position in range(10):  # some of them validation's
        checked.decide(position, None, by="a test")
    decisions = checked.folder.decisions
    run = nb.fit(reviews, out=tmp_path / "run", unfreeze=True, corrections=decisions, **settings)
    assert run.final("validation_top1") is not None


def test_the_command(short_minilm, tmp_path, capsys):
    texts_and_numbers().write_csv(tmp_path / "all.csv")
    words = ["fit", tmp_path / "all.csv", "--target", "label", "--text", "text", "--unfreeze"]
    words += ["--backbone", f"hf:{short_minilm}", "--encoder-rate", 0.05, "--epochs", 1]
    words += ["--noise-rate", 0.1, "--out", tmp_path / "run", "--json"]
    assert command(*words) == 0
    assert json.loads(capsys.readouterr().out)["final"]["epoch"] == 1
    labels = tmp_path / "labels.csv"
    assert command("predict", tmp_path / "run", tmp_path / "all.csv", "--out", labels) == 0
    assert pl.read_csv(labels).height == 24


def test_encoders_that_cannot_be_trained(reviews, tmp_path):
    (tmp_path / "net.onnx").touch()  # refused before anything is read
    settings = {"out": tmp_path / "run", "unfreeze": True, "show": False, "loss": "ce"}
    with pytest.raises(InvalidValueError, match="which has no gradients"):
        nb.fit("digits", backbone=f"onnx:{tmp_path / 'net.onnx'}", **settings)
    with pytest.raises(InvalidValueError, match="which has no gradients"):
        nb.fit(reviews, backbone=lambda texts: [[len(text)] for text in texts], **settings)
    with pytest.raises(InvalidValueError, match="trains the encoder of a `backbone`"):
        nb.fit("digits", **settings)
    with pytest.raises(InvalidValueError, match="texts cannot be blended"):
        nb.fit(reviews, backbone=Initials(), **settings | {"loss": "mixup"})


def test_a_damaged_or_missing_encoder(image_run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(image_run.path, folder)
    content = bytearray((folder / "encoder.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "encoder.safetensors").write_bytes(content)
    with pytest.raises(DataError, match="does not match its checksum"):
        nb.load_run(folder, backbone=SmallEncoder()).predict(noisy_images())
    (folder / "encoder.safetensors").unlink()
    with pytest.raises(RunError, match=r"lacks encoder\.safetensors"):
        nb.load_run(folder, backbone=SmallEncoder()).predict(noisy_images())


def test_tokens_are_padded_to_the_longest_of_a_batch():
    examples = Texts(["ab", "abcde", "", "abc"])
    beside = as_rows(torch.tensor([[0.5], [-1.0], [1e-30]]))
    rows = encoder_inputs(parse_backbone(Initials()), examples.select([0, 1, 3]), beside)
    assert rows.shape == (3, 6)
    batch = rows.select(torch.tensor([2, 0])).dense(torch.arange(2))
    assert batch[:, 1:].tolist() == [[97, 98, 99], [97, 98, -1]]
    assert batch[:, :1].contiguous().view(torch.float32).flatten().tolist() == [
        pytest.approx(1e-30), 0.5,
    ]  # fmt: skip
