"""The paper's three figures, out of our own functions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray

from noisebound.bounds import entropy_interval
from noisebound.catalog import SPECS
from noisebound.losses import (
    CrossEntropy,
    ForwardCrossEntropy,
    GeneralizedCrossEntropy,
    Loss,
    MeanAbsoluteError,
    SymmetricCrossEntropy,
)
from noisebound.report.plots import BLACK, BLUE, GREEN, ORANGE, SKY, save_figure

Curve: TypeAlias = NDArray[np.float64]
_RATES = np.linspace(0.005, 0.5, 100)
_CLASSES = (10, 200)
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)))  # so that print without color tells lines apart


@dataclass(frozen=True)
class Sensitivity:
    """Between which limits the entropy lies for noise of any structure, rate by rate."""

    rates: Curve
    lower: Curve
    upper: Curve

    @property
    def ratio(self) -> Curve:
        """How much too high the noise-bound may be."""
        return self.upper / self.lower


def sensitivity(loss: Loss, num_classes: int) -> Sensitivity:
    """The limits of the entropy for noise rates up to a half."""
    limits = [entropy_interval(loss, float(rate), num_classes) for rate in _RATES]
    lower, upper = np.array(limits, dtype=np.float64).T
    return Sensitivity(_RATES, lower, upper)


def sensitivity_figure() -> Figure:
    """Upper and lower limits for CE, SCE and GCE at 10 and 200 classes; their ratio below."""
    figure = Figure(figsize=(8, 6.4), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True)
    losses = {
        _label("ce"): CrossEntropy(),
        _label("sce", "A = 8"): SymmetricCrossEntropy(A=8.0),
        _label("gce", "a = 0.4"): GeneralizedCrossEntropy(a=0.4),
    }
    for (above, below), classes in zip(axes.T, _CLASSES, strict=True):
        for (name, loss), color, dash in zip(
            losses.items(), (ORANGE, GREEN, BLUE), _DASHES, strict=False
        ):
            found = sensitivity(loss, classes)
            for limit, label in ((found.upper, name), (found.lower, None)):
                above.plot(found.rates, limit, color=color, linestyle=dash, label=label)
            above.fill_between(found.rates, found.lower, found.upper, color=color, alpha=0.15)
            below.plot(found.rates, found.ratio, color=color, linestyle=dash, label=name)
        above.set(title=f"{classes} classes", ylabel="entropy: symmetric and pairwise")
        below.set(xlabel="noise rate", ylabel="upper limit / lower limit")
        above.legend()
        below.legend()
    return figure


def _label(name: str, setting: str = "") -> str:
    label = SPECS[name].label
    return f"{label}, {setting}" if setting else label


def best_prediction(loss: Loss, p: Curve) -> Curve:
    """In the binary case the ``q`` that makes the expected loss least: ``f⁻¹(p)``.

    By the loss's noise model; where it has none, the best of a fine grid.
    """
    truth = torch.from_numpy(np.stack([p, 1 - p], axis=1))
    if loss.noise_model is not None:
        # beyond what a linear noise model can make of any q, the nearest vertex is best
        return np.asarray(loss.noise_model.inverse(truth)[:, 0].clamp(0, 1))
    grid = torch.linspace(0, 1, 2001, dtype=torch.float64)
    logits = torch.stack([grid.log(), (1 - grid).log()], dim=1).clamp(min=-1e3)
    losses = torch.stack(
        [type(loss)(reduction="none")(logits, torch.full((len(grid),), k)) for k in (0, 1)]
    )
    best: Curve = grid[(truth @ losses).argmin(1)].numpy()
    return best


def noise_models_figure() -> Figure:
    """``f⁻¹`` in the binary case: what minimizes the expected loss when the truth is ``p``."""
    losses: Mapping[str, Loss] = {
        _label("sce", "A = 8"): SymmetricCrossEntropy(A=8.0),
        _label("gce", "a = 0.7"): GeneralizedCrossEntropy(a=0.7),
        _label("fce", "η = 0.4"): ForwardCrossEntropy.symmetric(0.4, 2),
        _label("ce"): CrossEntropy(),
        _label("mae"): MeanAbsoluteError(),
    }
    p = np.linspace(0.001, 0.999, 999)
    figure = Figure(figsize=(5.6, 4.8), layout="constrained")
    axes = figure.subplots()
    for (name, loss), color, dash in zip(
        losses.items(), (GREEN, BLUE, SKY, ORANGE, BLACK), _DASHES, strict=True
    ):
        axes.plot(p, best_prediction(loss, p), color=color, linestyle=dash, label=name)
    axes.set(
        xlabel="true probability p",
        ylabel="f⁻¹(p): the q of least expected loss",
        xlim=(0, 1),
        ylim=(-0.02, 1.02),
    )
    axes.legend()
    return figure


@dataclass(frozen=True)
class RateCurve:
    """Accuracies over the noise rate that the bound was computed with.

    Args:
        label: the loss
        column: the data set and its true noise
        true_rate: of the noise
        rates: what was believed instead
        means: clean test accuracy in percent
        stds: their deviation over seeds; 0 where there is one
    """

    label: str
    column: str
    true_rate: float
    rates: Sequence[float]
    means: Sequence[float]
    stds: Sequence[float]


def rate_sweep_figure(curves: Sequence[RateCurve]) -> Figure:
    """The bump: too low a rate memorizes, too high a one does not learn; the true one is marked."""
    figure = Figure(figsize=(4.2 * len(curves) + 0.8, 3.8), layout="constrained")
    for axes, curve, color in zip(
        figure.subplots(1, len(curves), squeeze=False)[0],
        curves,
        (BLUE, ORANGE, SKY, BLACK) * len(curves),
        strict=False,
    ):
        axes.errorbar(curve.rates, curve.means, yerr=curve.stds, color=color, marker="o", capsize=3)
        axes.axvline(
            curve.true_rate, color=GREEN, linestyle=":", label=f"true rate {curve.true_rate:g}"
        )
        axes.set(
            title=f"{curve.label}, {curve.column}",
            xlabel="noise rate that the bound is computed with",
            ylabel="clean test accuracy, %",
        )
        axes.legend()
    return figure


def write_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """As PNG and as SVG."""
    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    for path in paths:
        save_figure(figure, path)
    return paths
