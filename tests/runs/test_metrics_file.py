import json

import pytest

from noisebound.errors import DataError
from noisebound.runs.metrics_file import MetricsFile, read_metrics
from noisebound.training.metrics import EpochMetrics


def epoch(number, train_loss=1.0):
    return EpochMetrics(epoch=number, learning_rate=1e-3, train_loss=train_loss)


def test_lines_are_kept_up_to_the_checkpoint(tmp_path):
    path = tmp_path / "metrics.jsonl"
    file = MetricsFile(path, 0)
    for number in (1, 2, 3):
        file.append(epoch(number, 1 / number))
    again = MetricsFile(path, 2)
    assert [metrics.epoch for metrics in again.history] == [1, 2]
    again.append(epoch(3, 9.0))
    assert [metrics.train_loss for metrics in read_metrics(path)] == [1.0, 0.5, 9.0]


def test_a_line_that_was_cut_off_is_no_line(tmp_path):
    path = tmp_path / "metrics.jsonl"
    first, second = (json.dumps(epoch(number).record()) for number in (1, 2))
    path.write_text(f"{first}\n{second[:-3]}")
    assert read_metrics(path) == [epoch(1)]
    assert MetricsFile(path, 5).history == [epoch(1)]
    assert path.read_text() == f"{first}\n"


def test_a_line_of_another_version(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"epoch": 1, "accuracy": 0.5}\n')
    with pytest.raises(DataError, match="of another version"):
        read_metrics(path)
