"""The command that trains again as a run was trained, on labels that were corrected since."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from noisebound.data import DataOrigin
from noisebound.runs.run import Run

_NO_DATA = "DATA"  # stands for data that was in memory
_NO_FILE = "MATRIX.csv"  # stands for a matrix, which does not fit on a command line


def fit_again(run: Run, corrections: Path, out: Path) -> list[str]:
    """Return the words of a command that trains as the run did, with decisions about its labels.

    The user fills in anything that a command line cannot hold: data that was in memory, or a
    transition matrix.

    Args:
        run: the run whose labels were decided about
        corrections: the file of decisions
        out: the folder for the new run
    """
    folder, config = run.folder, run.config
    origin = folder.read_origin() if folder.data.exists() else DataOrigin(data=None)
    words = ["noisebound", "fit", origin.data or _NO_DATA]
    words += _options(origin, but={"data"})
    # Without a recipe or a loss, the command would look for a recipe.
    method = "loss" if config.recipe is None else "recipe"
    words += _option(method, getattr(config, method))
    words += _options(config, but={"loss", "recipe", "transition"})
    if config.transition is not None:
        words += _option("transition", _NO_FILE)
    return [*words, "--corrections", str(corrections), "--out", str(out)]


def _options(given: BaseModel, but: set[str]) -> list[str]:
    """Return the fields that differ from their defaults as options of the command."""
    words = []
    for name, field in type(given).model_fields.items():
        value = getattr(given, name)
        if name not in but and value != field.get_default(call_default_factory=True):
            words += _option(name, value)
    return words


def _option(name: str, value: Any) -> list[str]:
    flag = f"--{name.replace('_', '-')}"
    if value is None:  # a command line has no word for it
        return []
    if value is True:
        return [flag]
    if isinstance(value, dict):
        value = [f"{key}={each}" for key, each in value.items()]
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [flag, *map(str, value)]
    return [flag, str(value)]
