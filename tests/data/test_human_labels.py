import io
import zipfile
from functools import partial

import numpy as np
import pytest
import torch

from noisebound.data.formats.archives import Folder
from noisebound.data.published.cifar import CIFAR10_PART
from noisebound.data.published.cifar_n import read_human_labels
from noisebound.data.registry import DATASETS
from noisebound.errors import DataError
from published_files import human_labels_file, pickle_that_runs_code, write_cifar10_binary

CLEAN = np.array([0, 1, 2, 3, 4])
NOISY = np.array([0, 1, 2, 9, 9])
read = partial(read_human_labels, name="x.pt", key="worse_label", num_classes=10)


def test_reads_what_torch_saved(tmp_path):
    (tmp_path / "x.pt").write_bytes(human_labels_file(CLEAN, NOISY, "worse_label"))
    human = read(Folder(tmp_path))
    np.testing.assert_array_equal(human.noisy, NOISY)
    np.testing.assert_array_equal(human.clean, CLEAN)


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
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("archive/data.pkl", pickle_that_runs_code(tmp_path / "ran"))
    (tmp_path / "x.pt").write_bytes(stream.getvalue())
    with pytest.raises(DataError, match="refused"):
        read(Folder(tmp_path))
    assert not (tmp_path / "ran").exists()


def assembled(tmp_path, clean):
    _, labels = write_cifar10_binary(tmp_path)
    noisy = (labels + 1) % 10
    (tmp_path / "x.pt").write_bytes(human_labels_file(clean(labels), noisy, "worse_label"))
    cifar = CIFAR10_PART.releases[1].read(Folder(tmp_path))
    return DATASETS["cifar10n-worst"].assemble(cifar, read(Folder(tmp_path))), labels, noisy


def test_the_true_labels_stay_known(tmp_path):
    splits, labels, noisy = assembled(tmp_path, clean=lambda labels: labels)
    assert torch.equal(splits.train.labels, torch.from_numpy(noisy))
    assert torch.equal(splits.train.true_labels, torch.from_numpy(labels))
    assert splits.test.true_labels is None


def test_labels_of_other_images_are_refused(tmp_path):
    with pytest.raises(DataError, match="the true labels differ"):
        assembled(tmp_path, clean=lambda labels: labels[::-1].copy())
