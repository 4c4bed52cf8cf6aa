import tarfile
from functools import partial

import numpy as np
import pytest
import torch

from noisebound.data.archives import Folder, Tar
from noisebound.data.published import DATASETS
from noisebound.data.published.cifar import (
    CIFAR10_PART,
    read_binary,
    read_human_labels,
    read_name_lines,
)
from noisebound.errors import DataError
from published_files import (
    FINE,
    TEN,
    cifar_records,
    human_labels_file,
    some_images,
    torch_file_that_runs_code,
    write_cifar10_binary,
    write_cifar100_binary,
)


@pytest.mark.parametrize("packed", [False, True])
def test_cifar10(tmp_path, packed):
    images, labels = write_cifar10_binary(tmp_path)
    files, folder = Folder(tmp_path), "cifar-10-batches-bin"
    if packed:
        with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
            archive.add(tmp_path / folder, folder)
        files = Tar(tmp_path / "x.tar.gz")
    splits = CIFAR10_PART.read(files)
    np.testing.assert_array_equal(splits.train.inputs, images)
    np.testing.assert_array_equal(splits.train.labels, labels)
    assert splits.train.class_names == tuple(TEN)
    assert len(splits.test) == 4


def test_cifar100_fine_and_coarse(tmp_path):
    images, coarse, fine = write_cifar100_binary(tmp_path)
    by_fine, by_coarse = (
        DATASETS[name].parts[0].read(Folder(tmp_path)) for name in ("cifar100", "cifar100-coarse")
    )
    np.testing.assert_array_equal(by_fine.train.inputs, images)
    np.testing.assert_array_equal(by_fine.train.labels, fine)
    np.testing.assert_array_equal(by_coarse.train.labels, coarse)
    assert by_fine.train.class_names == tuple(FINE)
    assert by_coarse.train.num_classes == 20


@pytest.mark.parametrize("cut", [1, 100, 3072])
def test_truncated_binary_file(tmp_path, cut):
    (tmp_path / "x.bin").write_bytes(cifar_records(np.zeros(2), some_images(2, 3072))[:-cut])
    with pytest.raises(DataError, match=r"x\.bin has .* not a whole number of records of 3073"):
        read_binary(Folder(tmp_path), ["x.bin"], [10])


def test_binary_label_out_of_range(tmp_path):
    (tmp_path / "x.bin").write_bytes(cifar_records(np.array([9, 10]), some_images(2, 3072)))
    with pytest.raises(
        DataError, match=r"x\.bin has labels out of range: .* class 10 at example 1"
    ):
        read_binary(Folder(tmp_path), ["x.bin"], [10])


def test_missing_file(tmp_path):
    with pytest.raises(DataError, match=r"x\.bin cannot be read \(FileNotFoundError"):
        read_binary(Folder(tmp_path), ["x.bin"], [10])


def test_wrong_number_of_class_names(tmp_path):
    (tmp_path / "meta").write_text("\n".join(TEN[:9]))
    with pytest.raises(DataError, match="must name 10 classes, got 9"):
        read_name_lines(Folder(tmp_path), "meta", 10)


def test_truncated_archive(tmp_path):
    write_cifar10_binary(tmp_path)
    path = tmp_path / "x.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(tmp_path / "cifar-10-batches-bin", "cifar-10-batches-bin")
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(DataError, match=r"x\.tar\.gz"):
        CIFAR10_PART.read(Tar(path))


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
    (tmp_path / "x.pt").write_bytes(human_labels_file(clean(labels), noisy, "worse_label"))
    cifar = CIFAR10_PART.read(Folder(tmp_path))
    return DATASETS["cifar10n-worst"].assemble(cifar, read(Folder(tmp_path))), labels, noisy


def test_the_true_labels_stay_known(tmp_path):
    splits, labels, noisy = assembled(tmp_path, clean=lambda labels: labels)
    assert torch.equal(splits.train.labels, torch.from_numpy(noisy))
    assert torch.equal(splits.train.true_labels, torch.from_numpy(labels))
    assert splits.test.true_labels is None


def test_labels_of_other_images_are_refused(tmp_path):
    with pytest.raises(DataError, match="the true labels differ"):
        assembled(tmp_path, clean=lambda labels: labels[::-1].copy())
