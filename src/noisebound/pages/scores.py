"""Scores on the test set: precision, recall and AUROC per class, and the confusion matrix."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64
from scipy.stats import rankdata
from torch import Tensor

from noisebound.report.page import HeatMap, Section
from noisebound.report.table import Row, Table, number_cell


@dataclass(frozen=True)
class ClassScores:
    """The scores of a model on a test set.

    The AUROC compares a class with the rest; it is None for a class with no examples or all.
    """

    class_names: tuple[str, ...]
    confusion: Int64[Tensor, "label prediction"]  # numbers of examples
    aurocs: tuple[float | None, ...]

    @classmethod
    def of(
        cls,
        probs: Float[Tensor, "n classes"],
        labels: Int64[Tensor, " n"],
        class_names: tuple[str, ...],
    ) -> "ClassScores":
        """Return the scores of predicted probabilities."""
        count = len(class_names)
        cells = (labels * count + probs.argmax(1)).bincount(minlength=count**2)
        aurocs = tuple(_auroc(probs[:, k], labels == k) for k in range(count))
        return cls(class_names, cells.reshape(count, count), aurocs)

    @property
    def auroc(self) -> float | None:
        """The mean AUROC over the classes that have one."""
        known = [each for each in self.aurocs if each is not None]
        return float(np.mean(known)) if known else None

    def section(self) -> Section:
        """Return the scores as a section of a page."""
        right, total = int(self.confusion.trace()), int(self.confusion.sum())
        text = f"The model predicts {right:,} of {total:,} test labels. "
        text += "AUROC compares each class with the rest."
        if self.auroc is not None:
            text += f" Its mean over the classes is {self.auroc:.3f}."
        shares = self.confusion / self.confusion.sum(1, keepdim=True).clamp(min=1)
        heat_map = HeatMap(
            "Predictions for the examples of each class, %",
            "label",
            "prediction",
            self.class_names,
            self.class_names,
            shares.tolist(),
        )
        return Section("The test set", text, [self._table()], heat_maps=[heat_map])

    def _table(self) -> Table:
        labeled, predicted = self.confusion.sum(1).tolist(), self.confusion.sum(0).tolist()
        rows = []
        for k, name in enumerate(self.class_names):
            right = int(self.confusion[k, k])
            cells = (
                number_cell(labeled[k], ",d"),
                number_cell(right / predicted[k] if predicted[k] else None, ".1%"),
                number_cell(right / labeled[k] if labeled[k] else None, ".1%"),
                number_cell(self.aurocs[k], ".3f"),
            )
            rows.append(Row(name, cells))
        header = ("class", "examples", "precision", "recall", "AUROC")
        return Table("scores", "Scores by class", header, tuple(rows), ())


def _auroc(score: Float[Tensor, " n"], is_positive: Tensor) -> float | None:
    """Return the probability that a positive example scores higher than a negative one."""
    positives = int(is_positive.sum())
    pairs = positives * (len(score) - positives)
    if not pairs:
        return None
    ranks = torch.from_numpy(rankdata(score.double().numpy()))
    above = float(ranks[is_positive].sum()) - positives * (positives + 1) / 2
    return above / pairs
