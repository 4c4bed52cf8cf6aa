"""Does a text help beside the other columns of a table, and at which scale? Held-out evidence.

Words are many and the other columns are few. On noisy labels a network memorizes by the words and
the columns drown, unless the block of words is scaled down, or left out.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int64
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack, issparse
from torch import Tensor

SCALES = (1.0, 0.3, 0.1, 0.03)
"""The scales to choose from, as multiples of the scale of a text without other columns."""

MOST_ROWS = 3000
"""The examples to compare on, at most: a few seconds."""

_FOLDS = 3
_FEWEST_PER_CLASS = 2 * _FOLDS
_INVERSE_PENALTY = 3.0  # about as weak a penalty as 50 epochs of a linear network (measured)


@dataclass(frozen=True)
class TextEvidence:
    """The out-of-fold log loss of linear models without and with the text.

    Args:
        scale: one of `SCALES`, or 0 if the text does not help
        without: mean log loss of the other columns alone
        best: mean log loss with the text, at the best scale
        error: standard error of the difference, paired by example
    """

    scale: float
    without: float
    best: float
    error: float

    def note(self, names: tuple[str, ...]) -> str:
        """Return the decision with its figures.

        Args:
            names: the columns of texts
        """
        listed = ", ".join(map(repr, names))
        decision = f"used, scaled by {self.scale:g}" if self.scale else "not used: it does not help"
        return (
            f"text {listed}: {decision} (held-out log loss {self.without:.4f} without the text, "
            f"{self.best:.4f} with it, by linear models; standard error of the difference "
            f"{self.error:.4f})"
        )


def weigh_text(
    columns: NDArray[Any], text: Any, labels: Int64[Tensor, " n"]
) -> TextEvidence | None:
    """Return the scale at which a block of text features helps; None if the examples are too few.

    The gain must exceed its standard error. Tables with words train a linear network, tables
    without words a deeper one, so the text must also beat boosted trees on the other columns.

    Args:
        columns: the other columns as features, standardized, ``[n, features]``
        text: the text as features, a scipy matrix or an array, ``[n, features]``
        labels: the class of each example
    """
    from sklearn.ensemble import HistGradientBoostingClassifier  # takes a second to import
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold

    targets = labels.numpy()
    counts = np.bincount(targets)
    rows = np.flatnonzero(counts[targets] >= _FEWEST_PER_CLASS)  # rarer classes cannot be divided
    if len(np.unique(targets[rows])) < 2:
        return None
    _, targets = np.unique(targets[rows], return_inverse=True)
    columns, text = columns[rows], text[rows]
    folds = list(StratifiedKFold(_FOLDS, shuffle=True, random_state=0).split(targets, targets))

    def losses(model: Any, features: Any) -> NDArray[np.float64]:
        found = np.empty(len(targets))
        for train, held_out in folds:
            probs = model.fit(features[train], targets[train]).predict_proba(features[held_out])
            right = probs[np.arange(len(held_out)), targets[held_out]]
            found[held_out] = -np.log(right.clip(1e-6))
        return found

    linear = LogisticRegression(C=_INVERSE_PENALTY, max_iter=100, tol=1e-3)
    boosted = HistGradientBoostingClassifier(
        max_iter=30, max_leaf_nodes=8, early_stopping=False, random_state=0
    )
    with warnings.catch_warnings():
        # Nearly converged is good enough: only large differences count.
        warnings.simplefilter("ignore", ConvergenceWarning)
        without = min(losses(linear, columns), losses(boosted, columns), key=np.mean)
        by_scale = {scale: losses(linear, _beside(columns, text * scale)) for scale in SCALES}
    scale = min(SCALES, key=lambda scale: by_scale[scale].mean())
    gain = without - by_scale[scale]
    error = float(gain.std(ddof=1) / len(gain) ** 0.5)
    helps = gain.mean() > error
    return TextEvidence(
        scale if helps else 0.0, float(without.mean()), float(by_scale[scale].mean()), error
    )


def _beside(columns: NDArray[Any], text: Any) -> Any:
    if issparse(text):
        blocks: list[Any] = [csr_matrix(columns), text]
        return hstack(blocks, format="csr")
    return np.hstack([columns, text])
