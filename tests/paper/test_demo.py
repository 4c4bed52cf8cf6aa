import json

import pytest

from noisebound.pages.table import to_markdown
from noisebound.paper.demo import LOSSES, demo_table, run_demo


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo")
    return run_demo(out, epochs=3), out


def test_a_row_for_each_loss(demo):
    outcome, _ = demo
    assert [row["loss"] for row in outcome["rows"]] == list(LOSSES)
    assert outcome["noise_rate"] == pytest.approx(0.6, abs=0.05)
    shown = to_markdown(demo_table(outcome))
    assert [shown.count(f"\n| {loss.upper()} ") for loss in LOSSES] == [1] * len(LOSSES)
    auto = outcome["auto"]
    assert f"chooses {auto['recipe']} by trials" in shown
    low, high = auto["interval"]
    assert low <= auto["noise_rate"] <= high
    assert all(row["gain"] == row["bounded"] - row["plain"] for row in outcome["rows"])


def test_the_files_of_the_demo(demo):
    outcome, out = demo
    assert {path.name for path in out.iterdir()} == {
        "table.md",
        "table.json",
        "report.html",
        "runs",
    }
    assert json.loads((out / "table.json").read_text()) == json.loads(json.dumps(outcome))
    page = (out / "report.html").read_text()
    assert f"{outcome['auto']['accuracy']:.1f}%" in page
    assert outcome["auto"]["recipe"][1:] in page
    assert len(list((out / "runs").iterdir())) == 2 * len(LOSSES) + 1


def test_finished_runs_are_not_repeated(demo, monkeypatch):
    monkeypatch.setattr("noisebound.paper.demo.write_page", lambda page, path: None)
    outcome, out = demo
    before = {path: path.stat().st_mtime_ns for path in out.glob("runs/*/metrics.jsonl")}
    assert run_demo(out, epochs=3) == outcome
    assert before == {path: path.stat().st_mtime_ns for path in before}
