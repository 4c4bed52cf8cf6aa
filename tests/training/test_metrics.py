import json

from noisebound.training.metrics import MetricsFile, read_metrics


def test_lines_are_kept_up_to_the_checkpoint(tmp_path):
    path = tmp_path / "metrics.jsonl"
    file = MetricsFile(path, 0)
    for epoch in (1, 2, 3):
        file.append({"epoch": epoch, "train_loss": 1 / epoch})
    again = MetricsFile(path, 2)
    assert [record["epoch"] for record in again.history] == [1, 2]
    again.append({"epoch": 3, "train_loss": 9.0})
    assert [record["train_loss"] for record in read_metrics(path)] == [1.0, 0.5, 9.0]


def test_a_line_that_was_cut_off_is_no_line(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text(json.dumps({"epoch": 1}) + "\n" + json.dumps({"epoch": 2})[:-3])
    assert read_metrics(path) == [{"epoch": 1}]
    assert MetricsFile(path, 5).history == [{"epoch": 1}]
    assert path.read_text() == '{"epoch": 1}\n'
