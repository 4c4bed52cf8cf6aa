"""How much a compressed file may unpack to: one place for every format, checked before it is read.

A few kilobytes can claim to hold gigabytes, by mistake or by intent. What honest data needs is
allowed by default; whoever needs more sets an environment variable.
"""

import os
import re

from noisebound.errors import DataError, InvalidValueError

UNPACKED_VARIABLE = "NOISEBOUND_MAX_UNPACKED"
PIXELS_VARIABLE = "NOISEBOUND_MAX_PIXELS"

_ALWAYS_ALLOWED = 2**30  # bytes: a choice; so much fits into the memory of any machine
_USUAL_RATIO = 100  # a choice: text and images compress 2 to 20 times, a file of zeros 1,000 times
_USUAL_PIXELS = 178_956_970  # of one image, and Pillow's own limit: 13,377 × 13,377
_TOO_MANY = f"pixels: allow more by the environment variable {PIXELS_VARIABLE} if you trust it"
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def unpacked_limit(packed: int) -> int:
    """Return how many bytes a file may unpack to: 100 times its size, and always a gigabyte.

    The environment variable ``NOISEBOUND_MAX_UNPACKED`` stands in for the gigabyte.

    Args:
        packed: size of the compressed file, in bytes

    Example:
        >>> unpacked_limit(1000) == 2**30, unpacked_limit(10**9) == 100 * 10**9
        (True, True)
    """
    given = os.environ.get(UNPACKED_VARIABLE)
    allowed = _number(UNPACKED_VARIABLE, given) if given else _ALWAYS_ALLOWED
    return max(allowed, _USUAL_RATIO * packed)


def check_unpacked(name: str, packed: int, unpacked: int) -> None:
    """Raise a `DataError` if a file would unpack to more than it may.

    Args:
        name: the file, for the message
        packed: size of the compressed file, in bytes
        unpacked: what it unpacks to, in bytes, as far as is known before it is unpacked
    """
    limit = unpacked_limit(packed)
    if unpacked > limit:
        raise DataError(
            f"{name} of {readable_size(packed)} would unpack to {readable_size(unpacked)} or more, "
            f"over the limit of {readable_size(limit)}: if you trust it and have the memory, raise "
            f"the limit by the environment variable {UNPACKED_VARIABLE}, as in "
            f"{UNPACKED_VARIABLE}={-(-unpacked // 10**9)}G"
        )


def pixel_limit() -> int:
    """Return how many pixels one image may have."""
    given = os.environ.get(PIXELS_VARIABLE)
    return _number(PIXELS_VARIABLE, given) if given else _USUAL_PIXELS


def too_many_pixels() -> str:
    """Return the reason why an image over the limit is not read."""
    return f"more than {pixel_limit():,} {_TOO_MANY}"


def is_of_other_pixel_limit(reason: str) -> bool:
    """True if an image was refused for this reason under another limit than there is now."""
    return reason.endswith(_TOO_MANY) and reason != too_many_pixels()


def _number(variable: str, text: str) -> int:
    match = re.fullmatch(r"(\d{1,15})\s*([KMGT]?)B?", text.strip(), re.IGNORECASE)
    if match is None:
        raise InvalidValueError(
            f"the environment variable {variable} must be a number such as 8G, got {text!r}"
        )
    return int(match[1]) * _UNITS[match[2].upper()]


def readable_size(size: int) -> str:
    """Return a number of bytes as people write it.

    Example:
        >>> readable_size(180), readable_size(2_100_000_000)
        ('180 bytes', '2.1 GB')
    """
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:,.1f} {name}"
    return f"{size} bytes"
