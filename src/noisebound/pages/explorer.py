"""The explorer: one HTML page that computes a loss's floor while its reader moves the noise rate.

The page's script, ``templates/explorer/theory.js``, computes the same numbers as
:func:`~noisebound.bounds.noise_bound`. This file lists the losses and the ranges of the sliders.
"""

from pathlib import Path
from typing import NamedTuple

from noisebound.catalog import SPECS
from noisebound.losses import GeneralizedCrossEntropy, SymmetricCrossEntropy
from noisebound.pages.page import render
from noisebound.system.files import write_text

_SEARCHED = ("bootstrap", "nce-aul", "nce-ael")  # their floors are found by a search
_OF_PARAMETERS = {
    "gce": "nb.GeneralizedCrossEntropy(a={a})",
    "sce": "nb.SymmetricCrossEntropy(A={A})",
}
_OF_NOISE = dict.fromkeys(("fce", "cep", "backward"), ", noise_rate={rate}, num_classes={classes}")

LOSSES = {
    name: _OF_PARAMETERS.get(name, f'nb.create_loss("{name}"{_OF_NOISE.get(name, "")})')
    for name, spec in SPECS.items()
    if spec.has_floor and spec.make is not None and name not in _SEARCHED
}
"""The losses whose floor has a closed form, which the page's script computes, as Python writes them
with placeholders for the rate, the number of classes and `PARAMETERS`."""


class LossParameter(NamedTuple):
    """A hyperparameter of a loss, and the title, hint and range of its slider."""

    name: str
    label: str
    hint: str
    low: float
    high: float
    step: float


PARAMETERS = (
    LossParameter("a", "Exponent a", "0: cross-entropy, 1: MAE", 0.01, 1.0, 0.01),
    LossParameter("A", "Weight A", "of the MAE term beside cross-entropy", 0.0, 20.0, 0.1),
)
MOST_CLASSES = 1000  # as many as ImageNet has


def explorer_html() -> str:
    """Return the page as text; it is the same text on every call."""
    paper = {"a": GeneralizedCrossEntropy().a, "A": SymmetricCrossEntropy().A}
    losses = [
        {
            "name": name,
            "python": python,
            "parameters": [each.name for each in PARAMETERS if f"{{{each.name}}}" in python],
            **{text: getattr(SPECS[name], text) for text in ("label", "title", "formula")},
        }
        for name, python in LOSSES.items()
    ]
    explored = {
        "losses": losses,
        "parameters": [each._asdict() for each in PARAMETERS],
        "most_classes": MOST_CLASSES,
        "defaults": {"loss": "sce", "rate": 0.4, "classes": 10, **paper},
        # the losses of the paper's figure on sensitivity
        "references": [{"loss": name} for name in ("ce", "sce", "gce")],
    }
    return render("explorer/page.html", {"explored": explored})


def write_explorer(path: Path) -> None:
    """Write the page, whole or not at all."""
    write_text(path, explorer_html())
