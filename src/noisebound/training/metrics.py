"""The metrics of an epoch: one typed record, and labels for people."""

import math
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, TypeAlias

from noisebound.errors import DataError

Evaluated: TypeAlias = Literal[
    "validation_loss", "validation_top1", "test_top1", "test_top5", "memorized"
]
"""The metrics that are evaluated for the last weights and for the averaged ones."""

METRIC_LABELS: dict[Evaluated, str] = {
    "test_top1": "accuracy on the test set",
    "validation_top1": "accuracy on the validation split, whose labels are noisy too",
    "memorized": "share of the wrong training labels that the model reproduces",
}
"""The metrics that are shown to people, with their labels."""


@dataclass(frozen=True)
class EpochMetrics:
    """The metrics of one epoch, or None if not evaluated.

    Args:
        epoch: the number of the epoch, from 1
        learning_rate: the optimizer's
        train_loss: the mean training loss, before any bound
        bound: the level that the loss was held at, or None
        share_below: the share of the steps whose mean loss lay below the bound
        seconds: how long the epoch took, evaluation included
        validation_loss: the mean loss on the validation split, whose labels are noisy
        validation_top1: the accuracy there, in ``[0, 1]``
        test_top1: the accuracy on the test set
        test_top5: how often the label is among the five likeliest classes of a test example
        memorized: the share of the wrong training labels that the model reproduces
        averaged_validation_loss: as above, of the averaged weights
        averaged_validation_top1: as above, of the averaged weights
        averaged_test_top1: as above, of the averaged weights
        averaged_test_top5: as above, of the averaged weights
        averaged_memorized: as above, of the averaged weights
    """

    epoch: int
    learning_rate: float
    train_loss: float
    bound: float | None = None
    share_below: float | None = None
    seconds: float = 0.0
    validation_loss: float | None = None
    validation_top1: float | None = None
    test_top1: float | None = None
    test_top5: float | None = None
    memorized: float | None = None
    averaged_validation_loss: float | None = None
    averaged_validation_top1: float | None = None
    averaged_test_top1: float | None = None
    averaged_test_top5: float | None = None
    averaged_memorized: float | None = None

    @classmethod
    def of_record(cls, record: dict[str, Any]) -> "EpochMetrics":
        """Return the metrics that :meth:`record` wrote."""
        try:
            metrics = cls(**record)
        except TypeError as error:
            raise DataError(
                f"the measurements of an epoch are damaged or of another version: {error}"
            ) from error
        for name, value in metrics.record().items():
            if not (value is None or (isinstance(value, int | float) and math.isfinite(value))):
                raise DataError(
                    f"the measurements of an epoch are damaged: {name} must be a number, got "
                    f"{value!r}"
                )
        return metrics

    def record(self) -> dict[str, int | float | None]:
        """Return every field by its name."""
        return asdict(self)

    def numbers(self) -> dict[str, int | float]:
        """Return the fields that have a value."""
        return {name: value for name, value in self.record().items() if value is not None}

    def evaluated(self, name: Evaluated, *, averaged: bool) -> float | None:
        """Return a measurement of the averaged weights, or of the last ones."""
        value: float | None = getattr(self, f"averaged_{name}" if averaged else name)
        return value

    def best_known(self, name: Evaluated) -> float | None:
        """Return a measurement of the averaged weights if they were evaluated, else of the last."""
        averaged = self.evaluated(name, averaged=True)
        return self.evaluated(name, averaged=False) if averaged is None else averaged


METRIC_NAMES = tuple(field.name for field in fields(EpochMetrics))
"""The fields of :class:`EpochMetrics`, in their order."""
