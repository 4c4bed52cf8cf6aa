import pickle

import numpy as np
import pytest

from noisebound.data.formats.safe_pickle import parse_pickle
from noisebound.errors import DataError
from published_files import pickle_that_runs_code, python2_pickle

CONTENT = {
    "data": np.arange(12, dtype=np.uint8).reshape(3, 4),
    "labels": [3, 1, 2],
    "names": ["a", "b"],
}


def test_reads_what_python_2_wrote():
    read = parse_pickle(python2_pickle(CONTENT), "file")
    np.testing.assert_array_equal(read["data"], CONTENT["data"])
    assert read["labels"] == [3, 1, 2]
    assert read["names"] == [b"a", b"b"]


def test_what_the_tests_call_python_2s_pickle_is_one():
    """Python's own unpickler reads the same content."""
    read = pickle.loads(python2_pickle(CONTENT), encoding="bytes")
    np.testing.assert_array_equal(read[b"data"], CONTENT["data"])
    assert read[b"labels"] == [3, 1, 2]


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [np.uint8, np.int64, ">i4", np.float32, bool])
def test_reads_what_python_3_writes(protocol, dtype):
    array = np.array([[0, 1], [1, 0]], dtype)
    for written in (array, np.asfortranarray(array)):
        read = parse_pickle(pickle.dumps({"x": written, "n": [1]}, protocol), "file")
        np.testing.assert_array_equal(read["x"], array)
        assert read["x"].dtype == array.dtype


def test_code_is_refused_and_never_run(tmp_path):
    witness = tmp_path / "ran"
    hostile = pickle_that_runs_code(witness)
    with pytest.raises(DataError, match="file is refused: it asks for"):
        parse_pickle(hostile, "file")
    assert not witness.exists()
    pickle.loads(hostile)  # Python's own unpickler runs it
    assert witness.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"cos\nsystem\n(S'true'\ntR.",
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R.",
        b"(S'true'\nios\nsystem\n.",
        b"cnumpy\nload\n.",
        b"cnumpy.core.multiarray\nscalar\n.",
        b"cnumpy.core.multiarray\n_reconstruct.__class__\n.",
    ],
    ids=["global", "builtin", "stack", "inst", "numpy", "scalar", "dotted"],
)
def test_every_other_name_is_refused(content):
    with pytest.raises(DataError, match="refused"):
        parse_pickle(content, "file")


@pytest.mark.parametrize(
    "content",
    [
        b"cnumpy\ndtype\n(dS'__call__'\nI1\nsb.",  # sets state on what it calls
        b"\x80\x02cnumpy\nndarray\n)\x81.",  # makes an object of a class
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n(I9\ntNI0\nS''\ntb.",
        b"cnumpy\ndtype\n(S'O8'\nI0\nI1\ntR.",  # an array of objects
        b"c_codecs\nencode\n(S'x'\nS'rot13'\ntR.",
        b"(lp0\n.",  # no dict
        b"",
        b"\x80\x02}q\x00.\x00"[:3],
        b"\x80\x04r\xff\xff\xff\xff.",  # a memo of gigabytes, to Python's C implementation
        b"\x80\x05\x96" + (2**40).to_bytes(8, "little") + b".",  # a bytearray of a terabyte
        b"cnumpy\ndtype\n(S'i4'\nI0\nI1\ntR(I3\nS'i4,'\nNNNI-1\nI-1\nI0\ntb.",  # a record type
    ],
    ids=[
        "state",
        "new",
        "content",
        "objects",
        "codec",
        "list",
        "empty",
        "cut",
        "memo",
        "bytearray",
        "order",
    ],
)
def test_misuse_of_what_is_admitted(content):
    with pytest.raises(DataError):
        parse_pickle(content, "file")


def test_truncated():
    content = python2_pickle(CONTENT)
    for keep in range(len(content)):
        with pytest.raises(DataError, match="file"):
            parse_pickle(content[:keep], "file")
