"""The explorer: one HTML page that computes a loss's floor while its reader moves the noise rate.

The page's script, ``templates/explorer/theory.js``, computes the same numbers as
:func:`~noisebound.bounds.noise_bound`. This file lists the losses and the ranges of the sliders.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

from noisebound.catalog import SPECS
from noisebound.losses import GeneralizedCrossEntropy, SymmetricCrossEntropy
from noisebound.report.page import render
from noisebound.system.files import write_text


@dataclass(frozen=True)
class LossParameter:
    """A hyperparameter of a loss, and the title, hint and range of its slider."""

    name: str
    label: str
    hint: str
    low: float
    high: float
    step: float


@dataclass(frozen=True)
class ExploredLoss:
    """A loss whose floor has a closed form, which the page's script computes."""

    name: str  # in the catalog
    python: str  # an expression with placeholders: {rate}, {classes} and those of `parameters`
    parameters: tuple[str, ...] = ()  # names of `PARAMETERS`

    def offered(self) -> dict[str, object]:
        """Return the loss with the catalog's texts."""
        spec = SPECS[self.name]
        return asdict(self) | {"label": spec.label, "title": spec.title, "formula": spec.formula}


PARAMETERS = (
    LossParameter("a", "Exponent a", "0: cross-entropy, 1: MAE", 0.01, 1.0, 0.01),
    LossParameter("A", "Weight A", "of the MAE term beside cross-entropy", 0.0, 20.0, 0.1),
)
_FOR_THE_NOISE = "(noise_rate={rate}, num_classes={classes})"
_NCE, _NFL = "nb.Normalized(nb.CrossEntropy())", "nb.Normalized(nb.Focal(gamma=0.5))"
LOSSES = (
    ExploredLoss("ce", "nb.CrossEntropy()"),
    ExploredLoss("fce", f"nb.ForwardCrossEntropy.symmetric{_FOR_THE_NOISE}"),
    ExploredLoss("gce", "nb.GeneralizedCrossEntropy(a={a})", ("a",)),
    ExploredLoss("sce", "nb.SymmetricCrossEntropy(A={A})", ("A",)),
    ExploredLoss("cep", f"nb.PriorCrossEntropy{_FOR_THE_NOISE}"),
    ExploredLoss("backward", f"nb.BackwardCrossEntropy.symmetric{_FOR_THE_NOISE}"),
    ExploredLoss("mse", "nb.MeanSquaredError()"),
    ExploredLoss("spherical", "nb.Spherical()"),
    ExploredLoss("mae", "nb.MeanAbsoluteError()"),
    ExploredLoss("nce-mae", "nb.NormalizedCrossEntropyMAE()"),
    ExploredLoss("focal", "nb.Focal()"),
    ExploredLoss("rce", "nb.ReverseCrossEntropy()"),
    ExploredLoss("nce", _NCE),
    ExploredLoss("nfl", _NFL),
    ExploredLoss("nce-rce", f"nb.ActivePassive({_NCE}, nb.ReverseCrossEntropy())"),
    ExploredLoss("nfl-mae", f"nb.ActivePassive({_NFL}, nb.MeanAbsoluteError())"),
    ExploredLoss("nfl-rce", f"nb.ActivePassive({_NFL}, nb.ReverseCrossEntropy())"),
    ExploredLoss("agce", "nb.AsymmetricGeneralizedCrossEntropy()"),
    ExploredLoss("aul", "nb.AsymmetricUnhinged()"),
    ExploredLoss("ael", "nb.AsymmetricExponential()"),
    ExploredLoss(
        "nce-agce",
        f"nb.ActivePassive({_NCE}, nb.AsymmetricGeneralizedCrossEntropy(a=6, q=1.5), beta=4)",
    ),
    ExploredLoss("taylor", "nb.TaylorCrossEntropy()"),
    ExploredLoss("js", "nb.JensenShannon()"),
    ExploredLoss("ls", "nb.LabelSmoothing()"),
    ExploredLoss("nls", "nb.LabelSmoothing(smoothing=-0.4)"),
    ExploredLoss("ldr-kl", "nb.LabelDistributionallyRobust()"),
)
MOST_CLASSES = 1000  # as many as ImageNet has


def explorer_html() -> str:
    """Return the page as text; it is the same text on every call."""
    paper = {"a": GeneralizedCrossEntropy().a, "A": SymmetricCrossEntropy().A}
    explored = {
        "losses": [loss.offered() for loss in LOSSES],
        "parameters": [asdict(parameter) for parameter in PARAMETERS],
        "most_classes": MOST_CLASSES,
        "defaults": {"loss": "sce", "rate": 0.4, "classes": 10, **paper},
        # the losses of the paper's figure on sensitivity
        "references": [{"loss": name} for name in ("ce", "sce", "gce")],
    }
    return render("explorer/page.html", {"explored": explored})


def write_explorer(path: Path) -> None:
    """Write the page, whole or not at all."""
    write_text(path, explorer_html())
