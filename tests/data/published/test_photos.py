import shutil
import tarfile

import numpy as np
import pytest

from noisebound.data.files import Folder, Tar, Zip
from noisebound.data.published import DATASETS
from noisebound.data.published.photos import (
    read_binary,
    read_cifar,
    read_lines,
    read_tiny_imagenet,
)
from noisebound.errors import DataError
from published_files import (
    FINE,
    TEN,
    cifar_records,
    plain_image,
    some_images,
    write_cifar10_binary,
    write_cifar100_binary,
    write_tiny_imagenet,
    zip_folder,
)


@pytest.mark.parametrize("packed", [False, True])
def test_cifar10(tmp_path, packed):
    images, labels = write_cifar10_binary(tmp_path)
    files, folder = Folder(tmp_path), "cifar-10-batches-bin"
    if packed:
        with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
            archive.add(tmp_path / folder, folder)
        files = Tar(tmp_path / "x.tar.gz")
    splits = read_cifar(files, 10)
    np.testing.assert_array_equal(splits.train.inputs, images)
    np.testing.assert_array_equal(splits.train.labels, labels)
    assert splits.train.class_names == tuple(TEN)
    assert len(splits.test) == 4


def test_cifar100_has_the_fine_labels(tmp_path):
    images, fine = write_cifar100_binary(tmp_path)
    splits = DATASETS["cifar100"].read(Folder(tmp_path))
    np.testing.assert_array_equal(splits.train.inputs, images)
    np.testing.assert_array_equal(splits.train.labels, fine)
    assert splits.train.class_names == tuple(FINE)


@pytest.mark.parametrize("cut", [1, 100, 3072])
def test_truncated_binary_file(tmp_path, cut):
    (tmp_path / "x.bin").write_bytes(cifar_records(np.zeros(2), some_images(2, 3072))[:-cut])
    with pytest.raises(DataError, match=r"x\.bin has .* not a whole number of records of 3073"):
        read_binary(Folder(tmp_path), ["x.bin"], 10)


def test_binary_label_out_of_range(tmp_path):
    (tmp_path / "x.bin").write_bytes(cifar_records(np.array([9, 10]), some_images(2, 3072)))
    with pytest.raises(
        DataError, match=r"x\.bin has labels out of range: .* class 10 at example 1"
    ):
        read_binary(Folder(tmp_path), ["x.bin"], 10)


def test_missing_file(tmp_path):
    with pytest.raises(DataError, match=r"x\.bin cannot be read \(FileNotFoundError"):
        read_binary(Folder(tmp_path), ["x.bin"], 10)


def test_wrong_number_of_class_names(tmp_path):
    (tmp_path / "meta").write_text("\n".join(TEN[:9]))
    with pytest.raises(DataError, match="must have 10 lines, got 9"):
        read_lines(Folder(tmp_path), "meta", 10)


def test_truncated_archive(tmp_path):
    write_cifar10_binary(tmp_path)
    path = tmp_path / "x.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(tmp_path / "cifar-10-batches-bin", "cifar-10-batches-bin")
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(DataError, match=r"x\.tar\.gz"):
        read_cifar(Tar(path), 10)


@pytest.fixture
def folder(tmp_path):
    write_tiny_imagenet(tmp_path)
    return tmp_path


def check_tiny_imagenet(splits):
    assert splits.train.inputs.shape == (6, 3, 64, 64)
    # classes in the order of wnids.txt, images in the order of their names
    assert splits.train.class_names == ("Egyptian cat", "reel", "goldfish")
    assert splits.train.labels.tolist() == [2, 2, 0, 0, 1, 1]
    assert splits.test.labels.tolist() == [2, 0]
    # the red values that the images were made with: goldfish 160, cat 0, reel 80
    reds = splits.train.inputs[:, 0].float().mean((1, 2))
    assert reds.round().tolist() == pytest.approx([160, 160, 0, 0, 80, 80], abs=3)


def test_tiny_imagenet_folder(folder):
    check_tiny_imagenet(read_tiny_imagenet(Folder(folder)))


def test_tiny_imagenet_zip(folder):
    zip_folder(folder / "tiny-imagenet-200", folder / "tiny-imagenet-200.zip")
    check_tiny_imagenet(read_tiny_imagenet(Zip(folder / "tiny-imagenet-200.zip")))


def test_gray_images_become_three_channels(folder):
    """Some of the published JPEGs are gray."""
    splits = read_tiny_imagenet(Folder(folder))
    assert (splits.test.inputs == splits.test.inputs[:, :1]).all()


def test_truncated_zip(folder):
    path = folder / "tiny-imagenet-200.zip"
    zip_folder(folder / "tiny-imagenet-200", path)
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(DataError, match=r"tiny-imagenet-200\.zip cannot be read"):
        read_tiny_imagenet(Zip(path))


def annotate(folder, text):
    (folder / "tiny-imagenet-200" / "val" / "val_annotations.txt").write_text(text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "must have some lines"),
        ("val_0.JPEG n02124075\n", "line 1 names 'val_0.JPEG n02124075', which"),
        ("val_0.JPEG\tn99999999\t0\t0\t1\t1\n", "line 1: 'n99999999' is not in wnids"),
        ("val_0.JPEG\tn02124075\nval_7.JPEG\tn02124075\n", "line 2 names 'val_7.JPEG'"),
    ],
)
def test_broken_annotations(folder, text, complaint):
    annotate(folder, text)
    with pytest.raises(DataError, match=rf"val_annotations\.txt.*{complaint}"):
        read_tiny_imagenet(Folder(folder))


def test_damaged_image_is_refused_by_name(folder):
    path = folder / "tiny-imagenet-200/train/n02124075/images/n02124075_1.JPEG"
    path.write_bytes(plain_image((1, 2, 3))[:300])
    with pytest.raises(DataError, match=r"1 of 8 images cannot be read:\n.*n02124075_1\.JPEG"):
        read_tiny_imagenet(Folder(folder))


def test_class_that_wnids_does_not_list(folder):
    base = folder / "tiny-imagenet-200/train"
    shutil.copytree(base / "n02124075", base / "n00000000")
    with pytest.raises(DataError, match="'n00000000' is not in wnids"):
        read_tiny_imagenet(Folder(folder))


def test_class_listed_twice(folder):
    (folder / "tiny-imagenet-200" / "wnids.txt").write_text("n02124075\nn02124075\n")
    with pytest.raises(DataError, match="distinct"):
        read_tiny_imagenet(Folder(folder))
