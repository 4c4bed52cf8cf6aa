"""NoisyAG-News: workers' labels to train on, and the truth beside them."""

import pytest

from noisebound.data import ReadingOptions, load
from noisebound.data.archives import Folder
from noisebound.data.published.noisy_ag_news import CLASS_NAMES, read_noisy_ag_news
from noisebound.errors import DataError
from noisebound.features.load import load_raw

TEXTS = ("A minister resigns.", "The match ends 2:1.", "Shares fall.", "A chip is faster.")


def write(folder, name, labels, truth=(0, 1, 2, 3)):
    rows = [
        f'{label},{true},"{text} ({number})",{number}'
        for number in range(5)
        for label, true, text in zip(labels, truth, TEXTS, strict=True)
    ]
    (folder / name).write_text("\n".join(["label,gt,text,group", *rows]))


@pytest.fixture
def folder(tmp_path):
    write(tmp_path, "train.csv", (0, 2, 2, 3))
    write(tmp_path, "test.csv", (3, 2, 1, 0))
    return tmp_path


def test_training_labels_are_the_workers(folder):
    splits = read_noisy_ag_news(Folder(folder))
    assert splits.train.labels[:4].tolist() == [0, 2, 2, 3]
    assert splits.train.true_labels[:4].tolist() == [0, 1, 2, 3]
    assert splits.train.class_names == CLASS_NAMES
    assert splits.texts()[1] == "The match ends 2:1. (0)"


def test_test_labels_are_true(folder):
    splits = read_noisy_ag_news(Folder(folder))
    assert splits.test.labels[:4].tolist() == [0, 1, 2, 3]
    assert len(splits.texts("test")) == 20


@pytest.mark.parametrize(
    ("labels", "complaint"),
    [((0, 4, 2, 3), "class 4 at example 1"), ((0, "x", 2, 3), "must be whole numbers")],
)
def test_bad_labels(folder, labels, complaint):
    write(folder, "train.csv", labels)
    with pytest.raises(DataError, match=complaint):
        read_noisy_ag_news(Folder(folder))


def test_a_column_is_missing(folder):
    (folder / "test.csv").write_text("label,text\n0,a\n")
    with pytest.raises(DataError, match="no column 'gt'"):
        read_noisy_ag_news(Folder(folder))


def test_it_says_where_to_put_the_files(tmp_path):
    with pytest.raises(DataError, match=r"train\.csv .* columns label, gt and text.*noisy-ag-news"):
        load("noisy-ag-news", data_dir=tmp_path)


@pytest.mark.data
def test_the_real_one(shared_data):
    """Read once, as for a backbone: the texts also become TF-IDF on the way."""
    train = load_raw("NoisyAG-News", ReadingOptions(data_dir=shared_data)).train
    assert (train.data.labels != train.data.true_labels).double().mean() == pytest.approx(0.1975)
    assert train.examples.modality == "text"
