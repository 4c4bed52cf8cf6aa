"""The errors for a user's mistakes. Any other error is a fault in noisebound.

Each message names the expected value, the value that came, and the remedy. An argument is written
in backticks, as in `noise_rate`; the command line turns that into its flag. Every class is also one
of Python's own errors, so that ``except ValueError`` works.
"""

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import distribution, requires
from urllib.parse import urlsplit

_IMPORTED_AS = {"pillow": "PIL", "scikit-learn": "sklearn"}


class NoiseboundError(Exception):
    """The base of all errors that the user can correct."""


class InvalidValueError(NoiseboundError, ValueError):
    """An argument has the right type and an impossible value."""


class InvalidTypeError(NoiseboundError, TypeError):
    """An argument has the wrong type."""


class MisuseError(NoiseboundError, RuntimeError):
    """Methods were called in an invalid order."""


class DataError(InvalidValueError):
    """Data is missing, unreadable or damaged."""


class RunError(InvalidValueError):
    """A folder does not contain the requested run."""


class FolderTakenError(NoiseboundError, FileExistsError):
    """A folder already contains a run."""


class MissingExtraError(NoiseboundError, ModuleNotFoundError):
    """A package is missing that an extra of noisebound installs; ``what`` needs it."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(
            f"{what} needs {package}, which is not installed: {install_command(extra)}"
        )


@contextmanager
def needed_for(what: str, package: str, extra: str) -> Iterator[None]:
    """Raise a `MissingExtraError` if an import within the block fails."""
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(what, package, extra) from error


def install_command(extra: str) -> str:
    """Return the command that adds an extra to this installation.

    It names the place that pip recorded: a checkout, a wheel, a repository, or a package index.
    """
    from urllib.request import url2pathname  # slow to import, and rarely needed

    source = json.loads(distribution("noisebound").read_text("direct_url.json") or "{}")
    url, wanted = source.get("url", ""), f"noisebound[{extra}]"
    if url.startswith("file:"):
        wanted = f"{url2pathname(urlsplit(url).path)}[{extra}]"
    elif url:
        kind = f"{source['vcs_info']['vcs']}+" if "vcs_info" in source else ""
        wanted = f"{wanted} @ {kind}{url}"
    editable = "-e " if source.get("dir_info", {}).get("editable") else ""
    return f"pip install {editable}{shlex.quote(wanted)}"


@cache
def packages_of(extra: str) -> dict[str, str]:
    """Return the packages that an extra installs, by the names that they are imported by."""
    requirement = re.compile(rf"([\w-]+).*extra == ['\"]{extra}['\"]")
    found = filter(None, map(requirement.match, requires("noisebound") or ()))
    return {_IMPORTED_AS.get(each[1], each[1].replace("-", "_")): each[1] for each in found}


def missing_extra(what: str, error: BaseException | None) -> MissingExtraError | None:
    """Return the error that names the extra to install, or None if none of its packages is missing.

    ``what`` is the subject of the message, such as ``"noisebound fit"``. If errors are chained,
    pass the last one.
    """
    while isinstance(error, ImportError):
        if isinstance(error, MissingExtraError):
            return error
        # A name with a dot is a module that is missing inside an installed package.
        for extra in ("cli", "review"):
            package = packages_of(extra).get(error.name or "")
            if isinstance(error, ModuleNotFoundError) and package is not None:
                return MissingExtraError(what, package, extra)
        error = error.__cause__
    return None
