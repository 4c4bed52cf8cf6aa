import shutil

import pytest

from noisebound.data.formats.archives import Folder, Zip
from noisebound.data.published.tiny_imagenet import read_tiny_imagenet
from noisebound.errors import DataError
from published_files import plain_image, write_tiny_imagenet, zip_folder


@pytest.fixture
def folder(tmp_path):
    write_tiny_imagenet(tmp_path)
    return tmp_path


def check(splits):
    assert splits.train.inputs.shape == (6, 3, 64, 64)
    # classes in the order of wnids.txt, images in the order of their names
    assert splits.train.class_names == ("Egyptian cat", "reel", "goldfish")
    assert splits.train.labels.tolist() == [2, 2, 0, 0, 1, 1]
    assert splits.test.labels.tolist() == [2, 0]
    # the red values that the images were made with: goldfish 160, cat 0, reel 80
    reds = splits.train.inputs[:, 0].float().mean((1, 2))
    assert reds.round().tolist() == pytest.approx([160, 160, 0, 0, 80, 80], abs=3)


def test_folder(folder):
    check(read_tiny_imagenet(Folder(folder)))


def test_zip(folder):
    zip_folder(folder / "tiny-imagenet-200", folder / "tiny-imagenet-200.zip")
    check(read_tiny_imagenet(Zip(folder / "tiny-imagenet-200.zip")))


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
        ("", "is empty"),
        ("val_0.JPEG n02124075\n", "line 1: expected a file, a tab"),
        ("val_0.JPEG\tn99999999\t0\t0\t1\t1\n", "line 1: 'n99999999' is not in wnids"),
        ("val_0.JPEG\tn02124075\nval_7.JPEG\tn02124075\n", "line 2 names val_7.JPEG"),
    ],
)
def test_broken_annotations(folder, text, complaint):
    annotate(folder, text)
    with pytest.raises(DataError, match=rf"val_annotations\.txt.*{complaint}"):
        read_tiny_imagenet(Folder(folder))


def test_damaged_image_is_refused_by_name(folder):
    path = folder / "tiny-imagenet-200/train/n02124075/images/n02124075_1.JPEG"
    path.write_bytes(plain_image((1, 2, 3))[:300])
    with pytest.raises(DataError, match=r"1 of 6 images cannot be read:\n.*n02124075_1\.JPEG"):
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
