"""Which extra of noisebound installs a package that could not be imported."""

from noisebound.errors import MissingExtraError

CLI_PACKAGES = {
    "cyclopts": "cyclopts",
    "filelock": "filelock",
    "jinja2": "jinja2",
    "joblib": "joblib",
    "skops": "skops",
    "lightning_fabric": "lightning-fabric",
    "matplotlib": "matplotlib",
    "PIL": "pillow",
    "polars": "polars",
    "pooch": "pooch",
    "pydantic": "pydantic",
    "requests": "requests",
    "rich": "rich",
    "safetensors": "safetensors",
    "sklearn": "scikit-learn",
}
"""The packages of the ``cli`` extra, by the names that they are imported by."""

REVIEW_PACKAGES = {"starlette": "starlette", "uvicorn": "uvicorn"}
"""Likewise the packages that the ``review`` extra adds to it."""


def missing_extra(what: str, error: BaseException | None) -> MissingExtraError | None:
    """Return the error that names the extra to install, or None if nothing of an extra is missing.

    Args:
        what: the subject of the sentence, such as ``"noisebound fit"``
        error: the error that an import ended with; of a chain of errors, the last one
    """
    while isinstance(error, ImportError):
        if isinstance(error, MissingExtraError):
            return error
        # A name with a dot is a module that is missing inside an installed package.
        for extra, packages in (("cli", CLI_PACKAGES), ("review", REVIEW_PACKAGES)):
            if isinstance(error, ModuleNotFoundError) and error.name in packages:
                return MissingExtraError(what, packages[error.name], extra)
        error = error.__cause__
    return None
