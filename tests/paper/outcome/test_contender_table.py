"""What contenders come to, in cells and in words."""

from dataclasses import replace
from pathlib import Path

import pytest

from noisebound.paper.outcome.contender_table import contender_table
from noisebound.paper.outcome.contest import Contest
from noisebound.paper.outcome.label_tables import estimate_table, suspect_table
from noisebound.paper.protocol.columns import COLUMNS
from noisebound.paper.protocol.contenders import BOUNDS, PEERS
from noisebound.paper.protocol.plan import Plan
from noisebound.paper.protocol.presets import CPU
from noisebound.paper.protocol.sources import DataSources
from noisebound.paper.runner.label_findings import LabelFindings, write_findings
from noisebound.paper.runner.run_store import RunStore
from noisebound.training import EpochMetrics
from paper_runs import finished_run

PLAN = Plan(CPU, (0, 1), DataSources())
CLEAN, NOISY = COLUMNS["mnist-clean"], COLUMNS["mnist-pairwise-0.4"]


def contest(scores, folder=Path("nowhere"), columns=(CLEAN, NOISY), contenders=PEERS):
    """Scores by contender: one pair of accuracies for each column."""
    finished = []
    for name, by_column in scores.items():
        for column, values in zip(columns, by_column, strict=True):
            runs = PLAN.contender_runs(column, contenders[name])
            for run, value in zip(runs, values, strict=False):
                final = EpochMetrics(50, 1e-3, 1.0, test_top1=value - 0.5, averaged_test_top1=value)
                best = replace(final, averaged_test_top1=value + 0.1)
                finished.append(finished_run(run, final, best=best, store=RunStore(folder)))
    return Contest("beyond", "title", finished, columns, contenders, "averaged")


SCORES = {
    "auto": [(0.95, 0.97), (0.90, 0.92)],
    "fce+matrix": [(0.95, 0.95), (0.93, 0.93)],
    "ce+rate": [(0.94, 0.94), (0.50, 0.52)],
    "plain": [(0.97, 0.97), (0.60, 0.60)],
    "elr": [(0.90, 0.90), (0.80,)],
}


def texts(table):
    return {row.label: [cell.text for cell in row.cells] for row in table.rows}


class TestAccuracies:
    table = contender_table(contest(SCORES))

    def test_means_over_seeds_and_over_settings(self):
        assert texts(self.table)["auto: a recipe by trials, nothing given"] == [
            "96.0 ± 1.4",
            "91.0 ± 1.4",
            "93.5 ± 1.4",
        ]

    def test_early_stopping_is_judged_by_the_epoch_that_it_chooses(self):
        assert texts(self.table)["CE"][0] == "97.0 ± 0.0"
        assert texts(self.table)["CE, stopped early"][0] == "107.0 ± 0.0"

    def test_what_is_missing_is_said(self):
        assert texts(self.table)["ELR"] == ["90.0 ± 0.0", "80.0 [n = 1]", "85.0 [n = 1]"]
        assert texts(self.table)["MAE"] == ["–", "–", "–"]

    def test_in_words(self):
        words = self.table.summary
        assert "within 1 point of the best method that is told the truth in 1 of 2" in words
        assert "(further: MNIST pairwise 0.4 -2.0)" in words
        assert "more than 0.5 below plain CE in 1 (MNIST clean -1.0)" in words
        assert "on clean data MNIST clean -1.0" in words
        assert "auto has 93.5 ± 1.4, the best of the others (CE, stopped early) 88.5" in words

    def test_seeds_that_have_nothing_in_common(self):
        auto = [(0.95,), (0.90,)]
        made = contest(SCORES | {"auto": auto})
        others = [run for run in made.finished if run.config.training.loss == "ce"][1::2]
        ours = [run for run in made.finished if run.config.training.loss != "ce"]
        table = contender_table(replace(made, finished=[*ours, *others]))
        assert "(CE, stopped early) 88.5" in table.summary

    def test_nothing_yet(self):
        table = contender_table(contest({}))
        assert table.summary == ""
        assert {cell.text for row in table.rows for cell in row.cells} == {"–"}


@pytest.fixture
def judged(tmp_path):
    """Two settings: one clean, one where ours is 0.02 off and cleanlab 0.1."""
    made = contest({"fce+auto": SCORES["auto"], "prune": SCORES["plain"]}, tmp_path)
    for finished in made.finished:
        run = finished.config
        rate = 0.0 if run.column == "mnist-clean" else 0.4
        ours = {"agreement": rate + 0.02, "anchor": 0.5, "dual-t": 0.6, "confident": 0.5}
        findings = {
            "noise_rate": rate,
            "estimates": {"five folds": rate + 0.1} if run.prunes else ours | {"neighbors": 0.1},
            "interval": None if run.prunes else [rate + 0.01, 0.5] if rate else [0, 0.1],
            "suspects_auroc": (0.7 if run.prunes else 0.99) if rate else None,
            "calibration_error": None if run.prunes else 0.05,
            "epochs": 200.0 if run.prunes else 62.0,
        }
        write_findings(finished.folder, LabelFindings(**findings))
    return made


def test_estimates(judged):
    table = estimate_table(judged)
    rows = texts(table)
    assert rows["true rate"] == ["0.000", "0.400", "–"]
    assert rows["agreement (ours)"] == ["0.020", "0.420", "0.020"]
    assert rows["cleanlab, five folds"] == ["0.100", "0.500", "0.100"]
    assert "in 2 of 4 runs" in table.summary


def test_without_cleanlab_its_rows_are_empty(judged):
    alone = replace(judged, contenders={"fce+auto": PEERS["fce+auto"]})
    for table in (estimate_table(alone), suspect_table(alone)):
        assert set(texts(table)["cleanlab, five folds"]) == {"–"}


def test_suspects(judged):
    table = suspect_table(judged)
    assert table.header == ("method", "MNIST pairwise 0.4", "mean", "epochs")
    rows = texts(table)
    assert rows["one bounded training (ours)"] == ["0.990", "0.990", "62"]
    assert rows["cleanlab, five folds"] == ["0.700", "0.700", "200"]
    assert rows["calibration error of our probabilities"] == ["0.050", "0.050", "–"]


def test_in_how_many_pairs_the_bound_helps():
    scores = {
        "ce": [(0.5, 0.6), (0.6, 0.7)],
        "ce+b": [(0.4, 0.5), (0.7, 0.7)],
        "ce+auto": [(0.6, 0.7), (0.6, 0.7)],
        "gce": [(0.5,), (0.5,)],
        "gce+b": [(0.7,), (0.7,)],
        "sce+b": [(0.9,), (0.9,)],
        "fce": [(0.5,), (0.5,)],
        "auto": [(0.1,), (0.1,)],  # it is no pair of FCE: trials choose its loss
    }
    words = contender_table(contest(scores, contenders=BOUNDS)).summary
    assert "bound of the noise rate helps in 3 of 4 pairs (75%, counting ties)" in words
    assert "by +8.8 points on average, and by -10.0 in the worst" in words
    assert "measured helps in 2 of 2 pairs (100%, counting ties), by +5.0 points" in words
