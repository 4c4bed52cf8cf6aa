"""Pickles are read without running them: arrays, bytes, numbers, text, lists and dicts only.

A pickle is a program that may call anything that it can name. Data sets of this field are published
as pickles nevertheless. So the few names that they need are mapped to harmless stand-ins, and any
other name is refused before it is looked up.
"""

import io
import pickle
import re
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from noisebound.data.reading import reading
from noisebound.errors import DataError

_BYTEARRAY8 = pickle.BYTEARRAY8[0]


def parse_pickle(content: bytes, name: str) -> dict[str, Any]:
    """Return the dict in a pickle, with keys of type str even if Python 2 wrote it."""
    with reading(name):
        value = _InertUnpickler(io.BytesIO(content), name).load()
        if not isinstance(value, dict):
            raise DataError(f"{name} must hold a dict, got {type(value).__name__}")
        return {_text(key, name): _finished(item) for key, item in value.items()}


# The implementation in Python and not the one in C, because a hostile index into the memo makes the
# latter allocate and touch gigabytes, while the former fills a dict.
class _InertUnpickler(pickle._Unpickler):
    # Without this opcode, since it allocates the length that it claims before it reads a byte.
    dispatch: ClassVar = {
        code: load for code, load in pickle._Unpickler.dispatch.items() if code != _BYTEARRAY8
    }

    def __init__(self, stream: io.BytesIO, name: str) -> None:
        super().__init__(stream, encoding="bytes")
        self._name = name
        self._encode = _Encode(stream.getbuffer().nbytes, name)

    def find_class(self, module: str, name: str) -> Any:
        wanted = (_text(module, self._name), _text(name, self._name))
        stand_in = self._encode if wanted == ("_codecs", "encode") else _STAND_INS.get(wanted)
        if stand_in is None:
            raise DataError(
                f"{self._name} is refused: it asks for {module}.{name}, and a pickle of data "
                "needs nothing but arrays, bytes, lists and dicts; do not open it elsewhere"
            )
        return stand_in


class _StandIn:
    """A stand-in for a name, without attributes that a pickle could set."""

    __slots__ = ()

    def __setstate__(self, state: Any) -> None:
        raise DataError("a pickle may not change what it calls")


class _Reconstruct(_StandIn):
    """Stands for numpy's ``_reconstruct``: an empty array, which gets its content afterwards."""

    __slots__ = ()

    def __call__(self, kind: Any, shape: Any, code: Any) -> "_Array":
        return _Array()


class _ArrayType(_StandIn):
    """Stands for ``numpy.ndarray``, an argument of ``_reconstruct``."""

    __slots__ = ()


class _DTypeOf(_StandIn):
    """Stands for ``numpy.dtype``, for plain numbers only."""

    __slots__ = ()

    def __call__(self, code: Any, align: Any = False, copy: Any = False) -> "_DType":
        return _DType(code)


class _Encode(_StandIn):
    """Stands for ``_codecs.encode``, by which Python 3 writes bytes in old protocols.

    An honest pickle encodes each of its texts once, so that the bytes can never be more than the
    pickle itself has. One that encodes the same text again and again would fill the memory.

    Args:
        allowed: size of the pickle, in bytes
        name: the pickle, for the message
    """

    __slots__ = ("_left", "_name")

    def __init__(self, allowed: int, name: str) -> None:
        self._left, self._name = allowed, name

    def __call__(self, text: str, encoding: Any) -> bytes:
        if _text(encoding, "an encoding") != "latin1":
            raise DataError(f"bytes must be encoded as latin1, got {encoding!r}")
        self._left -= len(text)
        if self._left < 0:
            raise DataError(
                f"{self._name} is refused: it unpacks to more bytes than it has, by encoding the "
                "same text again and again; do not open it elsewhere"
            )
        return text.encode("latin1")


class _DType:
    __slots__ = ("code", "order")

    def __init__(self, code: Any) -> None:
        self.code = _text(code, "a type of numbers")
        self.order = "="
        if not re.fullmatch(r"b1|[iu][1248]|f[248]", self.code):
            raise DataError(f"arrays must hold plain numbers, got the type {self.code!r}")

    def __setstate__(self, state: Sequence[Any]) -> None:
        self.order = _text(state[1], "a byte order")
        if self.order not in ("<", ">", "=", "|"):
            raise DataError(f"a byte order must be one of < > = |, got {self.order!r}")

    def finished(self) -> np.dtype[Any]:
        return np.dtype(self.order + self.code)


class _Array:
    __slots__ = ("array",)

    array: NDArray[Any]

    def __setstate__(self, state: Sequence[Any]) -> None:
        _, shape, dtype, is_fortran, content = state
        if not isinstance(dtype, _DType) or not isinstance(content, bytes):
            raise DataError("an array's content must be bytes of plain numbers")
        flat = np.frombuffer(content, dtype.finished())
        self.array = flat.reshape(shape, order="F" if is_fortran else "C")


_STAND_INS = {
    ("numpy.core.multiarray", "_reconstruct"): _Reconstruct(),
    ("numpy._core.multiarray", "_reconstruct"): _Reconstruct(),
    ("numpy", "ndarray"): _ArrayType(),
    ("numpy", "dtype"): _DTypeOf(),
}


def _finished(value: Any) -> Any:
    return value.array if isinstance(value, _Array) else value


def _text(value: Any, name: str) -> str:
    if isinstance(value, bytes):
        return value.decode("ascii")
    if not isinstance(value, str):
        raise DataError(f"{name} must name things by text, got {type(value).__name__}")
    return value
