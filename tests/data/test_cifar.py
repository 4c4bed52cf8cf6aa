import tarfile

import numpy as np
import pytest

from noisebound.data.formats.archives import Folder, Tar
from noisebound.data.formats.cifar import read_binary, read_name_pickle, read_pickles
from noisebound.data.published.cifar import CIFAR10_PART, CIFAR100_PART, cifar_splits
from noisebound.errors import DataError
from published_files import (
    FINE,
    TEN,
    cifar_records,
    pickle_that_runs_code,
    python2_pickle,
    some_images,
    write_cifar10_binary,
    write_cifar10_pickles,
    write_cifar100_binary,
    write_cifar100_pickles,
)


def release_in(part, name):
    """Return the release whose first file is in the folder of that name."""
    return next(each for each in part.releases if each.files[0].name.startswith(name + "/"))


@pytest.mark.parametrize(
    ("write", "folder"),
    [
        (write_cifar10_binary, "cifar-10-batches-bin"),
        (write_cifar10_pickles, "cifar-10-batches-py"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_cifar10(tmp_path, write, folder, packed):
    images, labels = write(tmp_path)
    files = Folder(tmp_path)
    if packed:
        with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
            archive.add(tmp_path / folder, folder)
        files = Tar(tmp_path / "x.tar.gz")
    splits = cifar_splits(release_in(CIFAR10_PART, folder).read(files), "cifar10", -1)
    np.testing.assert_array_equal(splits.train.inputs, images)
    np.testing.assert_array_equal(splits.train.labels, labels)
    assert splits.train.class_names == tuple(TEN)
    assert len(splits.test) == 4


@pytest.mark.parametrize(
    ("write", "folder"),
    [(write_cifar100_binary, "cifar-100-binary"), (write_cifar100_pickles, "cifar-100-python")],
)
def test_cifar100_fine_and_coarse(tmp_path, write, folder):
    images, coarse, fine = write(tmp_path)
    cifar = release_in(CIFAR100_PART, folder).read(Folder(tmp_path))
    by_fine, by_coarse = (cifar_splits(cifar, "cifar100", kind) for kind in (-1, 0))
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


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"data": [1, 2]}, "must hold an array 'data'"),
        ({"data": some_images(2, 3071)}, r"shape \[n, 3072\], got \[2, 3071\]"),
        ({"data": some_images(2, 3072).astype(np.int64)}, "unsigned bytes"),
        ({"labels": [1]}, "2 images, 1 labels"),
        ({"labels": [1, 10]}, "class 10 at example 1"),
        ({"labels": [1, -1]}, "class -1 at example 1"),
        ({"labels": "12"}, "list of whole numbers 'labels'"),
    ],
)
def test_broken_batches(tmp_path, change, complaint):
    batch = {"data": some_images(2, 3072), "labels": [0, 1]} | change
    (tmp_path / "batch").write_bytes(python2_pickle(batch))
    with pytest.raises(DataError, match=complaint):
        read_pickles(Folder(tmp_path), ["batch"], ["labels"], [10])


def test_batch_without_labels(tmp_path):
    (tmp_path / "batch").write_bytes(python2_pickle({"data": some_images(2, 3072)}))
    with pytest.raises(DataError, match="'labels'"):
        read_pickles(Folder(tmp_path), ["batch"], ["labels"], [10])


def test_batch_that_runs_code(tmp_path):
    (tmp_path / "batch").write_bytes(pickle_that_runs_code(tmp_path / "ran"))
    with pytest.raises(DataError, match="batch is refused"):
        read_pickles(Folder(tmp_path), ["batch"], ["labels"], [10])
    assert not (tmp_path / "ran").exists()


def test_wrong_number_of_class_names(tmp_path):
    (tmp_path / "meta").write_bytes(python2_pickle({"label_names": TEN[:9]}))
    with pytest.raises(DataError, match="must name 10 classes, got 9"):
        read_name_pickle(Folder(tmp_path), "meta", "label_names", 10)


def test_truncated_archive(tmp_path):
    write_cifar10_binary(tmp_path)
    path = tmp_path / "x.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(tmp_path / "cifar-10-batches-bin", "cifar-10-batches-bin")
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(DataError, match=r"x\.tar\.gz"):
        release_in(CIFAR10_PART, "cifar-10-batches-bin").read(Tar(path))
