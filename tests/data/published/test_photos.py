import shutil

import pytest

from noisebound.data.archives import Folder, Zip
from noisebound.data.load import load
from noisebound.data.published.photos import read_animals10n, read_tiny_imagenet
from noisebound.errors import DataError
from published_files import plain_image, write_animals10n, write_tiny_imagenet, zip_folder


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
        load("Animal-10N", data_dir=tmp_path / "mine")
    assert "https://dm.kaist.ac.kr/datasets/animal-10n/" in str(caught.value)
    assert str(tmp_path / "mine" / "animals-10n") in str(caught.value)


def test_part_of_the_data_set_is_not_the_data_set(tmp_path):
    write_animals10n(tmp_path / "animals-10n")
    with pytest.raises(DataError, match=r"12 training and 10 test examples, .* 50000 and 5000"):
        load("animals-10n", data_dir=tmp_path)
