"""Whatever a parser raises becomes one error that names the file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from noisebound.errors import DataError, MissingExtraError


@contextmanager
def reading(name: str | Path, remedy: str = "fetch it again") -> Iterator[None]:
    """Turn any exception within the block into a `DataError` that names the file.

    The parsers belong to others (gzip, zipfile, pickle, Pillow, polars), and may raise anything on
    damaged or hostile bytes. A keyboard interrupt still passes.

    Args:
        name: the file
        remedy: what the user should do
    """
    try:
        yield
    except (DataError, MissingExtraError):
        raise
    except Exception as error:
        reason = str(error).strip() or "no reason given"
        raise DataError(
            f"{name} cannot be read ({type(error).__name__}: {reason}): it is truncated, damaged "
            f"or of another format; {remedy}"
        ) from error
