"""A parser returns a correct answer or raises a `DataError`, whatever the bytes."""

import gzip
import io
import tarfile
import zipfile
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from noisebound.data import DataError, load
from noisebound.data.files import Folder, Tar, Zip
from noisebound.data.published.mnist import parse_idx, read_idx
from noisebound.data.published.noisy import read_human_labels
from noisebound.data.published.photos import read_binary
from published_files import (
    cifar_records,
    encoded_image,
    human_labels_file,
    idx,
    some_images,
)


def npz(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def parquet(frame):
    stream = io.BytesIO()
    frame.write_parquet(stream)
    return stream.getvalue()


def zipped(content):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/x", content)
    return stream.getvalue()


def tarred(content):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        member = tarfile.TarInfo("x")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def check_idx(path):
    array = parse_idx(path.read_bytes(), "x")
    assert array.dtype == np.uint8


def check_gzipped_idx(path):
    # what passes the checksum must be undamaged
    np.testing.assert_array_equal(read_idx(Folder(path.parent), path.name), IMAGES)


def check_binary(path):
    images, labels = read_binary(Folder(path.parent), [path.name], 10)
    assert images.shape[1:] == (3, 32, 32)
    assert len(labels) == len(images)
    assert labels.max() < 10


def check_human(path):
    noisy, clean = read_human_labels(Folder(path.parent), name=path.name, key="l", num_classes=10)
    assert noisy.shape == clean.shape
    assert set(noisy) <= set(range(10))


def check_zip(path):
    files = Zip(path)
    for name in files.names():
        files.read(name)


def check_tar(path):
    files = Tar(path)
    for name in files.names():
        files.read(name)


def check_loaded(path):
    data = load(path, target="y").train
    assert len(data.inputs) == len(data.labels) > 0
    assert 0 <= data.labels.min() <= data.labels.max() < data.num_classes


def check_npy(path):
    (path.parent / "y").write_bytes(npy(np.array([0, 1, 0])))
    data = load(path, target="y").train
    assert data.inputs.shape[0] == 3


def check_image(path):
    for name in ("a", "b"):
        (path.parent / "tree" / name).mkdir(parents=True, exist_ok=True)
    (path.parent / "tree" / "a" / "x.png").write_bytes(path.read_bytes())
    (path.parent / "tree" / "b" / "x.png").write_bytes(GOOD_IMAGE)
    data = load(path.parent / "tree", image_size=4).train
    assert data.inputs.shape[2:] == (4, 4)


IMAGES = some_images(3, 2, 2)
GOOD_IMAGE = encoded_image(some_images(6, 6, 3)[0])
FRAME = pl.DataFrame({"a": [1.5, 2.0, 3.0, 9.0], "b": ["u", "v", "u", "w"], "y": [0, 1, 0, 1]})
PARSERS = {
    "idx": ("x", idx(IMAGES), check_idx),
    "idx.gz": ("x.gz", gzip.compress(idx(IMAGES)), check_gzipped_idx),
    "cifar.bin": ("x.bin", cifar_records(np.array([1, 2]), some_images(2, 3072)), check_binary),
    "human.pt": ("x.pt", human_labels_file(np.arange(3), np.arange(3), "l"), check_human),
    "zip": ("x.zip", zipped(b"some content" * 9), check_zip),
    "tar": ("x.tar.gz", tarred(b"some content" * 9), check_tar),
    "npz": ("x.npz", npz(X=np.eye(3), y=np.array(["a", "b", "a"])), check_loaded),
    "npy": ("x.npy", npy(np.eye(3)), check_npy),
    "csv": ("x.csv", FRAME.write_csv().encode(), check_loaded),
    "parquet": ("x.parquet", parquet(FRAME), check_loaded),
    "image": ("x", GOOD_IMAGE, check_image),
}


KINDS = ("cut", "overwrite", "insert", "replace")


@st.composite
def damaged(draw, content, kinds):
    """Draw the content cut, overwritten, with bytes inserted, or replaced."""
    kind = draw(st.sampled_from(kinds))
    if kind == "replace":
        return draw(st.binary(max_size=200))
    at = draw(st.integers(0, len(content)))
    if kind == "cut":
        return content[:at]
    if kind == "insert":
        return content[:at] + draw(st.binary(min_size=1, max_size=8)) + content[at:]
    changed = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        changed[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
    return bytes(changed)


@pytest.mark.parametrize("name", PARSERS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(data=st.data())
def test_right_answer_or_data_error(name, data):
    file_name, content, check = PARSERS[name]
    # A changed byte within a Parquet file can abort polars, and so the process.
    hostile = data.draw(damaged(content, ("cut",) if name == "parquet" else KINDS))
    with TemporaryDirectory() as folder:
        path = Path(folder) / file_name
        path.write_bytes(hostile)
        with suppress(DataError):
            check(path)


@pytest.mark.parametrize("name", PARSERS)
def test_the_undamaged_file_is_read(name, tmp_path):
    file_name, content, check = PARSERS[name]
    (tmp_path / file_name).write_bytes(content)
    check(tmp_path / file_name)


@given(st.text(max_size=200))
def test_any_text_as_csv(text):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.csv"
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        with suppress(DataError):
            check_loaded(path)
