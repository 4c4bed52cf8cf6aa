"""``metrics.jsonl``: one line per epoch, the newest last."""

import json
from pathlib import Path

from noisebound.files import write_text
from noisebound.training.metrics import EpochMetrics


class MetricsFile:
    """The metrics of a run; lines of epochs that will be done again are dropped.

    Args:
        path: the file
        epochs_done: how many epochs the run's checkpoint has
    """

    def __init__(self, path: Path, epochs_done: int) -> None:
        self.path = path
        self.history = [metrics for metrics in read_metrics(path) if metrics.epoch <= epochs_done]
        write_text(path, "".join(f"{json.dumps(metrics.record())}\n" for metrics in self.history))

    def append(self, metrics: EpochMetrics) -> None:
        """Add the line of an epoch."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(metrics.record(), allow_nan=False)}\n")


def read_metrics(path: Path) -> list[EpochMetrics]:
    """Return every whole line; a last one that was cut off is left out."""
    if not path.exists():
        return []
    history = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            break
        history.append(EpochMetrics.of_record(record))
    return history
