"""One reader for every kind of data."""

import os

import numpy as np
import polars as pl
import pytest
import torch

from noisebound.data import DataError, load, read_unlabeled
from noisebound.data.files import Folder
from noisebound.data.load import summarize
from published_files import plain_image, some_images, write_idx_pair


def test_digits_need_no_download():
    splits = load("digits")
    assert splits.train.inputs.dtype == torch.uint8
    assert splits.train.inputs.shape == (1257, 1, 8, 8)
    assert splits.test.inputs.shape == (540, 1, 8, 8)
    assert splits.train.inputs.max() == 255
    assert splits.train.class_names == tuple("0123456789")
    # the parts are disjoint and whole: the pixels of all 1,797 images
    from sklearn.datasets import load_digits

    pixels = torch.cat([splits.train.inputs, splits.test.inputs]).long().sum()
    assert pixels == np.rint(load_digits().images * 255 / 16).sum()


def test_unknown_name():
    for name in ("imagenet", "i" * 5000):
        with pytest.raises(DataError, match=r"neither a file or folder nor a .* digits, mnist"):
            load(name)


def test_unknown_kind_of_file(tmp_path):
    (tmp_path / "x.docx").write_text("x")
    with pytest.raises(DataError, match="cannot be read: expected"):
        load(tmp_path / "x.docx")


def test_name_wins_over_a_path_that_reads_the_same(tmp_path, monkeypatch):
    (tmp_path / "digits").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load("digits").source == "scikit-learn"
    with pytest.raises(DataError, match="one folder for each class"):
        load("./digits")


@pytest.mark.parametrize(
    ("name", "options"),
    [("digits", {"target": "y"}), ("digits", {"image_size": 8}), ("digits", {"skip_bad": True})],
)
def test_options_that_do_not_apply(name, options):
    with pytest.raises(DataError, match="does not apply to a published data set"):
        load(name, **options)


def test_idx_folder(tmp_path):
    write_idx_pair(tmp_path, "train", some_images(6, 4, 4), np.array([3, 5, 3, 5, 7, 7]))
    write_idx_pair(tmp_path, "t10k", some_images(2, 4, 4), np.array([7, 3]))
    splits = load(tmp_path)
    assert splits.train.class_names == ("3", "5", "7")
    assert splits.train.labels.tolist() == [0, 1, 0, 1, 2, 2]
    assert splits.test.labels.tolist() == [2, 0]


def test_idx_folder_without_training_images(tmp_path):
    write_idx_pair(tmp_path, "t10k", some_images(2, 4, 4), np.array([7, 3]))
    with pytest.raises(DataError, match="must have one file"):
        load(tmp_path)


def test_summary():
    summary = summarize(load("digits"))
    train, test = summary["train"], summary["test"]
    assert (train["examples"], test["examples"], summary["classes"]) == (1257, 540, 10)
    assert sum(train["class_counts"].values()) == 1257
    assert train["imbalance"] == pytest.approx(128 / 122)
    assert train["noise_rate"] is None


def write_pictures(folder):
    for shade, name in enumerate(("cat", "dog")):
        (folder / name).mkdir(parents=True)
        for place in range(2):
            content = plain_image(100 * shade + place, 8, "PNG")
            (folder / name / f"{place}.png").write_bytes(content)
    return folder


def test_a_folder_is_listed_once_and_each_image_read_once(tmp_path, monkeypatch):
    folder = write_pictures(tmp_path / "train")
    walked, read_names = [], []
    walk, read_file = os.walk, Folder.read
    monkeypatch.setattr(os, "walk", lambda path, **more: walked.append(path) or walk(path, **more))
    monkeypatch.setattr(
        Folder, "read", lambda files, name: read_names.append(name) or read_file(files, name)
    )
    assert len(load(tmp_path).train) == 4
    assert len(walked) == 1
    names = [f"train/{name}" for name in ("cat/0.png", "cat/1.png", "dog/0.png", "dog/1.png")]
    assert sorted(read_names) == [names[0], *names]  # the first one shows the form of all
    assert folder.is_dir()


def test_unlabeled_images(tmp_path):
    folder = write_pictures(tmp_path / "new")
    found = read_unlabeled(folder)
    assert found.names == ["cat/0.png", "cat/1.png", "dog/0.png", "dog/1.png"]
    assert found.images is not None
    assert found.frame is found.inputs is None
    one = read_unlabeled(folder / "cat" / "1.png")
    files, (name,) = one.images
    assert files.read(name) == (folder / "cat" / "1.png").read_bytes()


def test_unlabeled_texts(tmp_path):
    (tmp_path / "a.txt").write_text("first")
    (tmp_path / "b.txt").write_text("second")
    for source, texts, names in (
        (tmp_path, ["first", "second"], ["a.txt", "b.txt"]),
        (tmp_path / "b.txt", ["second"], ["b.txt"]),
        (["x", None], ["x", None], [0, 1]),
    ):
        found = read_unlabeled(source)
        assert found.names == names
        assert found.frame["text"].to_list() == texts


def test_unlabeled_tables(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n01,2\n4,5\n")
    found = read_unlabeled(tmp_path / "x.csv", raw_columns={"a"})
    assert found.names == [0, 1]
    assert found.frame["a"].to_list() == ["01", "4"]
    frame = pl.DataFrame({"a": [1, 2]})
    assert read_unlabeled(frame).frame.equals(frame)


def test_unlabeled_arrays_and_test_examples():
    assert read_unlabeled(np.eye(3)).inputs.shape == (3, 3)
    assert len(read_unlabeled("digits").names) == 540
    with pytest.raises(DataError, match=r"'digts' is neither .* \(did you mean 'digits'\?\)"):
        read_unlabeled("digts")
