import json
import math

import pytest

from noisebound.errors import DataError
from noisebound.runs.folder import RunFolder
from noisebound.runs.keeper import FolderKeeper, read_metrics
from noisebound.training import TrainingConfig
from noisebound.training.metrics import EpochMetrics


def epoch(number, train_loss=1.0):
    return EpochMetrics(epoch=number, learning_rate=1e-3, train_loss=train_loss)


class Anything:
    """Devices of one process, and a state without tensors."""

    is_global_zero, epoch = True, 0

    def about(self):
        return {}

    tensors = about


def keep(folder, *metrics, history=()):
    keeper = FolderKeeper(folder, TrainingConfig(), "run", Anything(), 1e9, list(history))
    keeper._saved_at = math.inf
    for each in metrics:
        keeper.keep_epoch(Anything(), each, is_last=False)


def test_lines_are_kept_up_to_the_checkpoint(tmp_path):
    folder = RunFolder(tmp_path)
    keep(folder, epoch(1), epoch(2, 0.5), epoch(3))
    keep(folder, epoch(3, 9.0), history=[epoch(1), epoch(2, 0.5)])
    assert [metrics.train_loss for metrics in read_metrics(folder.metrics)] == [1.0, 0.5, 9.0]


def test_an_unfinished_line_is_left_out(tmp_path):
    folder = RunFolder(tmp_path)
    first, second = (json.dumps(epoch(number).model_dump()) for number in (1, 2))
    folder.metrics.write_text(f"{first}\n{second[:-3]}")
    assert read_metrics(folder.metrics) == [epoch(1)]


def test_a_line_of_another_version(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"epoch": 1, "accuracy": 0.5}\n')
    with pytest.raises(DataError, match="of another version"):
        read_metrics(path)
