import json

import pytest

from noisebound.paper.demo import LOSSES, run_demo


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo")
    return run_demo(out, epochs=3), out


def test_a_row_for_each_loss(demo):
    outcome, _ = demo
    assert [row.loss for row in outcome.rows] == list(LOSSES)
    assert outcome.noise_rate == pytest.approx(0.6, abs=0.05)
    lines = outcome.to_text().splitlines()
    assert len(lines) == 4 + len(LOSSES)
    low, high = outcome.auto.interval
    assert low <= outcome.auto.noise_rate <= high
    assert all(row.gain == row.bounded - row.plain for row in outcome.rows)


def test_the_files_of_the_demo(demo):
    outcome, out = demo
    assert {path.name for path in out.iterdir()} == {
        "table.md",
        "table.json",
        "report.html",
        "training.png",
        "runs",
    }
    assert json.loads((out / "table.json").read_text()) == json.loads(outcome.to_json())
    assert (out / "training.png").read_bytes().startswith(b"\x89PNG")
    page = (out / "report.html").read_text()
    assert f"an accuracy of {outcome.auto.accuracy:.1f}% on the test set" in page
    assert len(list((out / "runs").iterdir())) == 2 * len(LOSSES) + 1


def test_finished_runs_are_not_repeated(demo, monkeypatch):
    monkeypatch.setattr("noisebound.paper.demo.write_page", lambda page, path: None)
    outcome, out = demo
    before = {path: path.stat().st_mtime_ns for path in out.glob("runs/*/metrics.jsonl")}
    assert run_demo(out, epochs=3) == outcome
    assert before == {path: path.stat().st_mtime_ns for path in before}
