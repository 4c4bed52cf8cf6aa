"""B*, the best bound around the noise-bound: chosen on validation, and also on the test set."""

from collections.abc import Mapping
from dataclasses import dataclass

from noisebound.catalog import LossName
from noisebound.paper.outcome.finished import (
    FinishedRun,
    Measurements,
    Selection,
    Weights,
    accuracies,
    noisy_validation_accuracies,
)
from noisebound.paper.outcome.paper_figures import paper_offset, paper_score
from noisebound.paper.outcome.statistics import Summary, summarize
from noisebound.paper.protocol.columns import Column
from noisebound.paper.protocol.methods import label_of
from noisebound.paper.protocol.plan import offsets
from noisebound.report.table import Cell, Row, Table, Value


@dataclass(frozen=True)
class Choice:
    """An offset from the noise-bound, and the clean test accuracy with it."""

    offset: float
    test: Summary


@dataclass(frozen=True)
class OffsetSearch:
    """The outcome of a search.

    Args:
        unmoved: the noise-bound itself; None if it was not run
        by_validation: the offset with the highest accuracy on validation, whose labels are noisy
        by_test: the offset with the highest accuracy on the test set, as the paper chose it; this
            is an upper limit and not a result
        curve: the accuracies on noisy validation and on clean test labels, by offset
        seeds: the seeds that all offsets were run with
    """

    unmoved: Choice | None
    by_validation: Choice
    by_test: Choice
    curve: Mapping[float, tuple[Summary, Summary]]
    seeds: tuple[int, ...]


def search_offset(
    measurements: Measurements, column: Column, loss: str, weights: Weights
) -> OffsetSearch | None:
    """Return the best offset for a loss on a column; None if fewer than two offsets were run."""
    by_offset = {
        offset: runs
        for offset in offsets(column)
        if (runs := measurements.of(column, f"{loss}+b", offset=offset))
    }
    if len(by_offset) < 2:
        return None
    # Offsets are compared on the seeds that all of them have been run with.
    seeds = set.intersection(*(set(runs) for runs in by_offset.values()))
    curve = {
        offset: pair
        for offset, runs in by_offset.items()
        if (pair := _accuracies({seed: runs[seed] for seed in seeds}, weights)) is not None
    }
    if not curve:
        return None
    by_validation, by_test = (
        # of two equally good offsets, the one nearer to the noise-bound
        max(curve, key=lambda offset: (curve[offset][which].mean, -abs(offset)))
        for which in (0, 1)
    )
    return OffsetSearch(
        Choice(0.0, curve[0.0][1]) if 0.0 in curve else None,
        Choice(by_validation, curve[by_validation][1]),
        Choice(by_test, curve[by_test][1]),
        curve,
        tuple(sorted(seeds)),
    )


def _accuracies(
    runs: Mapping[int, FinishedRun], weights: Weights
) -> tuple[Summary, Summary] | None:
    validation = summarize(noisy_validation_accuracies(runs, weights))
    test = summarize(accuracies(runs, "top1", weights))
    return None if validation is None or test is None else (validation, test)


def offset_table(selection: Selection) -> Table:
    """Return, by loss and column, the accuracies without offset and with the chosen ones."""
    measurements, columns = selection.measurements, selection.columns
    methods, weights = selection.methods, selection.weights
    rows: list[Row] = []
    records: list[dict[str, Value]] = []
    for column in columns:
        for loss in (LossName.parse(method).spec.name for method in methods):
            search = search_offset(measurements, column, loss, weights)
            if search is not None:
                rows.append(_row(column, loss, search))
                records += _records(column, loss, search, weights)
    return Table(
        name=selection.name,
        title="B*: bounds around the noise-bound; clean test accuracy in % and offset",
        header=(
            "loss and column",
            "noise-bound",
            "B*, chosen on noisy validation data",
            "offset",
            "chosen on the test set (as in the paper; not a result)",
            "its offset",
            "offsets tried",
        ),
        rows=tuple(rows),
        records=tuple(records),
        notes=(
            "positive offsets lie above the noise-bound; in brackets the paper's",
            "one offset per row, chosen by the mean over seeds",
            *selection.notes,
        ),
    )


def _row(column: Column, loss: str, search: OffsetSearch) -> Row:
    plain, starred = (paper_score(column, loss + suffix, "top1") for suffix in ("+b", "+b*"))
    paper = paper_offset(column, loss)
    unmoved = search.unmoved
    return Row(
        f"{label_of(loss)}, {column.title}",
        (
            Cell("–") if unmoved is None else _score(unmoved, f"{plain.mean:.1f}" if plain else ""),
            _score(search.by_validation, ""),
            _offset(search.by_validation, ""),
            _score(search.by_test, f"{starred.mean:.1f}" if starred else ""),
            _offset(search.by_test, "" if paper is None else f"{paper:+.2f}"),
            _tried(column, search),
        ),
    )


def _score(choice: Choice, beside: str) -> Cell:
    return Cell(choice.test.text, beside, choice.test.mean)


def _offset(choice: Choice, beside: str) -> Cell:
    return Cell(f"{choice.offset:+.2f}", beside, choice.offset)


def _tried(column: Column, search: OffsetSearch) -> Cell:
    """Return how many offsets of the grid were run, and with how many seeds."""
    tried, whole = len(search.curve), len(offsets(column))
    of = "" if tried == whole else f" of {whole}"
    return Cell(f"{tried}{of}, {len(search.seeds)} seeds each", "", tried)


def _records(
    column: Column, loss: str, search: OffsetSearch, weights: Weights
) -> list[dict[str, Value]]:
    return [
        {
            "column": column.name,
            "loss": loss,
            "weights": weights,
            "offset": offset,
            "noisy_validation_mean": validation.mean,
            "noisy_validation_std": validation.std,
            "test_mean": test.mean,
            "test_std": test.std,
            "seeds": test.count,
            "chosen_on_noisy_validation": offset == search.by_validation.offset,
            "chosen_on_test": offset == search.by_test.offset,
            "paper_offset": paper_offset(column, loss),
        }
        for offset, (validation, test) in sorted(search.curve.items())
    ]
