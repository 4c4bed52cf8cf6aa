"""One error for data that cannot be had or cannot be trusted."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from noisebound.errors import DataError


@contextmanager
def reading(name: str | Path, remedy: str = "fetch it again") -> Iterator[None]:
    """Whatever a damaged file does to the parser beneath becomes one error that names the file.

    The parsers are other people's (gzip, zipfile, pickle, Pillow, polars), and what they raise on
    hostile bytes is not a closed list; an interrupt still passes.
    """
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        reason = str(error).strip() or "no reason given"
        raise DataError(
            f"{name} cannot be read ({type(error).__name__}: {reason}): it is truncated, damaged "
            f"or of another format; {remedy}"
        ) from error
