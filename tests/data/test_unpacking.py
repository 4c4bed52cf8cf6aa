"""Small files that unpack to much are refused before they take memory; a user may allow them."""

import gzip
import io
import struct
import tarfile
import zipfile
import zlib

import numpy as np
import pytest

from anonymous_memory import anonymous_bytes
from noisebound.data import load
from noisebound.data.files import Tar, Zip, check_unpacked, gunzip
from noisebound.errors import DataError
from published_files import plain_image

ZEROS = 32 * 10**6  # bytes, which deflate stores in a thousandth of that


@pytest.fixture
def low_limit(monkeypatch):
    """Half a megabyte stands in for the gigabyte that is always allowed."""
    monkeypatch.setattr("noisebound.data.files._ALWAYS_ALLOWED", 500_000)


def test_archive_bombs_are_refused():
    for packed, unpacked in ((200_000, 1.3e9), (180_000, 2.1e9), (300_000, 4.2e9)):
        with pytest.raises(DataError, match=r"x of .* kB would unpack to .* without compression$"):
            check_unpacked("x", packed, int(unpacked))


@pytest.mark.parametrize(("packed", "unpacked"), [(10**5, 10**9), (10**9, 20 * 10**9)])
def test_honest_files_are_not_refused(packed, unpacked):
    check_unpacked("x", packed, unpacked)


def test_npz(tmp_path, low_limit):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, X=np.zeros((4, ZEROS // 4), np.uint8), y=[0, 1, 0, 1])
    before = anonymous_bytes()
    with pytest.raises(
        DataError, match=r"a\.npz of 31.* kB would unpack to 32.0 MB .*limit of 3.* MB"
    ):
        load(path)
    assert anonymous_bytes() - before < ZEROS / 4
    np.savez(path, X=np.zeros((4, ZEROS // 4), np.uint8), y=[0, 1, 0, 1])
    assert len(load(path).train) == 4


def test_npz_that_is_not_compressed(tmp_path, low_limit):
    np.savez(tmp_path / "a.npz", X=np.zeros((4, 10**6), np.float32), y=[0, 1, 0, 1])
    assert len(load(tmp_path / "a.npz").train) == 4


def png_that_claims(width, height):
    """Return a PNG whose header has other sizes than its pixels."""
    content = bytearray(plain_image(1, 8, "PNG"))
    header = b"IHDR" + struct.pack(">II", width, height) + content[24:29]
    content[12:33] = header + struct.pack(">I", zlib.crc32(header))
    return bytes(content)


@pytest.fixture
def large_photo(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        (tmp_path / "pets" / name / "x.png").write_bytes(plain_image(1, 8, "PNG"))
    (tmp_path / "pets" / "cat" / "large.png").write_bytes(png_that_claims(20_000, 20_000))
    return tmp_path / "pets"


def test_image(large_photo):
    with pytest.raises(DataError, match=r"large\.png \(Image size \(400000000 pixels\) exceeds"):
        load(large_photo)
    assert len(load(large_photo, skip_bad=True).train) == 2


def test_gzip(low_limit):
    content = gzip.compress(bytes(2 * 10**6))
    with pytest.raises(DataError, match=r"file of .* would unpack to"):
        gunzip(content, "file")
    assert gunzip(gzip.compress(bytes(400_000)), "file") == bytes(400_000)


def test_zip(tmp_path, low_limit):
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("large", bytes(2 * 10**6))
        archive.writestr("small", b"x")
    files = Zip(tmp_path / "x.zip")
    assert files.read("small") == b"x"
    with pytest.raises(DataError, match=r"x\.zip:large of .* would unpack to 2.0 MB"):
        files.read("large")


def test_tar(tmp_path, low_limit):
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("large")
        member.size = 2 * 10**6
        archive.addfile(member, io.BytesIO(bytes(member.size)))
    with pytest.raises(DataError, match=r"x\.tar\.gz of .* would unpack to 2.0 MB"):
        Tar(tmp_path / "x.tar.gz").names()
