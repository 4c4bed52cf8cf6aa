import shutil

import pytest

from noisebound.data.formats.archives import Folder, Zip
from noisebound.data.load import load
from noisebound.data.published.animals10n import read_animals10n
from noisebound.errors import DataError
from published_files import plain_image, write_animals10n, zip_folder


def check(splits):
    assert splits.train.inputs.shape == (12, 3, 64, 64)
    assert sorted(splits.train.labels.tolist()) == sorted([*range(10), 0, 1])
    reds = splits.train.inputs[:, 0].float().mean((1, 2))
    assert reds.tolist() == pytest.approx((20.0 * splits.train.labels).tolist(), abs=3)
    assert splits.train.class_names[9] == "guinea pig"
    assert len(splits.test) == 10


def test_folder(tmp_path):
    write_animals10n(tmp_path)
    check(read_animals10n(Folder(tmp_path)))


def test_zip(tmp_path):
    write_animals10n(tmp_path / "raw_image")
    zip_folder(tmp_path / "raw_image", tmp_path / "raw_image.zip")
    check(read_animals10n(Zip(tmp_path / "raw_image.zip")))


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
