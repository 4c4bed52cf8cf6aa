"""The family of errors for a user's mistakes.

Each message names the expected value, the value that came, and the remedy. An argument is written
in backticks, as in `noise_rate`; the command line turns that into its flag. Every class is also one
of Python's own errors, so that ``except ValueError`` works. Any other error is a fault in
noisebound itself.
"""


class NoiseboundError(Exception):
    """The base of all errors that the user can fix."""


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
            f"{what} needs {package}, which is not installed: pip install 'noisebound[{extra}]'"
        )
