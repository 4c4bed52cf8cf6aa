"""Tables in memory of every origin come in by one door."""

import json
import subprocess
import sys

import datasets
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import torch

import noisebound as nb
from noisebound.data import DataError, ReadingOptions, load, read, read_unlabeled
from noisebound.features.examples import load_raw
from published_files import encoded_image, plain_image, some_images

RNG = np.random.default_rng(0)
ROWS = {"x": [0.5, None, 2.0, 3.0] * 5, "color": ["red", "NA", "blue", "red"] * 5}
KIND = [0, 1] * 10
NAMES = ["no", "yes"]
CLASSES = datasets.ClassLabel(names=NAMES)


def hub(columns, **features):
    found = datasets.Dataset.from_dict(columns)
    for name, feature in features.items():
        found = found.cast_column(name, feature)
    return found


def tables():
    frame = pl.DataFrame(ROWS | {"kind": [NAMES[k] for k in KIND]})
    return {
        "polars": frame,
        "pandas": frame.to_pandas(),
        "pyarrow": frame.to_arrow(),
        "batch": frame.to_arrow().to_batches()[0],
        "hub": hub(ROWS | {"kind": KIND}, kind=CLASSES),
    }


@pytest.mark.parametrize("origin", tables())
def test_one_table_from_every_package(origin):
    expected, found = (load(tables()[name], target="kind").train for name in ("polars", origin))
    assert found.class_names == ("no", "yes")
    assert torch.equal(found.labels, expected.labels)
    assert torch.equal(found.inputs, expected.inputs)
    new = tables()[origin]
    assert read_unlabeled(new).frame.equals(read_unlabeled(tables()["polars"]).frame)


def test_columns_of_one_name_are_refused():
    twice = pa.table([pa.array([1, 2]), pa.array([3, 4])], names=["a", "a"])
    with pytest.raises(DataError, match="several columns called 'a'"):
        load(twice, target="a")


def test_a_package_is_imported_only_by_those_who_use_it():
    code = (
        "import sys, polars, noisebound as nb; from noisebound.data import load;"
        "load(polars.DataFrame({'x': [1.0, 2.0] * 9, 'y': [0, 1] * 9}), target='y');"
        "sys.exit(len({'pandas', 'pyarrow', 'datasets'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_labels_and_texts_are_found_by_their_features():
    texts = [f"word{i} and word{i % 3} are here" for i in range(20)]
    splits = read(hub({"review": texts, "sentiment": KIND}, sentiment=CLASSES))
    assert splits.train.class_names == ("no", "yes")
    assert splits.train.labels.tolist() == KIND
    assert splits.texts() == texts
    assert load_raw(hub({"review": texts, "label": KIND})).examples["train"].values == texts
    # what the user names comes first
    two = hub({"a": texts, "b": texts, "label": KIND}, label=CLASSES)
    assert list(read(two, ReadingOptions(text="b")).encoder.text_columns) == ["b"]
    with pytest.raises(DataError, match="name the column of labels"):
        read(hub({"review": texts, "score": KIND}))


def test_other_columns_of_classes_are_categories():
    both = hub({"size": KIND, "label": KIND, "x": RNG.random(20)}, size=CLASSES, label=CLASSES)
    splits = read(both)
    assert splits.train.class_names == ("no", "yes")
    assert splits.encoder.types == {"size": "category", "x": "number"}


def test_a_label_of_minus_one_is_missing():
    some = hub({"x": RNG.random(20), "label": [-1, *KIND[1:]]}, label=CLASSES)
    with pytest.raises(DataError, match="1 of 20 rows of the data frame have no label"):
        load(some)
    assert load(some, skip_bad=True).train_names == tuple(map(str, range(1, 20)))


def test_a_dict_of_splits():
    def part(n, labels):
        return hub({"x": RNG.random(n), "label": labels}, label=CLASSES)

    parts = {"test": part(4, [-1] * 4), "validation": part(6, KIND[:6]), "more": part(2, [0, 1])}
    splits = load(datasets.DatasetDict(train=part(20, KIND), **parts))
    assert (len(splits.train), len(splits.test)) == (20, 6)  # the labels of test are kept back
    assert splits.notes[-1].endswith("left out: test, more")
    both = datasets.DatasetDict(train=part(20, KIND), test=part(4, [-1] * 4))
    assert len(read_unlabeled(both).names) == 4
    assert load(datasets.DatasetDict(only=part(20, KIND))).test is None
    with pytest.raises(DataError, match="no split 'train', only a, b"):
        load(datasets.DatasetDict(a=part(20, KIND), b=part(20, KIND)))
    with pytest.raises(DataError, match="streaming=False"):
        load(part(20, KIND).to_iterable_dataset())


PIXELS = some_images(6, 8, 6, 3)


def photos(tmp_path, bad=False):
    """Six images: one by its path, five as bytes."""
    paths = [tmp_path / f"{i}.png" for i in range(6)]
    for path, pixels in zip(paths, PIXELS, strict=True):
        path.write_bytes(encoded_image(pixels))
    images = [{"path": None, "bytes": path.read_bytes()} for path in paths]
    images[0] = {"path": str(paths[0]), "bytes": None}
    if bad:
        images[3] = {"path": None, "bytes": b"not an image"}
    features = datasets.Features(
        image=datasets.Image(), label=CLASSES, patient=datasets.Value("string")
    )
    rows = {"image": images, "label": [0, 1] * 3, "patient": list("aabbcc")}
    return datasets.Dataset.from_dict(rows, features)


def test_images_of_a_column(tmp_path):
    splits = load(photos(tmp_path), groups="patient")
    np.testing.assert_array_equal(splits.train.inputs, PIXELS.transpose(0, 3, 1, 2))
    assert splits.train.groups.tolist() == [0, 0, 1, 1, 2, 2]
    assert splits.table.columns == ["patient"]
    assert load(photos(tmp_path), image_size=4).train.input_shape == (3, 4, 4)
    assert "beside the images in 'image' were left out: patient" in load(photos(tmp_path)).notes[0]
    raw = load_raw(photos(tmp_path))
    assert raw.examples["train"].read(0).size == (6, 8)
    assert (
        raw.examples["train"].fingerprint()
        == load_raw(photos(tmp_path)).examples["train"].fingerprint()
    )


def test_the_same_images_in_a_parquet_file(tmp_path):
    photos(tmp_path).to_parquet(tmp_path / "photos.parquet")
    splits = load(tmp_path / "photos.parquet", target="label", test=tmp_path / "photos.parquet")
    assert splits.train.inputs.equal(load(photos(tmp_path)).train.inputs)
    assert splits.test.inputs.equal(splits.train.inputs)
    pl.DataFrame(ROWS | {"kind": KIND}).write_parquet(tmp_path / "table.parquet")
    with pytest.raises(DataError, match="`image_size` does not apply to a table"):
        load(tmp_path / "table.parquet", target="kind", image_size=8)


@pytest.mark.parametrize("kind", ["names", "indices", "confidences"])
def test_a_fiftyone_export(tmp_path, kind):
    """In each of the forms of FiftyOneImageClassificationDataset."""
    (tmp_path / "data").mkdir()
    names = [f"{i:06}" for i in range(6)]
    for name, pixels in zip(names, PIXELS, strict=True):
        (tmp_path / "data" / f"{name}.png").write_bytes(encoded_image(pixels))
    labels = dict(zip(names, [0, 1, 0, 1, 0, None], strict=True))
    record = {"classes": NAMES, "labels": labels}
    if kind == "names":
        labels = {name: None if k is None else NAMES[k] for name, k in labels.items()}
        record = {"classes": None, "labels": labels}
    if kind == "confidences":
        labels = {name: {"label": k, "confidence": 0.5} for name, k in labels.items()}
        record["labels"] = labels
    (tmp_path / "labels.json").write_text(json.dumps(record))
    with pytest.raises(DataError, match=r"1 of 6 rows of .* have no label"):
        load(tmp_path)
    splits = load(tmp_path, skip_bad=True)
    assert splits.train.class_names == ("no", "yes")
    assert splits.train.labels.tolist() == [0, 1, 0, 1, 0]
    assert splits.example_name(1) == "data/000001.png"
    assert (splits.folder / splits.train_names[1]).read_bytes() == encoded_image(PIXELS[1])
    np.testing.assert_array_equal(splits.train.inputs, PIXELS[:5].transpose(0, 3, 1, 2))
    (tmp_path / "labels.json").write_text("[]")
    with pytest.raises(DataError, match="export the data set again"):
        load(tmp_path)


def test_unreadable_images_of_a_column(tmp_path):
    with pytest.raises(DataError, match=r"row 3 of column 'image' \(not an image\)"):
        load(photos(tmp_path, bad=True))
    splits = load(photos(tmp_path, bad=True), skip_bad=True, exclude="patient")
    assert splits.train_names == ("0", "1", "2", "4", "5")
    assert len(splits.table) == len(splits.train) == 5


def test_lists_of_floats_are_embeddings():
    vectors = RNG.normal(size=(20, 4)).astype(np.float32)
    for feature in (None, datasets.Sequence(datasets.Value("float32"), length=4)):
        found = hub({"v": vectors.tolist(), "label": KIND}, **({"v": feature} if feature else {}))
        splits = load(datasets.DatasetDict(train=found, test=found))
        torch.testing.assert_close(splits.train.inputs, torch.from_numpy(vectors))
        torch.testing.assert_close(splits.test.inputs, torch.from_numpy(vectors))
    ragged = hub({"v": [[1.0]] * 19 + [[1.0, 2.0]], "label": KIND})
    with pytest.raises(DataError, match="must have one length, got 1, 2"):
        load(ragged)
    run = nb.fit(found, noise_rate=0.1, epochs=2, show=False, report=False)
    assert run.predict_proba(found).shape == (20, 2)
    np.testing.assert_allclose(run.predict_proba(found), run.predict_proba(vectors), atol=1e-6)


def test_a_run_on_images_of_a_column(tmp_path):
    colors = [(200, 30, 30), (30, 30, 200)]
    images = [{"bytes": plain_image(colors[k], 8, "PNG"), "path": None} for k in KIND]
    data = datasets.Dataset.from_dict(
        {"photo": images, "label": KIND},
        datasets.Features(photo=datasets.Image(), label=CLASSES),
    )
    options = {"epochs": 2, "noise_rate": 0.1, "show": False}
    run = nb.fit(data, out=tmp_path / "run", backbone="none", **options)
    assert run.predict_proba(data.remove_columns("label")).shape == (20, 2)
    assert set(run.predict(data)) <= set(NAMES)
    assert nb.load_run(tmp_path / "run").suspects(data)["example"].to_list()
    vectors = nb.fit(data, backbone=lambda batch: batch.mean((2, 3)), image_size=8, **options)
    assert vectors.predict_proba(data).shape == (20, 2)
    with pytest.raises(DataError, match="all hold images"):
        read_unlabeled(data.add_column("b", images, feature=datasets.Image()))
