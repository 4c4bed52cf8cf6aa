"""One door for every kind of data."""

import numpy as np
import pytest
import torch

from noisebound.data import DataError, load
from noisebound.data.summary import summarize
from published_files import some_images, write_idx_pair


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
    with pytest.raises(DataError, match="of a kind that is not read"):
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
    with pytest.raises(DataError, match="does not apply to a data set that is known by name"):
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
    assert (summary.train.examples, summary.test.examples, summary.classes) == (1257, 540, 10)
    assert sum(summary.train.class_counts.values()) == 1257
    assert summary.train.imbalance == pytest.approx(128 / 122)
    assert summary.train.noise_rate is None
