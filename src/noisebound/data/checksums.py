"""Checksums of the rows of a file, so that no flipped bit on a disk changes a result unseen."""

import zlib
from pathlib import Path

import torch
from jaxtyping import Int64, Shaped
from torch import Tensor

from noisebound.errors import DataError


class RowChecksums:
    """The CRC-32 of each row of a mapped file, of which each is checked when it is first read.

    A check at the start would have to read the whole file, which may be larger than the memory.
    Checked one by one, rows cost no more reading than their use does: each is checked once per
    process, just after it was read. What the memory itself does to a row later is not noticed.

    Args:
        expected: checksum of each row
        path: the file, which is removed if a row is damaged, so that it is made anew
    """

    def __init__(self, expected: Int64[Tensor, " n"], path: Path) -> None:
        self._expected, self._path = expected, path
        self._is_checked = torch.zeros(len(expected), dtype=torch.bool)

    def check(self, rows: Shaped[Tensor, "m ..."], positions: Int64[Tensor, " m"]) -> None:
        """Raise a `DataError` if a row is not what was written.

        Args:
            rows: the rows as they were read
            positions: their positions in the file
        """
        if self._is_checked[positions].all():
            return
        for row, position in zip(rows, positions.tolist(), strict=True):
            if not self._is_checked[position] and crc(row) != self._expected[position]:
                self._path.unlink(missing_ok=True)
                raise DataError(
                    f"{self._path} was damaged on the disk and has been removed: run the same "
                    "again, and it is made anew from the original files"
                )
        self._is_checked[positions] = True


def crc(row: Shaped[Tensor, "..."]) -> int:
    """Return the CRC-32 of a row's bytes."""
    return zlib.crc32(row.contiguous().numpy().data)
