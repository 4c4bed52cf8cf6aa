"""``metrics.jsonl``: one line per epoch, the newest last."""

import json
from pathlib import Path

from noisebound.errors import DataError
from noisebound.system.files import append_text, sync, write_text
from noisebound.training.metrics import EpochMetrics


class MetricsFile:
    """The metrics of a run; lines of epochs that will be done again are dropped.

    Args:
        path: the file
        epochs_done: how many epochs the run's checkpoint has
    """

    def __init__(self, path: Path, epochs_done: int) -> None:
        self.path = path
        self.history = whole_epochs(path)[:epochs_done]
        write_text(path, "".join(f"{json.dumps(metrics.record())}\n" for metrics in self.history))

    def append(self, metrics: EpochMetrics) -> None:
        """Add the line of an epoch."""
        append_text(self.path, f"{json.dumps(metrics.record(), allow_nan=False)}\n")

    def sync(self) -> None:
        """Wait until every line is on the disk."""
        sync(self.path)


def read_metrics(path: Path) -> list[EpochMetrics]:
    """Return the metrics of every epoch; a last line that was cut off is left out.

    Raises:
        DataError: another line is damaged
    """
    history, damage = _read(path)
    if damage is not None:
        raise damage
    return history


def whole_epochs(path: Path) -> list[EpochMetrics]:
    """Return the metrics until the first line that is damaged, or not that of the next epoch."""
    return _read(path)[0]


def _read(path: Path) -> tuple[list[EpochMetrics], DataError | None]:
    """Return the metrics before the first damage, and the damage, if any."""
    if not path.exists():
        return [], None
    history: list[EpochMetrics] = []
    *lines, rest = path.read_bytes().split(b"\n")
    for number, line in enumerate([*lines, rest] if _is_whole(rest) else lines, start=1):
        try:
            history.append(_of_line(line, number))
        except ValueError as error:
            return history, DataError(f"{path} is damaged in line {number}: {error}; restore it")
    return history, None


def _is_whole(rest: bytes) -> bool:
    """True if the last line is complete except for its line break."""
    try:
        json.loads(rest)
    except ValueError:
        return False
    return True


def _of_line(line: bytes, number: int) -> EpochMetrics:
    metrics = EpochMetrics.of_record(json.loads(line))
    if metrics.epoch != number:
        raise DataError(f"it is of epoch {metrics.epoch}")
    return metrics
