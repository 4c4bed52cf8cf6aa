import gzip

import numpy as np
import pytest

from noisebound.data.files import Folder
from noisebound.data.published.mnist import parse_idx, read_idx, read_pairs
from noisebound.errors import DataError
from published_files import idx, some_images, write_idx_pair

IMAGES = some_images(5, 4, 3)
LABELS = np.array([0, 1, 2, 1, 0])


def read_pair(folder, *, is_transposed=False):
    images = "train-images-idx3-ubyte.gz"
    data = read_pairs(Folder(folder), images, None, tuple("abc"), is_transposed=is_transposed).train
    return data.inputs, data.labels


def test_reads_what_was_written(tmp_path):
    write_idx_pair(tmp_path, "train", IMAGES, LABELS)
    images, labels = read_pair(tmp_path)
    np.testing.assert_array_equal(images, IMAGES[:, None])
    np.testing.assert_array_equal(labels, LABELS)


def test_reads_uncompressed_files(tmp_path):
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx(IMAGES))
    np.testing.assert_array_equal(read_idx(Folder(tmp_path), "train-images-idx3-ubyte"), IMAGES)


def test_transposed_images_are_set_upright(tmp_path):
    write_idx_pair(tmp_path, "train", IMAGES, LABELS)
    images, _ = read_pair(tmp_path, is_transposed=True)
    np.testing.assert_array_equal(images[:, 0], IMAGES.transpose(0, 2, 1))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"\0\0", "truncated"),
        (b"\1\2\x08\x01" + b"\0" * 8, "not an IDX file"),
        (b"\0\0\x0d\x01\0\0\0\1\0\0\0\0", "not an IDX file"),
        (idx(IMAGES)[:10], "truncated"),
        (idx(IMAGES)[:-1], "array of size 59"),
        (idx(IMAGES) + b"\0", "array of size 61"),
        (b"\0\0\x08\x03" + b"\xff\xff\xff\xff" * 2 + b"\0\0\0\0", "cannot be read"),
        (b"\0\0\x08\xff" + b"\0\0\0\1" * 255 + b"\7", "cannot be read"),
    ],
)
def test_broken_content_is_refused_by_name(content, complaint):
    with pytest.raises(DataError, match=rf"some-file.*{complaint}"):
        parse_idx(content, "some-file")


@pytest.mark.parametrize("keep", [0, 1, 9, 30, -1])
def test_truncated_gzip_is_refused_by_name(tmp_path, keep):
    (tmp_path / "file.gz").write_bytes(gzip.compress(idx(IMAGES))[:keep])
    with pytest.raises(DataError, match=r"file\.gz"):
        read_idx(Folder(tmp_path), "file.gz")


def test_altered_gzip_is_refused_by_its_checksum(tmp_path):
    content = bytearray(gzip.compress(idx(IMAGES)))
    content[-6] ^= 1
    (tmp_path / "file.gz").write_bytes(content)
    with pytest.raises(DataError, match=r"file\.gz cannot be read"):
        read_idx(Folder(tmp_path), "file.gz")


def test_more_labels_than_images(tmp_path):
    write_idx_pair(tmp_path, "train", IMAGES, np.zeros(6))
    with pytest.raises(
        DataError, match=r"one label per image; got the shapes \[5, 4, 3\] and \[6\]"
    ):
        read_pair(tmp_path)


def test_label_out_of_range(tmp_path):
    write_idx_pair(tmp_path, "train", IMAGES, np.array([0, 1, 2, 3, 0]))
    with pytest.raises(DataError, match="class 3 at example 3"):
        read_pair(tmp_path)


def test_wrong_number_of_dimensions(tmp_path):
    write_idx_pair(tmp_path, "train", IMAGES[0], LABELS)
    with pytest.raises(DataError, match=r"3 dimensions and 1, .*got the shapes \[4, 3\] and \[5\]"):
        read_pair(tmp_path)
