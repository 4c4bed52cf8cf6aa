"""CIFAR-N, Animals-10N and NoisyAG-News: labels by people, and the truth where it is known."""

import shutil
from functools import partial

import numpy as np
import pytest
import torch

from noisebound.data import DATASETS, ReadingOptions, load
from noisebound.data.files import Folder, Zip
from noisebound.data.published.noisy import (
    AG_NEWS_CLASSES,
    read_animals10n,
    read_human_labels,
    read_noisy_ag_news,
)
from noisebound.errors import DataError
from noisebound.features.examples import load_raw
from published_files import (
    human_labels_file,
    plain_image,
    torch_file_that_runs_code,
    write_animals10n,
    write_cifar10_binary,
    zip_folder,
)

CLEAN = np.array([0, 1, 2, 3, 4])
NOISY = np.array([0, 1, 2, 9, 9])
read = partial(read_human_labels, name="x.pt", key="worse_label", num_classes=10)


def test_reads_what_torch_saved(tmp_path):
    (tmp_path / "x.pt").write_bytes(human_labels_file(CLEAN, NOISY, "worse_label"))
    noisy, clean = read(Folder(tmp_path))
    np.testing.assert_array_equal(noisy, NOISY)
    np.testing.assert_array_equal(clean, CLEAN)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (human_labels_file(CLEAN, NOISY, "worse_label")[:-30], "cannot be read"),
        (human_labels_file(CLEAN, NOISY, "other_label"), "'worse_label'"),
        (human_labels_file(CLEAN, NOISY + 1, "worse_label"), "class 10 at example 3"),
        (human_labels_file(CLEAN, NOISY[:4], "worse_label"), "4 labels 'worse_label', 5"),
        (human_labels_file(CLEAN, NOISY / 2, "worse_label"), "vector of whole numbers"),
        (b"nothing of the kind", "cannot be read"),
    ],
)
def test_broken_files(tmp_path, content, complaint):
    (tmp_path / "x.pt").write_bytes(content)
    with pytest.raises(DataError, match=rf"x\.pt.*{complaint}"):
        read(Folder(tmp_path))


def test_code_in_the_file_is_never_run(tmp_path):
    witness, path = tmp_path / "ran", tmp_path / "x.pt"
    path.write_bytes(torch_file_that_runs_code(witness))
    with pytest.raises(DataError, match=r"x\.pt is refused"):
        read(Folder(tmp_path))
    assert not witness.exists()
    torch.load(path, weights_only=False)  # runs it
    assert witness.exists()


def assembled(tmp_path, clean):
    _, labels = write_cifar10_binary(tmp_path)
    noisy = (labels + 1) % 10
    content = human_labels_file(clean(labels), noisy, "worse_label")
    (tmp_path / "CIFAR-10_human.pt").write_bytes(content)
    files = Folder(tmp_path)
    return DATASETS["cifar10n-worst"].read(files, files), labels, noisy


def test_the_true_labels_stay_known(tmp_path):
    splits, labels, noisy = assembled(tmp_path, clean=lambda labels: labels)
    assert torch.equal(splits.train.labels, torch.from_numpy(noisy))
    assert torch.equal(splits.train.true_labels, torch.from_numpy(labels))
    assert splits.test.true_labels is None


def test_labels_of_other_images_are_refused(tmp_path):
    with pytest.raises(DataError, match="the true labels differ"):
        assembled(tmp_path, clean=lambda labels: labels[::-1].copy())


def check_animals(splits):
    assert splits.train.inputs.shape == (12, 3, 64, 64)
    assert sorted(splits.train.labels.tolist()) == sorted([*range(10), 0, 1])
    reds = splits.train.inputs[:, 0].float().mean((1, 2))
    assert reds.tolist() == pytest.approx((20.0 * splits.train.labels).tolist(), abs=3)
    assert splits.train.class_names[9] == "guinea pig"
    assert len(splits.test) == 10


def test_animals_folder(tmp_path):
    write_animals10n(tmp_path)
    check_animals(read_animals10n(Folder(tmp_path)))


def test_animals_zip(tmp_path):
    write_animals10n(tmp_path / "raw_image")
    zip_folder(tmp_path / "raw_image", tmp_path / "raw_image.zip")
    check_animals(read_animals10n(Zip(tmp_path / "raw_image.zip")))


@pytest.mark.parametrize(
    ("name", "complaint"),
    [("10_x.jpg", "class 10"), ("cat.jpg", "must begin with its label"), ("_1.jpg", "must begin")],
)
def test_names_without_a_label(tmp_path, name, complaint):
    write_animals10n(tmp_path)
    (tmp_path / "training" / name).write_bytes(plain_image(0))
    with pytest.raises(DataError, match=complaint):
        read_animals10n(Folder(tmp_path))


def test_missing_part(tmp_path):
    write_animals10n(tmp_path)
    shutil.rmtree(tmp_path / "testing")
    with pytest.raises(DataError, match="no folder 'testing'"):
        read_animals10n(Folder(tmp_path))


def test_the_error_says_where_to_ask_and_where_to_put_it(tmp_path):
    (tmp_path / "mine").mkdir()
    with pytest.raises(DataError) as caught:
        load("Animals-10N", data_dir=tmp_path / "mine")
    assert "https://dm.kaist.ac.kr/datasets/animal-10n/" in str(caught.value)
    assert str(tmp_path / "mine" / "animals-10n") in str(caught.value)


def test_an_incomplete_data_set_is_refused(tmp_path):
    write_animals10n(tmp_path / "animals-10n")
    with pytest.raises(DataError, match=r"12 training and 10 test examples, .* 50000 and 5000"):
        load("animals-10n", data_dir=tmp_path)


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
    assert splits.train.class_names == AG_NEWS_CLASSES
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
    raw = load_raw("NoisyAG-News", ReadingOptions(data_dir=shared_data))
    train = raw.train
    assert (train.labels != train.true_labels).double().mean() == pytest.approx(0.1975)
    assert raw.examples["train"].modality == "text"
