"""The metrics of an epoch: one typed record, labels for people, and a line of progress."""

from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from noisebound.system.progress import ProgressText, time_left

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


class EpochMetrics(BaseModel):
    """The metrics of one epoch, or None if not evaluated.

    Attributes:
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

    The metrics named ``averaged_…`` are those of the averaged weights.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

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

    def evaluated(self, name: Evaluated, *, averaged: bool) -> float | None:
        """Return a metric of the averaged weights, or of the last ones."""
        value: float | None = getattr(self, f"averaged_{name}" if averaged else name)
        return value

    def best_known(self, name: Evaluated) -> float | None:
        """Return a metric of the averaged weights if they were evaluated, else of the last."""
        averaged = self.evaluated(name, averaged=True)
        return self.evaluated(name, averaged=False) if averaged is None else averaged


class Display(ProgressText):
    """Shows the state of a training after each epoch."""

    def __init__(self, title: str, epochs: int, show: bool = True) -> None:
        super().__init__(show=show)
        self._title, self._epochs = title, epochs
        self._seconds: list[float] = []

    def show_epoch(self, metrics: EpochMetrics) -> None:
        self._seconds.append(metrics.seconds)
        words = [f"loss {metrics.train_loss:.3f}"]
        if metrics.bound is not None:
            words.append(f"bound {metrics.bound:.3f}")
        validation, test = metrics.best_known("validation_top1"), metrics.best_known("test_top1")
        words += [] if validation is None else [f"noisy validation {validation:.1%}"]
        words += [] if test is None else [f"clean test {test:.1%}"]
        epochs_left = self._epochs - metrics.epoch
        if epochs_left > 0:
            words.append(time_left(epochs_left * sum(self._seconds) / len(self._seconds)))
        self.show(f"{self._title}: epoch {metrics.epoch}/{self._epochs}, {', '.join(words)}")
