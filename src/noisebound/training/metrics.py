"""``metrics.jsonl``: one line an epoch, the newest last."""

import json
from pathlib import Path
from typing import Any

from noisebound.files import written_whole

Metrics = dict[str, Any]


class MetricsFile:
    """Lines are appended as epochs end; what belongs to epochs that are done again is dropped."""

    def __init__(self, path: Path, epochs_done: int) -> None:
        self.path = path
        self.history = [record for record in read_metrics(path) if record["epoch"] <= epochs_done]
        with written_whole(path) as part:
            part.write_text("".join(f"{json.dumps(record)}\n" for record in self.history))

    def append(self, record: Metrics) -> None:
        """Add an epoch."""
        self.history.append(record)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(record, allow_nan=False)}\n")


def read_metrics(path: Path) -> list[Metrics]:
    """Every whole line; a last one that was cut off is left out."""
    if not path.exists():
        return []
    records = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            break
        records.append(record)
    return records
