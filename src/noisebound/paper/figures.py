"""The paper's figures, drawn with the library's functions."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray

from noisebound.bounds import entropy_interval
from noisebound.losses import (
    CrossEntropy,
    ForwardCrossEntropy,
    GeneralizedCrossEntropy,
    LikelihoodLoss,
    Loss,
    MeanAbsoluteError,
    SymmetricCrossEntropy,
)
from noisebound.pages.plots import BLACK, BLUE, GREEN, ORANGE, SKY, save_figure
from noisebound.paper.protocol import COLUMNS, label_of

Curve: TypeAlias = NDArray[np.float64]
RATES = np.linspace(0.005, 0.5, 100)
_CLASSES = (10, 200)
# Dashes distinguish the lines in print without color.
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)))


def sensitivity(loss: Loss, num_classes: int) -> tuple[Curve, Curve]:
    """Return the entropies of a loss for pairwise and for symmetric noise, at `RATES`.

    They limit the entropy for noise of any structure. The upper one is the noise-bound, so their
    ratio is the factor by which the noise-bound may be too high.
    """
    limits = [entropy_interval(loss, float(rate), num_classes) for rate in RATES]
    lower, upper = np.array(limits, dtype=np.float64).T
    return lower, upper


def sensitivity_figure() -> Figure:
    """Return the figure of the limits of CE, SCE and GCE at 10 and 200 classes, and their ratio."""
    figure = Figure(figsize=(8, 6.4), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True)
    losses = (
        ("CE", CrossEntropy(), ORANGE, "-"),
        ("SCE, A = 8", SymmetricCrossEntropy(A=8.0), GREEN, "--"),
        ("GCE, a = 0.4", GeneralizedCrossEntropy(a=0.4), BLUE, "-."),
    )
    for (above, below), classes in zip(axes.T, _CLASSES, strict=True):
        for name, loss, color, dash in losses:
            lower, upper = sensitivity(loss, classes)
            above.plot(RATES, upper, color=color, linestyle=dash, label=name)
            above.plot(RATES, lower, color=color, linestyle=dash)
            above.fill_between(RATES, lower, upper, color=color, alpha=0.15)
            below.plot(RATES, upper / lower, color=color, linestyle=dash, label=name)
        above.set(title=f"{classes} classes", ylabel="entropy: symmetric and pairwise")
        below.set(xlabel="noise rate", ylabel="upper limit / lower limit")
        above.legend()
        below.legend()
    return figure


def best_prediction(loss: LikelihoodLoss, p: Curve) -> Curve:
    """Return the ``q`` of least expected loss for each ``p``, with two classes: ``f⁻¹(p)``."""
    best = loss.best_prediction(torch.from_numpy(np.stack([p, 1 - p], axis=1)))
    assert best is not None
    # A linear noise model cannot produce every p; beyond its range the nearest vertex is best.
    return np.asarray(best[:, 0].clamp(0, 1))


def noise_models_figure() -> Figure:
    """Return the figure of ``f⁻¹`` with two classes: the ``q`` of least expected loss at ``p``."""
    losses: Sequence[tuple[str, LikelihoodLoss, str]] = (
        ("SCE, A = 8", SymmetricCrossEntropy(A=8.0), GREEN),
        ("GCE, a = 0.7", GeneralizedCrossEntropy(a=0.7), BLUE),
        ("FCE, η = 0.4", ForwardCrossEntropy.symmetric(0.4, 2), SKY),
        ("CE", CrossEntropy(), ORANGE),
        ("MAE", MeanAbsoluteError(), BLACK),
    )
    p = np.linspace(0.001, 0.999, 999)
    figure = Figure(figsize=(5.6, 4.8), layout="constrained")
    axes = figure.subplots()
    for (name, loss, color), dash in zip(losses, _DASHES, strict=True):
        axes.plot(p, best_prediction(loss, p), color=color, linestyle=dash, label=name)
    axes.set(
        xlabel="true probability p",
        ylabel="f⁻¹(p): the q of least expected loss",
        xlim=(0, 1),
        ylim=(-0.02, 1.02),
    )
    axes.legend()
    return figure


def rate_sweep_figure(records: Sequence[Mapping[str, Any]]) -> Figure:
    """Return the figure of the records of `rate_table`, with a panel per method and column.

    With too low a rate, a network memorizes; with too high a rate, it does not learn.
    """
    panels: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for record in records:
        panels.setdefault((record["method"], record["column"]), []).append(record)
    figure = Figure(figsize=(4.2 * len(panels) + 0.8, 3.8), layout="constrained")
    grid = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, ((method, name), points), color in zip(
        grid, panels.items(), cycle((BLUE, ORANGE, SKY, BLACK)), strict=False
    ):
        column = COLUMNS[name]
        rates, means, stds = (
            [point[field] or 0 for point in points] for field in ("believed_rate", "mean", "std")
        )
        axes.errorbar(rates, means, yerr=stds, color=color, marker="o", capsize=3)
        true = column.noise_rate
        axes.axvline(true, color=GREEN, linestyle=":", label=f"true rate {true:g}")
        axes.set(
            title=f"{label_of(method)}, {column.title}",
            xlabel="noise rate that the bound is computed with",
            ylabel="clean test accuracy, %",
        )
        axes.legend()
    return figure


def write_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write the figure as PNG and SVG; return both paths."""
    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    for path in paths:
        save_figure(figure, path)
    return paths
