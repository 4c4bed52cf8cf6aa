"""The paper's tables, from the long frame: accuracies, B* and the sweep over noise rates."""

from collections.abc import Mapping, Sequence
from itertools import product
from statistics import fmean
from typing import NamedTuple

import polars as pl

from noisebound.catalog import LossName
from noisebound.paper import Weights
from noisebound.paper.frame import Record, paired_gain, pivot, spread, summaries
from noisebound.paper.protocol import (
    BOUNDED,
    COLUMNS,
    SEARCHED_METHODS,
    TABLE_TITLES,
    Column,
    label_of,
    paper_offset,
    paper_score,
)
from noisebound.report.table import Cell, Table

_SIGNIFICANT = 0.05  # the usual level of a test
_CAPTIONS = {
    "last": "the weights of the last epoch",
    "averaged": "weights averaged over the last epochs",
}


class Selection(NamedTuple):
    """The runs that a table shows."""

    name: str  # of the table's files
    frame: pl.DataFrame  # the result of `long_frame`
    columns: Sequence[Column]
    methods: Sequence[str]
    weights: Weights = "last"
    notes: Sequence[str] = ()  # circumstances of the runs, shown below the table


def accuracy_table(selection: Selection) -> Table:
    """Return the accuracies of the finished runs on clean test labels, in percent."""
    columns, methods = selection.columns, selection.methods
    records = [each for column in columns for each in _accuracies(selection, column)]
    most_seeds = max((each["seeds"] for each in records), default=0)
    best: dict[tuple[str, str], float] = {}
    for each in records:
        place = (each["column"], each["metric"])
        best[place] = max(best.get(place, 0.0), round(each["mean"], 1))

    def cell(record: Record) -> Cell:
        fewer = "" if record["seeds"] == most_seeds else f" [n = {record['seeds']}]"
        return Cell(
            spread(record["mean"], record["std"]) + fewer,
            spread(record["paper_mean"], record["paper_std"]),
            record["mean"],
            is_best=round(record["mean"], 1) == best[record["column"], record["metric"]],
            is_gain=record["gain"] is not None and record["gain"] >= 0,
        )

    title = " and ".join(dict.fromkeys(TABLE_TITLES[column.table] for column in columns))
    headings = {
        (column.name, metric): column.title + (" top-5" if metric == "top5" else "")
        for column in columns
        for metric in column.metrics
    }
    notes = [
        "mean ± unbiased standard deviation over seeds; in brackets the paper's; bold: best of its "
        "column; ↑: the unrounded mean is at least as high as without the bound"
    ]
    if any(method in SEARCHED_METHODS for method in methods):
        notes.append("B*: ours is chosen on noisy validation data, the paper's on the test set")
    return Table(
        name=selection.name,
        title=f"{title}: accuracy on clean test labels in %, {_CAPTIONS[selection.weights]}",
        header=("method", *headings.values()),
        rows=pivot(
            {(each["method"], (each["column"], each["metric"])): cell(each) for each in records},
            {method: label_of(method) for method in methods},
            headings,
            shaded=[method for method in methods if LossName.parse(method).is_bounded],
        ),
        records=tuple(records),
        notes=(*notes, *selection.notes),
        summary=_pairs_in_words(records, title),
    )


def _accuracies(selection: Selection, column: Column) -> list[Record]:
    """Return a record per metric and method of a column, with the gain from the bound."""
    here = selection.frame.filter(column=column.name, given_rate=column.noise_rate)
    searched = [
        _searched(here, method, search)
        for method in selection.methods
        if method in SEARCHED_METHODS
        and (search := search_offset(selection, column, method)) is not None
    ]
    found: dict[tuple[str, str, str], Record] = {
        (each["method"], each["weights"], each["metric"]): each
        | {"by_seed": dict(zip(each["seed_list"], each["value_list"], strict=True))}
        for each in summaries(pl.concat([here.filter(offset=0.0), *searched])).to_dicts()
    }
    records = []
    for metric, method in product(column.metrics, selection.methods):
        each = found.get((method, selection.weights, metric))
        if each is None:
            continue
        name = LossName.parse(method)
        plain = found.get((str(name.plain), selection.weights, metric), {"by_seed": {}})
        gain = paired_gain(plain["by_seed"], each["by_seed"]) if name.is_bounded else None
        memorized = found.get((method, selection.weights, "memorized"), {})
        averaged = found.get((method, "averaged", metric), {})
        paper = paper_score(column, method, metric)
        records.append(
            {
                "column": column.name,
                "metric": metric,
                "method": method,
                "weights": selection.weights,
                "mean": each["mean"],
                "std": each["std"],
                "seeds": each["seeds"],
                "values": " ".join(f"{seed}:{v:.4f}" for seed, v in each["by_seed"].items()),
                "bound": each["bound"],
                "gain": gain and gain.mean,
                "gain_p_value": gain and gain.p_value,
                "wrong_labels_reproduced": memorized.get("mean"),
                "averaged_mean": averaged.get("mean"),
                "averaged_std": averaged.get("std"),
                "paper_mean": paper and paper.mean,
                "paper_std": paper and paper.std,
            }
        )
    return records


def _searched(here: pl.DataFrame, method: str, search: "OffsetSearch") -> pl.DataFrame:
    """Return the runs at the chosen offset, renamed to the method with a searched bound."""
    bounded = str(LossName.parse(method).bounded)
    chosen = here.filter(method=bounded, offset=search.by_validation)
    return chosen.filter(pl.col("seed").is_in(search.seeds)).with_columns(
        method=pl.lit(method), offset=pl.lit(0.0)
    )


def _pairs_in_words(records: Sequence[Record], title: str) -> str:
    """Return a sentence on the share of pairs in which the bound helps, here and in the paper."""
    bounded = [f"{name}+b" for name in BOUNDED]
    pairs = [each for each in records if each["method"] in bounded and each["gain"] is not None]
    if not pairs:
        return ""
    gains = [each["gain"] for each in pairs]
    helped = sum(gain >= 0 for gain in gains)
    clear = [each["gain"] > 0 for each in pairs if (each["gain_p_value"] or 1.0) < _SIGNIFICANT]
    words = (
        f"{title}: the bound helps in {helped} of {len(gains)} pairs "
        f"({helped / len(gains):.0%}, counting ties), by {fmean(gains):+.1f} points on average; "
        f"by a paired t-test over seeds (p < {_SIGNIFICANT}) it helps in {sum(clear)} and harms in "
        f"{len(clear) - sum(clear)}."
    )
    theirs = [
        each["paper_mean"] >= plain.mean
        for each in pairs
        if each["paper_mean"] is not None
        and (
            plain := paper_score(
                COLUMNS[each["column"]], each["method"].removesuffix("+b"), each["metric"]
            )
        )
    ]
    if theirs:
        words += f" In the paper, of the same pairs: {sum(theirs)} of {len(theirs)} "
        words += f"({fmean(theirs):.0%})."
    return words


class OffsetSearch(NamedTuple):
    """The best offset from the noise-bound."""

    by_validation: float  # the offset with the highest accuracy on noisy validation labels
    by_test: float  # the paper's choice, by the test set: an upper limit and not a result
    curve: Mapping[float, Record]  # mean and deviation on validation and test, by offset
    seeds: tuple[int, ...]  # the seeds that all offsets have


def search_offset(selection: Selection, column: Column, method: str) -> OffsetSearch | None:
    """Return the best offset for a loss on a column; None with fewer than two offsets."""
    runs = selection.frame.filter(
        pl.col("metric").is_in(["top1", "validation"]),
        column=column.name,
        method=str(LossName.parse(method).bounded),
        given_rate=column.noise_rate,
        weights=selection.weights,
    )
    scores = runs.pivot(on="metric", index=["offset", "seed"], values="value").drop_nulls()
    tried = scores["offset"].n_unique()
    if tried < 2 or len(scores.columns) < 4:
        return None
    # Compare offsets on the seeds that all of them have.
    scores = scores.filter(pl.len().over("seed") == tried)
    means = scores.group_by("offset").agg(
        *(
            value.alias(f"{name}_{statistic}")
            for metric, name in (("validation", "noisy_validation"), ("top1", "test"))
            for statistic, value in (("mean", pl.mean(metric)), ("std", pl.std(metric)))
        ),
        pl.len().alias("seeds"),
    )
    curve = {each["offset"]: each for each in means.sort("offset").to_dicts()}
    if not curve:
        return None
    by_validation, by_test = (
        # In a tie, the offset nearer to the noise-bound wins.
        max(curve, key=lambda offset: (curve[offset][which], -abs(offset)))
        for which in ("noisy_validation_mean", "test_mean")
    )
    return OffsetSearch(by_validation, by_test, curve, tuple(scores["seed"].unique().sort()))


def offset_table(selection: Selection) -> Table:
    """Return the accuracies at the noise-bound and at the chosen offsets, by loss and column."""
    rows: dict[str, str] = {}
    cells: dict[tuple[str, str], Cell] = {}
    records: list[Record] = []
    for column in selection.columns:
        for loss in (LossName.parse(method).spec.name for method in selection.methods):
            search = search_offset(selection, column, loss)
            if search is None:
                continue
            row = f"{label_of(loss)}, {column.title}"
            rows[row] = row
            cells |= {(row, k): cell for k, cell in _offset_cells(column, loss, search).items()}
            records += [
                {
                    "column": column.name,
                    "loss": loss,
                    "weights": selection.weights,
                    **each,
                    "chosen_on_noisy_validation": offset == search.by_validation,
                    "chosen_on_test": offset == search.by_test,
                    "paper_offset": paper_offset(column, loss),
                }
                for offset, each in search.curve.items()
            ]
    headings = {
        "noise-bound": "noise-bound",
        "validation": "B*, chosen on noisy validation data",
        "validation offset": "offset",
        "test": "chosen on the test set (as in the paper; not a result)",
        "test offset": "its offset",
        "tried": "offsets tried",
    }
    return Table(
        name=selection.name,
        title="B*: bounds around the noise-bound; clean test accuracy in % and offset",
        header=("loss and column", *headings.values()),
        rows=pivot(cells, rows, headings),
        records=tuple(records),
        notes=(
            "positive offsets lie above the noise-bound; in brackets the paper's",
            "one offset per row, chosen by the mean over seeds",
            *selection.notes,
        ),
    )


def _offset_cells(column: Column, loss: str, search: OffsetSearch) -> dict[str, Cell]:
    tried, grid = len(search.curve), len(column.offsets)
    of_grid = "" if tried == grid else f" of {grid}"

    def score(offset: float, paper_method: str = "") -> Cell:
        each = search.curve[offset]
        paper = paper_score(column, paper_method, "top1") if paper_method else None
        beside = f"{paper.mean:.1f}" if paper else ""
        return Cell(spread(each["test_mean"], each["test_std"]), beside, each["test_mean"])

    def place(offset: float, paper: float | None = None) -> Cell:
        return Cell(f"{offset:+.2f}", "" if paper is None else f"{paper:+.2f}", offset)

    cells = {
        "validation": score(search.by_validation),
        "validation offset": place(search.by_validation),
        "test": score(search.by_test, f"{loss}+b*"),
        "test offset": place(search.by_test, paper_offset(column, loss)),
        "tried": Cell(f"{tried}{of_grid}, {len(search.seeds)} seeds each", "", tried),
    }
    return cells | ({"noise-bound": score(0.0, f"{loss}+b")} if 0.0 in search.curve else {})


def rate_table(selection: Selection) -> Table:
    """Return the accuracies by the noise rate that the method is given."""
    here = selection.frame.filter(weights=selection.weights, offset=0.0)
    wide = summaries(here).pivot(
        on="metric",
        index=["column", "method", "given_rate", "bound"],
        values=["mean", "std", "seeds"],
    )
    found = {(each["column"], each["method"], each["given_rate"]): each for each in wide.to_dicts()}
    records: list[Record] = [
        {
            "column": column.name,
            "method": method,
            "weights": selection.weights,
            "true_rate": column.noise_rate,
            "believed_rate": rate,
            "bound": each["bound"],
            "mean": each["mean_top1"],
            "std": each["std_top1"],
            "seeds": each["seeds_top1"],
            "noisy_validation_mean": each.get("mean_validation"),
            "wrong_labels_reproduced": each.get("mean_memorized"),
        }
        for column in selection.columns
        for method in selection.methods
        for rate in column.swept_rates
        if (each := found.get((column.name, method, rate))) is not None
    ]
    labels = [f"{label_of(r['method'])}, {COLUMNS[r['column']].title}" for r in records]
    rates = sorted({record["believed_rate"] for record in records})
    return Table(
        name=selection.name,
        title="Clean test accuracy in %, by the noise rate that the method is given",
        header=("method and column", *(f"{rate:g}" for rate in rates)),
        rows=pivot(
            {
                (label, each["believed_rate"]): Cell(
                    spread(each["mean"], each["std"]),
                    "",
                    each["mean"],
                    is_best=each["believed_rate"] == each["true_rate"],
                )
                for label, each in zip(labels, records, strict=True)
            },
            dict(zip(labels, labels, strict=True)),
            rates,
        ),
        records=tuple(records),
        notes=("bold: the true noise rate", *selection.notes),
    )
