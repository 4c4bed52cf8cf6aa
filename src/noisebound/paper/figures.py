"""The paper's three figures, drawn from the library's own functions."""

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
# The lines differ in their dashes too, so that they can be distinguished in print without color.
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)))


@dataclass(frozen=True)
class Sensitivity:
    """The limits of the entropy at each noise rate, for noise of any structure.

    Args:
        rates: the noise rates
        lower: the entropy of pairwise noise at each rate
        upper: the entropy of symmetric noise at each rate, which is the noise-bound
    """

    rates: Curve
    lower: Curve
    upper: Curve

    @property
    def ratio(self) -> Curve:
        """The factor by which the noise-bound may be too high at each rate."""
        return self.upper / self.lower


def sensitivity(loss: Loss, num_classes: int) -> Sensitivity:
    """Return the limits of a loss's entropy for noise rates up to 0.5."""
    limits = [entropy_interval(loss, float(rate), num_classes) for rate in _RATES]
    lower, upper = np.array(limits, dtype=np.float64).T
    return Sensitivity(_RATES, lower, upper)


def sensitivity_figure() -> Figure:
    """Return the figure of the limits of CE, SCE and GCE at 10 and 200 classes, and their ratio."""
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
    """Return the ``q`` of least expected loss for each ``p``, with two classes: ``f⁻¹(p)``.

    It follows from the loss's noise model; for a loss that has none, it is the best of a fine grid.
    """
    truth = torch.from_numpy(np.stack([p, 1 - p], axis=1))
    if loss.noise_model is not None:
        # A linear noise model cannot produce every p; beyond its range the nearest vertex is best.
        return np.asarray(loss.noise_model.inverse(truth)[:, 0].clamp(0, 1))
    grid = torch.linspace(0, 1, 2001, dtype=torch.float64)
    logits = torch.stack([grid.log(), (1 - grid).log()], dim=1).clamp(min=-1e3)
    losses = torch.stack(
        [type(loss)(reduction="none")(logits, torch.full((len(grid),), k)) for k in (0, 1)]
    )
    best: Curve = grid[(truth @ losses).argmin(1)].numpy()
    return best


def noise_models_figure() -> Figure:
    """Return the figure of ``f⁻¹`` with two classes: the ``q`` of least expected loss at ``p``."""
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
    """The accuracies of one loss when its bound is computed with different noise rates.

    Args:
        label: name of the loss
        column: the data set and its true noise
        true_rate: the true noise rate
        rates: the noise rates that bounds were computed with
        means: clean test accuracy at each of ``rates``, in percent
        stds: standard deviation over seeds at each of ``rates``, in percent; 0 for a single seed
    """

    label: str
    column: str
    true_rate: float
    rates: Sequence[float]
    means: Sequence[float]
    stds: Sequence[float]


def rate_sweep_figure(curves: Sequence[RateCurve]) -> Figure:
    """Return the figure of accuracy over the noise rate, with one panel per curve.

    With too low a rate a network memorizes, with too high a rate it does not learn. The true rate
    is marked.
    """
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
    """Write the figure as PNG and as SVG, and return both paths."""
    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    for path in paths:
        save_figure(figure, path)
    return paths
