"""Finds the extra that installs a missing package."""

import re
from functools import cache
from importlib.metadata import requires

from noisebound.errors import MissingExtraError

_IMPORTED_AS = {"pillow": "PIL", "scikit-learn": "sklearn"}


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
