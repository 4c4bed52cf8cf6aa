"""From finished runs to tables: means, gains, the choice of an offset, and two formats."""

import csv
import io
import random

import pytest
from scipy import stats

import noisebound as nb
from noisebound.pages.table import (
    Cell,
    Row,
    Table,
    to_csv,
    to_markdown,
    write_table,
)
from noisebound.paper.frame import long_frame, paired_gain
from noisebound.paper.presets import CPU
from noisebound.paper.protocol import COLUMNS
from noisebound.paper.run import DataSources, Plan
from noisebound.paper.tables import (
    Selection,
    accuracy_table,
    comparison_table,
    noise_bound_table,
    offset_scores,
    offset_table,
    rate_table,
    search_offsets,
    spread,
)
from noisebound.training import EpochMetrics
from paper_runs import finished_run

COLUMN = COLUMNS["fashion-mnist-0.4"]
PLAN = Plan(CPU, (0, 1, 2), DataSources())


def finished(run, test, validation=0.5):
    final = EpochMetrics(
        epoch=50,
        learning_rate=1e-3,
        train_loss=1.0,
        test_top1=test,
        averaged_test_top1=test + 0.01,
        validation_top1=validation,
        memorized=0.25,
    )
    return finished_run(run, final, bound=1.5 if run.training.loss.endswith("+b") else None)


def measured(**scores):
    runs = [
        finished(run, score)
        for method, values in scores.items()
        for run, score in zip(PLAN.runs(COLUMN, method.replace("_b", "+b")), values, strict=False)
    ]
    return long_frame(runs)


class TestAccuracyTable:
    table = accuracy_table(
        Selection(
            "table1",
            measured(ce=(0.60, 0.62, 0.61), ce_b=(0.80, 0.83, 0.79), sce=(0.7,), sce_b=(0.69,)),
            [COLUMN],
            ["ce", "ce+b", "sce", "sce+b", "gce"],
        )
    )

    def test_means_and_unbiased_deviations(self):
        (record,) = (r for r in self.table.records if r["method"] == "ce+b")
        assert record["mean"] == pytest.approx(80.6667, abs=1e-4)
        assert record["std"] == pytest.approx(2.0817, abs=1e-4)
        assert record["averaged_mean"] == pytest.approx(81.6667, abs=1e-4)
        assert record["bound"] == 1.5
        assert record["wrong_labels_reproduced"] == 25
        assert (record["paper_mean"], record["paper_std"]) == (84.7, 0.37)

    def test_the_gain_is_tested_pair_by_pair(self):
        (record,) = (r for r in self.table.records if r["method"] == "ce+b")
        theirs = stats.ttest_rel([80, 83, 79], [60, 62, 61])
        assert record["gain"] == pytest.approx(59 / 3)
        assert record["gain_p_value"] == pytest.approx(theirs.pvalue)

    def test_one_seed_has_no_deviation_and_no_test(self):
        (record,) = (r for r in self.table.records if r["method"] == "sce+b")
        assert (record["std"], record["gain_p_value"]) == (None, None)
        assert record["gain"] == pytest.approx(-1)

    def test_marks(self):
        cells = {row.label: row.cells[0] for row in self.table.rows}
        assert cells["CE+B"].is_best
        assert cells["CE+B"].is_gain
        assert not cells["SCE+B"].is_gain
        assert not cells["CE"].is_gain
        assert cells["CE"].text == "61.0 ± 1.0"
        assert cells["CE"].beside == "72.1 ± 2.2"
        assert cells["GCE"].text == "–"

    def test_the_share_of_pairs(self):
        words = self.table.summary
        assert "helps in 1 of 2 pairs (50%, counting ties), by +9.3 points on average" in words
        assert "it helps in 1 and harms in 0" in words
        assert "In the paper, of the same pairs: 2 of 2 (100%)" in words

    def test_cells_with_fewer_seeds_say_so(self):
        cells = {row.label: row.cells[0] for row in self.table.rows}
        assert cells["SCE+B"].text == "69.0 [n = 1]"


def test_averaged_weights():
    table = accuracy_table(
        Selection("t", measured(ce=(0.6,)), [COLUMN], ["ce"], weights="averaged")
    )
    assert table.records[0]["mean"] == pytest.approx(61)
    assert "averaged" in table.title


def test_runs_of_two_presets_are_not_mixed():
    other = Plan(CPU.override(["epochs=3"]), (0,), DataSources())
    runs = [finished(plan.runs(COLUMN, "ce")[0], 0.5) for plan in (PLAN, other)]
    with pytest.raises(ValueError, match="keep the runs of each preset apart"):
        long_frame(runs)


@pytest.mark.parametrize("count", [360, 7050, 10_000])
def test_ties_ignore_rounding_errors(count):
    generator = random.Random(0)
    for _ in range(200):
        plain = {seed: generator.randrange(count // 2) for seed in range(3)}
        moved = generator.randrange(1, 50)
        same, up = (
            {seed: 100 * ((k + by) / count) for seed, k in plain.items()} for by in (0, moved)
        )
        around = {seed: 100 * ((plain[seed] + by) / count) for seed, by in enumerate((1, 2, -3))}
        shares = {seed: 100 * (k / count) for seed, k in plain.items()}
        assert paired_gain(shares, same).mean == 0
        assert paired_gain(shares, up).p_value is None  # it never varies
        assert paired_gain(shares, around).mean == 0


def test_a_difference_that_never_varies_cannot_be_tested():
    assert paired_gain({0: 1.0, 1: 2.0}, {0: 2.0, 1: 3.0}).p_value is None
    assert paired_gain({0: 1.0}, {1: 2.0}) is None
    assert paired_gain({}, {}) is None


def test_one_seed_has_no_deviation():
    assert (spread(82.04, 1.96), spread(82.04, None)) == ("82.0 ± 2.0", "82.0")


def searched(frame):
    """The offsets that are chosen by noisy validation and by test, and the mean at each."""
    found = search_offsets(offset_scores(Selection("o", frame, [COLUMN], ["ce"])))
    chosen = [
        found.filter(name)["offset"].to_list()
        for name in ("chosen_on_noisy_validation", "chosen_on_test")
    ]
    return *chosen, dict(found.select("offset", "test_mean").iter_rows())


class TestOffsets:
    def measurements(self, validation, test):
        runs = PLAN.offset_runs(COLUMN, "ce+b*")
        moved = [(run, run.training.bound_offset) for run in runs]
        return long_frame(finished(run, test[at], validation[at]) for run, at in moved)

    def test_chosen_on_noisy_validation_data_and_beside_it_on_test_data(self):
        flat = dict.fromkeys(COLUMN.offsets, 0.5)
        measurements = self.measurements(flat | {-0.1: 0.6}, flat | {0.15: 0.9, -0.1: 0.7})
        by_validation, by_test, means = searched(measurements)
        assert (by_validation, by_test) == ([-0.1], [0.15])
        assert [means[at] for at in (-0.1, 0.15, 0.0)] == pytest.approx([70, 90, 50])
        (row,) = offset_table(Selection("o", measurements, [COLUMN], ["ce", "gce"])).rows
        assert [cell.text for cell in row.cells][2:] == [
            *("-0.10", "90.0 ± 0.0", "+0.15", "9 of 9, 3 seeds each")
        ]
        starred = accuracy_table(Selection("t", measurements, [COLUMN], ["ce+b*"]))
        assert starred.records[0]["mean"] == pytest.approx(70)

    def test_the_noise_bound_stays_where_nothing_is_better(self):
        flat = dict.fromkeys(COLUMN.offsets, 0.5)
        by_validation, by_test, _ = searched(self.measurements(flat, flat))
        assert by_validation == by_test == [0]

    def test_offsets_are_compared_on_the_seeds_that_all_have(self):
        """Seed 2 is an easy one, and only the first offset was run with it."""
        some = [
            finished(run, 0.5 + offset + (run.training.seed == 2), 0.5 + offset)
            for offset in (0.0, 0.05)
            for run in PLAN.runs(COLUMN, "ce+b", bound_offset=offset)[: 3 if offset == 0 else 2]
        ]
        measurements = long_frame(some)
        by_validation, by_test, _ = searched(measurements)
        assert by_test == by_validation == [0.05]
        (row,) = offset_table(Selection("o", measurements, [COLUMN], ["ce"])).rows
        assert row.cells[-1].text == "2 of 9, 2 seeds each"

    def test_nothing_to_search(self):
        assert searched(measured(ce_b=(0.5,))) == ([], [], {})


def test_rate_sweep():
    runs = PLAN.rate_runs(COLUMN, "ce+b")
    measurements = long_frame(finished(run, 0.8 - abs(run.given_rate - 0.4)) for run in runs)
    table = rate_table(Selection("r", measurements, [COLUMN], ["ce+b"]))
    assert [cell.is_best for cell in table.rows[0].cells].index(True) == 4
    assert max(table.records, key=lambda record: record["mean"])["believed_rate"] == 0.4


def test_the_papers_example():
    records = {record["method"]: record for record in comparison_table().records}
    for method in ("ce", "fce", "fce+b"):
        record = records[method]
        for name in ("lowest_attainable", "optimal"):
            assert record[name] == pytest.approx(record[f"paper_{name}"], abs=5e-4)


def test_bounds_by_column():
    table = noise_bound_table(tuple(COLUMNS.values()))
    found = {(record["loss"], record["column"]): record for record in table.records}
    assert len(found) == 5 * len(COLUMNS)
    assert found["sce", "cifar100-0.4"]["bound"] == pytest.approx(
        nb.noise_bound(nb.SymmetricCrossEntropy(), 0.4, 100)
    )
    # 0.6 with two classes is 0.4 with two classes
    assert found["ce", "nonuniform-emnist-0.6"]["bound"] == pytest.approx(
        nb.noise_bound(nb.CrossEntropy(), 0.4, 2)
    )


class TestFormats:
    table = Table(
        "t",
        "50 % of_it",
        ("a|b", "c&d"),
        (Row("<x>", (Cell("1.0 ± 0.1", "2*", 1.0, is_best=True, is_gain=True),), True),),
        ({"method": 'quoted "x", y', "mean": 1.0, "std": None},),
        ("100 % η",),
        "In all.",
    )

    def test_markdown(self):
        assert to_markdown(self.table).splitlines() == [
            r"**50 % of\_it**",
            "",
            r"| a\|b | c&d                   |",
            r"| ---- | --------------------- |",
            r"| \<x> | **1.0 ± 0.1** ↑ (2\*) |",
            "",
            "In all.",
            "",
            "- 100 % η",
        ]

    def test_csv(self):
        (record,) = csv.DictReader(io.StringIO(to_csv(self.table)))
        assert record == {"method": 'quoted "x", y', "mean": "1.0", "std": ""}

    def test_nothing_measured(self):
        table = rate_table(Selection("r", long_frame([]), [COLUMN], ["ce+b"]))
        assert table.rows == ()
        assert to_csv(table) == ""
        assert to_markdown(table).splitlines()[2] == "| method and column |"

    def test_files(self, tmp_path):
        written = write_table(self.table, tmp_path / "new")
        assert sorted(path.name for path in written) == ["t.csv", "t.md"]
        assert sorted((tmp_path / "new").iterdir()) == sorted(written)
