"""From photos and texts to a trained model that embeds new data by itself."""

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from commands import command
from PIL import Image

import noisebound as nb
from noisebound.data import load
from noisebound.errors import DataError, InvalidValueError, RunError
from noisebound.features import UnsuitedTextWarning, load_embedded, parse_backbone

QUICK = {"loss": "ce+b", "noise_rate": 0.1, "epochs": 30, "learning_rate": 1e-2, "show": False}


@pytest.fixture(scope="module")
def photo_run(lasting_photos, onnx_file, tmp_path_factory):
    """A run on photos, trained once for the tests that only use it."""
    folder = tmp_path_factory.mktemp("photos")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NOISEBOUND_CACHE", str(folder / "cache"))
        backbone = f"onnx:{onnx_file}"
        return nb.fit(lasting_photos, out=folder / "run", backbone=backbone, **QUICK)


def test_photos(photo_run, photos, onnx_file, tmp_path):
    card = photo_run.saved_model.card
    assert card.model == "mlp_head"
    assert card.input_shape == (1280,)
    assert card.backbone.name == f"onnx:{onnx_file}"
    new = tmp_path / "new"
    new.mkdir()
    for name in ("stripes", "blobs"):
        shutil.copy(photos / name / "07.png", new / f"{name}.png")
    predictions = nb.load_run(photo_run.path).predictions(new)
    assert predictions["example"].to_list() == ["blobs.png", "stripes.png"]
    assert predictions["label"].to_list() == ["blobs", "stripes"]
    paths = [new / "stripes.png", new / "blobs.png"]
    for listed in (paths, list(map(str, paths)), np.array(list(map(str, paths)))):
        assert photo_run.predict(listed).tolist() == ["stripes", "blobs"]
    assert photo_run.predictions(paths)["example"].to_list() == list(map(str, paths))
    pixels = np.array(Image.open(new / "blobs.png"))[None]
    assert photo_run.predict(pixels).tolist() == ["blobs"]


def test_suspects_and_pages_show_the_images(photo_run, tmp_path, capsys):
    assert "data:image" in (photo_run.path / "report.html").read_text()
    out = tmp_path / "suspects.csv"
    assert command("suspects", photo_run.path, "--out", out) == 0
    assert pl.read_csv(out)["example"][0].endswith(".png")
    assert "data:image" in out.with_suffix(".html").read_text()
    assert nb.load_run(photo_run.path).suspects()["example"].to_list() == (
        pl.read_csv(out)["example"].to_list()
    )


def test_another_encoders_weights_are_refused(photo_run, photos, onnx_file, tmp_path):
    moved = shutil.copy(onnx_file, tmp_path / "moved.onnx")
    run = nb.load_run(photo_run.path, backbone=f"onnx:{moved}")
    assert run.predict(photos).shape == (40,)
    content = bytearray(onnx_file.read_bytes())
    content[len(content) // 2] ^= 1
    moved.write_bytes(content)
    with pytest.raises(RunError, match="is another encoder than the model was trained with"):
        nb.load_run(photo_run.path, backbone=f"onnx:{moved}").predict(photos)
    with pytest.raises(DataError, match="embeddings of 1280 numbers, got vectors of 384"):
        photo_run.predict(np.zeros((2, 384), dtype=np.float32))


def test_texts(reviews, minilm, tmp_path):
    run = nb.fit(reviews, out=tmp_path / "run", backbone=f"hf:{minilm}", model="linear", **QUICK)
    assert run.saved_model.card.model == "linear"
    new = ["A wolf howls in the woods.", "Investors sold their stocks."]
    assert nb.load_run(run.path).predict(new).tolist() == ["animals", "money"]
    assert run.suspects(reviews).height == 60


@pytest.mark.filterwarnings("always::noisebound.features.UnsuitedTextWarning")
def test_a_note_counts_texts_that_are_cut(minilm, tmp_path, capsys):
    texts = ["dogs bark " * 200, "a dog", "the bank", "shares fell"] * 2
    data = (texts, ["animals", "animals", "money", "money"] * 2)
    said = "2 of 8 texts exceed the limit of the encoder, and were cut"
    for _ in range(2):  # the second time, from the cache
        parsed = parse_backbone(f"hf:{minilm}")
        splits = load_embedded(data, parsed)
        assert splits.notes[-1] == said
    settings = QUICK | {"epochs": 1, "report": False}
    run = nb.fit(data, out=tmp_path / "run", backbone=f"hf:{minilm}", **settings)
    for _ in range(2):
        with pytest.warns(UnsuitedTextWarning, match=said):
            run.predict(texts)
    pl.DataFrame({"text": texts}).write_csv(tmp_path / "new.csv")
    capsys.readouterr()
    words = ("predict", run.path, tmp_path / "new.csv", "--out", tmp_path / "labels.csv")
    assert command(*words) == 0
    assert f"note: {said}" in capsys.readouterr().err


def test_a_users_module(tmp_path):
    digits = load("digits")
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 20))
    run = nb.fit(digits, out=tmp_path / "run", backbone=module, **{**QUICK, "epochs": 5})
    assert run.predict(digits).shape == (540,)
    with pytest.raises(RunError, match="pass the same module or function as `backbone`"):
        nb.load_run(run.path).predict(digits)
    again = nb.load_run(run.path, backbone=module).predict(digits)
    assert (again == run.predict(digits)).all()


def test_rows_of_numbers_are_embedded_too(tmp_path):
    rows = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    labels = (rows[:, 0] > 0).astype(int)
    module = torch.nn.Linear(4, 4)  # vectors as long as the rows themselves
    module.weight.data = -torch.eye(4)
    run = nb.fit((rows, labels), out=tmp_path / "run", backbone=module, **QUICK)
    assert (run.predict(rows) == labels).mean() > 0.9


def test_the_size_of_images_is_remembered(photos, tmp_path):
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 8, 4))
    settings = {**QUICK, "epochs": 1}
    run = nb.fit(photos, out=tmp_path / "run", backbone=module, image_size=8, **settings)
    again = nb.load_run(run.path, backbone=module).predictions(photos)
    assert again.equals(run.predictions(photos))


def test_wrong_data_for_a_backbone(minilm, onnx_file, reviews, tmp_path):
    with pytest.raises(DataError, match="takes texts, and these examples are images"):
        nb.fit("digits", out=tmp_path / "run", backbone=f"hf:{minilm}", **QUICK)
    rows = (np.zeros((4, 3)), [0, 1, 0, 1])
    labeled = (["cat.png", "dog.png"], ["cat", "dog"])
    with pytest.raises(DataError, match=r"are texts: .*paths of images, give the folder that"):
        nb.fit(labeled, out=tmp_path / "run", backbone=f"onnx:{onnx_file}", **QUICK)
    labeled = (list(map(Path, labeled[0])), labeled[1])
    with pytest.raises(DataError, match="give images by the path of their folder"):
        nb.fit(labeled, out=tmp_path / "run", backbone=f"onnx:{onnx_file}", **QUICK)
    with pytest.raises(DataError, match="takes images, and these examples are rows of numbers"):
        nb.fit(rows, out=tmp_path / "run", backbone=f"onnx:{onnx_file}", **QUICK)
    with pytest.raises(DataError, match="60 texts but 1 labels"):
        nb.fit((reviews[0], ["a"]), out=tmp_path / "run", backbone=f"hf:{minilm}", **QUICK)
    with pytest.raises(InvalidValueError, match="leave `image_size` out"):
        nb.fit("digits", out=tmp_path / "run", backbone=f"onnx:{onnx_file}", image_size=8, **QUICK)


def test_the_commands(photos, onnx_file, tmp_path, capsys):
    (photos / "blobs" / "03.png").write_bytes(b"not an image")
    backbone = ["--backbone", f"onnx:{onnx_file}"]
    run = tmp_path / "run"
    fit = ["fit", photos, *backbone, "--out", run, "--loss", "ce", "--epochs", "2", "--json"]
    assert command(*fit) == 2
    assert "leave them out with --skip-bad" in capsys.readouterr().err
    assert command(*fit, "--skip-bad") == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["out"] == str(run)
    assert "the embeddings of 40 images are in the cache" in shown.err
    assert "1 images that cannot be read were left out" in shown.err
    labels = tmp_path / "labels.csv"
    assert command("predict", run, photos, "--skip-bad", "--out", labels, *backbone) == 0
    assert pl.read_csv(labels).height == 39


def test_the_noise_is_estimated_on_embeddings(photos, onnx_file, capsys):
    for name in ("stripes", "blobs"):
        for number in range(60):
            shutil.copy(
                photos / name / f"{number % 20:02}.png", photos / name / f"more{number}.png"
            )
    estimate = ["estimate", photos, "--backbone", f"onnx:{onnx_file}", "--epochs", 20, "--json"]
    assert command(*estimate) == 0
    shown = capsys.readouterr()
    assert "embedding 160 images" in shown.err
    record = json.loads(shown.out)
    found = record.get("rejected") or record  # so few epochs may be too few to believe it
    assert found["noise_rate"] < 0.1
