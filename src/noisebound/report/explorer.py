"""The explorer: one HTML page that computes a loss's floor as its reader moves the noise.

The page's own script computes (``templates/explorer/theory.js``), with the numbers of
:func:`~noisebound.bounds.noise_bound`; here is which losses it offers, and between which limits.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

from noisebound.files import write_text
from noisebound.losses import GeneralizedCrossEntropy, SymmetricCrossEntropy
from noisebound.report.rendering import render


@dataclass(frozen=True)
class LossParameter:
    """A number that a loss has, and the range that its slider covers."""

    name: str
    label: str
    hint: str
    low: float
    high: float
    step: float


@dataclass(frozen=True)
class ExploredLoss:
    """A loss whose floor has a closed form.

    Args:
        name: what :func:`~noisebound.catalog.create_loss` calls it
        label: its short name in the paper's tables
        title: its name in words
        formula: ``L(q, y)``
        python: how it is made; ``rate``, ``classes`` and its parameters stand in braces
        parameters: the names of its own
    """

    name: str
    label: str
    title: str
    formula: str
    python: str
    parameters: tuple[str, ...] = ()


PARAMETERS = (
    LossParameter("a", "Exponent a", "0: cross-entropy, 1: MAE", 0.01, 1.0, 0.01),
    LossParameter("A", "Weight A", "of the MAE term beside cross-entropy", 0.0, 20.0, 0.1),
)
_FOR_THE_NOISE = "(noise_rate={rate}, num_classes={classes})"
LOSSES = (
    ExploredLoss("ce", "CE", "cross-entropy", "-log q_y", "nb.CrossEntropy()"),
    ExploredLoss(
        "fce",
        "FCE",
        "forward-corrected cross-entropy",
        "-log (T q)_y",
        f"nb.ForwardCrossEntropy.symmetric{_FOR_THE_NOISE}",
    ),
    ExploredLoss(
        "gce",
        "GCE",
        "generalized cross-entropy",
        "(1 - q_y^a) / a",
        "nb.GeneralizedCrossEntropy(a={a})",
        ("a",),
    ),
    ExploredLoss(
        "sce",
        "SCE",
        "symmetric cross-entropy",
        "-log q_y + A (1 - q_y)",
        "nb.SymmetricCrossEntropy(A={A})",
        ("A",),
    ),
    ExploredLoss(
        "cep",
        "CEP",
        "cross-entropy with a prior",
        "-log q_y - Σ_i u_i log q_σ(i), σ sorting downwards",
        f"nb.PriorCrossEntropy{_FOR_THE_NOISE}",
    ),
    ExploredLoss(
        "backward",
        "Backward CE",
        "backward correction",
        "Σ_k T⁻¹[k, y] (-log q_k)",
        f"nb.BackwardCrossEntropy.symmetric{_FOR_THE_NOISE}",
    ),
    ExploredLoss(
        "mse", "MSE", "mean squared error", "Σ_k (q_k - 1[k=y])²", "nb.MeanSquaredError()"
    ),
    ExploredLoss("spherical", "Spherical", "spherical score", "-q_y / ‖q‖₂", "nb.Spherical()"),
    ExploredLoss("mae", "MAE", "mean absolute error", "1 - q_y", "nb.MeanAbsoluteError()"),
    ExploredLoss(
        "nce-mae",
        "NCE-MAE",
        "normalized CE plus MAE",
        "log q_y / Σ_k log q_k + 1 - q_y",
        "nb.NormalizedCrossEntropyMAE()",
    ),
)
MOST_CLASSES = 1000


def explorer_html() -> str:
    """The page as text, the same whenever it is written."""
    paper = {"a": GeneralizedCrossEntropy().a, "A": SymmetricCrossEntropy().A}
    explored = {
        "losses": [asdict(loss) for loss in LOSSES],
        "parameters": [asdict(parameter) for parameter in PARAMETERS],
        "most_classes": MOST_CLASSES,
        "defaults": {"loss": "sce", "rate": 0.4, "classes": 10, **paper},
        "references": [{"loss": name} for name in ("ce", "sce", "gce")],  # the paper's figure
    }
    return render("explorer/page.html", {"explored": explored})


def write_explorer(path: Path) -> None:
    """Whole or not at all."""
    write_text(path, explorer_html())
