"""Folders of embeddings: made here or on a cluster, and trained on like any other data."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from commands import command
from PIL import Image

import noisebound as nb
from noisebound.data import ReadingOptions, load
from noisebound.errors import DataError, FolderTakenError, RunError
from noisebound.features import parse_backbone
from noisebound.features.examples import load_raw
from noisebound.features.load import embed_folder, load_embedded

TESTS = Path(__file__).parents[1]


class MeanColor(torch.nn.Module):
    """The mean color of images, times a number."""

    def __init__(self, factor=1.0):
        super().__init__()
        self.factor = torch.nn.Parameter(torch.tensor(factor))

    def forward(self, images):
        return self.factor * images.mean((2, 3))


def colors(factor=1.0):
    return parse_backbone(MeanColor(factor), image_size=8)


def test_a_folder_of_embeddings_is_data_like_any_other(photos, onnx_file, tmp_path, capsys):
    vectors = tmp_path / "vectors"
    backbone = ["--backbone", f"onnx:{onnx_file}"]
    assert command("embed", photos, *backbone, "--out", vectors) == 0
    assert "40 examples" in capsys.readouterr().out
    data = load(vectors)
    assert data.train.inputs.shape == (40, 1280)
    assert data.train.class_names == ("blobs", "stripes")
    assert data.train_names[0] == "blobs/00.png"
    run = tmp_path / "run"
    assert command("fit", vectors, "--out", run, "--loss", "ce", "--epochs", 20) == 0
    trained = nb.load_run(run)
    assert trained.config.model == "mlp_head"
    assert trained.predictions(photos)["label"][0] == "blobs"
    assert trained.suspects().height == 40
    assert trained.predictions(vectors)["example"][0] == "blobs/00.png"
    with pytest.raises(DataError, match="holds embeddings already"):
        nb.fit(vectors, out=tmp_path / "other", backbone=f"onnx:{onnx_file}", show=False)


def test_a_model_on_embedded_texts_takes_tables_of_texts(reviews, minilm, tmp_path, capsys):
    texts, labels = reviews
    authors = [f"author {place // 2:03}" for place in range(len(labels))]
    table = pl.DataFrame({"review": texts, "label": labels, "other": labels, "author": authors})
    table.write_csv(tmp_path / "all.csv")
    vectors, backbone = tmp_path / "vectors", f"hf:{minilm}"
    options = ["--target", "label", "other", "--text", "review", "--backbone", backbone]
    options += ["--group", "author"]
    assert command("embed", tmp_path / "all.csv", *options, "--out", vectors) == 0
    train = load(vectors).train
    assert train.groups.tolist() == [place // 2 for place in range(len(labels))]
    assert train.annotators == ("label", "other")
    assert torch.equal(train.votes, train.labels[:, None].expand(-1, 2))
    run = nb.fit(vectors, out=tmp_path / "run", loss="ce", epochs=20, show=False)
    assert (run.predict(tmp_path / "all.csv") == labels).all()


def test_a_finished_folder_is_kept_and_one_of_other_data_refused(photos, tmp_path):
    raw = load_raw(photos)
    embed_folder(raw, colors(), tmp_path / "vectors")
    before = (tmp_path / "vectors" / "train.safetensors").stat().st_mtime_ns
    embed_folder(raw, colors(), tmp_path / "vectors")
    assert (tmp_path / "vectors" / "train.safetensors").stat().st_mtime_ns == before
    with pytest.raises(FolderTakenError, match="by another backbone"):
        embed_folder(raw, colors(2.0), tmp_path / "vectors")


def test_vectors_of_another_encoder_are_refused(photos, tmp_path):
    raw = load_raw(photos)
    embed_folder(raw, colors(), tmp_path / "ones")
    embed_folder(raw, colors(2.0), tmp_path / "twos")
    run = nb.fit(tmp_path / "ones", out=tmp_path / "run", loss="ce", epochs=1, show=False)
    with pytest.raises(RunError, match="which is another encoder, or has other weights"):
        run.predict(tmp_path / "twos")


def test_damaged_folders(photos, tmp_path):
    vectors = tmp_path / "vectors"
    embed_folder(load_raw(photos), colors(), vectors)
    whole = (vectors / "train.safetensors").read_bytes()
    (vectors / "train.safetensors").write_bytes(whole[:100])
    with pytest.raises(DataError, match="is damaged or of another format"):
        load(vectors)
    (vectors / "train.safetensors").unlink()
    with pytest.raises(DataError, match="is missing, or is of other data"):
        load(vectors)
    (vectors / "embeddings.json").write_text("{}")
    with pytest.raises(DataError, match=r"embeddings\.json is damaged"):
        load(vectors)


def test_a_class_that_loses_all_its_images_is_refused(photos, tmp_path):
    for path in (photos / "blobs").iterdir():
        path.write_bytes(b"not an image")
    message = "no readable image is left of the class blobs: "
    with pytest.raises(DataError, match=message):
        load_embedded(photos, colors(), ReadingOptions(skip_bad=True))
    with pytest.raises(DataError, match=message):
        embed_folder(load_raw(photos), colors(), tmp_path / "out", skip_bad=True)


def test_a_function_is_refused(photos, tmp_path):
    with pytest.raises(ValueError, match="make it the forward of an nn"):
        embed_folder(load_raw(photos), parse_backbone(len), tmp_path / "vectors")


def test_a_ray_cluster_finds_the_same_vectors_even_if_an_actor_is_killed(
    photos, onnx_file, tmp_path
):
    paths = filter(None, [str(TESTS), os.environ.get("PYTHONPATH")])
    script = Path(__file__).parent / "ray_embedding.py"
    result = subprocess.run(
        [sys.executable, script, tmp_path, photos, onnx_file],
        capture_output=True,
        text=True,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
    )
    assert result.returncode == 0, result.stderr
    backbone = parse_backbone(f"onnx:{onnx_file}")
    embed_folder(load_raw(photos), backbone, tmp_path / "here")
    here, there = (load(tmp_path / name).train for name in ("here", "undisturbed"))
    torch.testing.assert_close(here.inputs, there.inputs, atol=1e-5, rtol=1e-5)
    assert torch.equal(here.labels, there.labels)
    assert (tmp_path / "killed").exists()
    embed_folder(load_raw(photos), colors(), tmp_path / "colors")
    disturbed = load(tmp_path / "disturbed").train.inputs
    torch.testing.assert_close(disturbed, load(tmp_path / "colors").train.inputs)


def test_labels_are_in_a_parquet_file(photos, tmp_path):
    embed_folder(load_raw(photos), colors(), tmp_path / "vectors")
    table = pl.read_parquet(tmp_path / "vectors" / "train.parquet")
    assert table.columns == ["example", "label"]
    assert table.height == 40


def test_embed_uses_the_cache_of_fit(reviews, minilm, tmp_path, capsys):
    texts, labels = reviews
    pl.DataFrame({"review": texts, "label": labels}).write_csv(tmp_path / "all.csv")
    words = [tmp_path / "all.csv", "--target", "label", "--text", "review"]
    words += ["--backbone", f"hf:{minilm}"]
    batches = []
    count = torch.nn.modules.module.register_module_forward_hook(
        lambda module, *_: batches.append(module) if type(module).__name__ == "BertModel" else None
    )
    with count:
        run = ["--loss", "ce", "--epochs", 1, "--out", tmp_path / "run"]
        assert command("fit", *words, *run) == 0
        made = len(batches)
        assert made > 0
        assert command("embed", *words, "--out", tmp_path / "vectors") == 0
        assert len(batches) == made
    assert "are in the cache" in " ".join(capsys.readouterr().err.split())
    expected = load_embedded(
        tmp_path / "all.csv",
        parse_backbone(f"hf:{minilm}"),
        ReadingOptions(target="label", text="review"),
    )
    assert torch.equal(load(tmp_path / "vectors").train.inputs, expected.train.dense_inputs)


def test_several_labels_of_images_beside_a_table(tmp_path):
    rng, rows = np.random.default_rng(0), []
    (tmp_path / "photos").mkdir()
    for place in range(80):
        has = {"red": place % 2, "green": place // 2 % 2}
        color = (rng.random(3) * 60 + [180 * has["red"], 180 * has["green"], 0]).astype(np.uint8)
        Image.new("RGB", (8, 8), tuple(color.tolist())).save(tmp_path / "photos" / f"{place}.png")
        rows.append({"file": f"{place}.png"} | has | ({"red": None} if place == 4 else {}))
    pl.DataFrame(rows).write_csv(tmp_path / "photos" / "labels.csv")
    options = {"targets": ("red", "green"), "show": False, "report": False, "quick": True}
    run = nb.fit(tmp_path / "photos", backbone=colors(), out=tmp_path / "run", **options)
    found = run.predictions(tmp_path / "photos")
    assert found.columns[:3] == ["example", "red", "green"]
    by_name = {row["example"]: row for row in found.iter_rows(named=True)}
    for place in (0, 5, 6, 7):
        assert (by_name[f"{place}.png"]["red"], by_name[f"{place}.png"]["green"]) == (
            place % 2,
            place // 2 % 2,
        )
    assert run.suspects()["id"].str.ends_with(".png").all()
    assert len(run.runs["red"].training_data().train) == 79

    raw = load_raw(tmp_path / "photos", ReadingOptions(targets=("red", "green")))
    embed_folder(raw, colors(), tmp_path / "vectors")
    vectors = load(tmp_path / "vectors")
    assert vectors.train.label_names == ("red", "green")
    assert vectors.train.label_matrix[4].tolist() == [-1, 0]
    assert vectors.of_label("red").train.inputs.shape == (79, 3)
