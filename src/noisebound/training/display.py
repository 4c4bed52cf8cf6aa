"""Progress of a training: a plot of the loss and its bound, or lines in a log."""

from collections.abc import Sequence
from types import TracebackType

from noisebound.system.progress import ProgressText, time_left
from noisebound.training.metrics import EpochMetrics

_WIDTH, _HEIGHT = 60, 8


def draw_loss(losses: Sequence[float], bound: float | None) -> str:
    """Return rows of text: a dot for the loss of each epoch, a line for the bound."""
    shown = list(losses[-_WIDTH:])
    levels = [*shown, bound] if bound is not None else shown
    low, high = min(levels), max(levels)
    step = (high - low) / (_HEIGHT - 1) or 1.0

    def row_of(value: float) -> int:
        return round((high - value) / step)

    rows = [[" "] * len(shown) for _ in range(_HEIGHT)]
    if bound is not None:
        rows[row_of(bound)] = ["─"] * len(shown)
    for column, loss in enumerate(shown):
        rows[row_of(loss)][column] = "●"
    marks = {0: f"{high:6.3f}", _HEIGHT - 1: f"{low:6.3f}"}
    return "\n".join(f"{marks.get(i, ''):>6} {''.join(row)}" for i, row in enumerate(rows))


class Display:
    """The state of a training after each epoch: with a picture, or as a line in a log.

    Args:
        title: the name of the training
        epochs: the number of epochs
        history: the epochs that an earlier attempt did
        show: False to show nothing
    """

    def __init__(
        self, title: str, epochs: int, history: Sequence[EpochMetrics], show: bool = True
    ) -> None:
        self._title, self._epochs, self._shows = title, epochs, show
        self._losses = [metrics.train_loss for metrics in history]
        self._text = ProgressText(show=show)
        self._seconds: list[float] = []

    def __enter__(self) -> "Display":
        self._text.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._text.__exit__(kind, error, traceback)

    def update(self, metrics: EpochMetrics) -> None:
        """Show the epoch that has just ended."""
        if not self._shows:
            return
        self._losses.append(metrics.train_loss)
        self._seconds.append(metrics.seconds)
        line = self.line(metrics)
        self._text.show(line, f"{line}\n{draw_loss(self._losses, metrics.bound)}")

    def line(self, metrics: EpochMetrics) -> str:
        """Return the state after an epoch in one line."""
        floor = "" if metrics.bound is None else f", bound {metrics.bound:.3f}"
        line = f"{self._title}: epoch {metrics.epoch}/{self._epochs}, "
        line += f"loss {metrics.train_loss:.3f}{floor}"
        validation, test = metrics.best_known("validation_top1"), metrics.best_known("test_top1")
        line += "" if validation is None else f", noisy validation {validation:.1%}"
        line += "" if test is None else f", clean test {test:.1%}"
        epochs_left = self._epochs - metrics.epoch
        if epochs_left > 0 and self._seconds:
            line += f", {time_left(epochs_left * sum(self._seconds) / len(self._seconds))}"
        return line
