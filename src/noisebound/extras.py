"""Which extra of noisebound installs a package that could not be imported."""

from noisebound.errors import MissingExtraError

CLI_PACKAGES = {
    "cyclopts": "cyclopts",
    "filelock": "filelock",
    "jinja2": "jinja2",
    "joblib": "joblib",
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


def missing_extra(what: str, error: BaseException | None) -> MissingExtraError | None:
    """Return the error that names the extra to install; None if nothing of an extra is missing.

    Args:
        what: the subject of the sentence, such as ``"noisebound fit"``
        error: the error that an import ended with; of a chain of errors, the last one
    """
    while isinstance(error, ImportError):
        if isinstance(error, MissingExtraError):
            return error
        # A name with a dot is a module that is missing inside an installed package.
        if isinstance(error, ModuleNotFoundError) and error.name in CLI_PACKAGES:
            return MissingExtraError(what, CLI_PACKAGES[error.name], "cli")
        error = error.__cause__
    return None
