"""The family of errors for a user's mistakes.

Each message names the expected value, the value that came, and the remedy. An argument is written
in backticks, as in `noise_rate`; the command line turns that into its flag. Every class is also one
of Python's own errors, so that ``except ValueError`` works. Any other error is a fault in
noisebound itself.
"""

import json
import shlex
from importlib.metadata import distribution
from urllib.parse import urlsplit


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


class NoRoomError(NoiseboundError, OSError):
    """A file could not be written because the disk is full."""


class MissingExtraError(NoiseboundError, ModuleNotFoundError):
    """A package is missing that an extra of noisebound installs.

    Args:
        what: the subject of the sentence, such as ``"noisebound fit"``
        package: the package that could not be imported
        extra: the extra that installs it
    """

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(
            f"{what} needs {package}, which is not installed: {install_command(extra)}"
        )


def install_command(extra: str) -> str:
    """Return the command that adds an extra to this installation.

    pip records where it installed a package from, unless that was a package index. The command
    names the same place: a checkout, a wheel or a repository.

    Args:
        extra: the name of the extra, such as ``"cli"``
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
