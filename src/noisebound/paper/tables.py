"""The paper's tables: accuracies, B*, the sweep over noise rates, and bounds without training."""

from collections.abc import Mapping, Sequence
from itertools import product
from statistics import fmean, stdev
from typing import Any, NamedTuple, TypeAlias

import polars as pl
import torch

from noisebound.bounds import noise_bound
from noisebound.catalog import LossName, create_loss
from noisebound.estimation import GivenRate
from noisebound.losses import Loss
from noisebound.pages.table import EMPTY, Cell, Row, Table, number_cell, pivot
from noisebound.paper import Weights
from noisebound.paper.frame import paired_gain
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

Record: TypeAlias = dict[str, Any]

_SIGNIFICANT = 0.05  # the usual level of a test
_CAPTIONS = {
    "last": "the weights of the last epoch",
    "averaged": "weights averaged over the last epochs",
}
# The paper's example of two separable classes, with its numbers.
_RATE, _CLASSES = 0.4, 2
_COMPARED = ("ce", "fce", "gce", "sce")
_PAPER = {"ce": (0.0, 0.673), "fce": (0.511, 0.673), "fce+b": (0.673, 0.673)}
_COMPARISON = {
    "lowest_attainable": "lowest attainable",
    "optimal": "optimal without seeing the labels",
}


class Selection(NamedTuple):
    """The runs that a table shows."""

    name: str  # of the table's files
    frame: pl.DataFrame  # the result of `long_frame`
    columns: Sequence[Column]
    methods: Sequence[str]
    weights: Weights = "last"
    notes: Sequence[str] = ()  # circumstances of the runs, shown below the table

    @property
    def usual(self) -> pl.DataFrame:
        """The runs on these columns that were given the true noise rate."""
        names = [column.name for column in self.columns]
        is_true = pl.col("given_rate") == pl.col("true_rate")
        return self.frame.filter(is_true, pl.col("column").is_in(names))


def spread(mean: float | None, std: float | None) -> str:
    """Return a mean with its standard deviation, rounded for a table.

    Example:
        >>> spread(82.04, 1.96)
        '82.0 ± 2.0'
    """
    return "" if mean is None else f"{mean:.1f}" + ("" if std is None else f" ± {std:.1f}")


def accuracy_table(selection: Selection) -> Table:
    """Return the accuracies of the finished runs on clean test labels, in percent."""
    columns, methods = selection.columns, selection.methods
    records = _accuracies(selection)
    most_seeds = max((each["seeds"] for each in records), default=0)
    cells: dict[tuple[str, tuple[str, str]], Cell] = {}
    for each in records:
        place = (each["column"], each["metric"])
        rivals = (other["mean"] for other in records if (other["column"], other["metric"]) == place)
        fewer = "" if each["seeds"] == most_seeds else f" [n = {each['seeds']}]"
        cells[each["method"], place] = Cell(
            spread(each["mean"], each["std"]) + fewer,
            spread(each["paper_mean"], each["paper_std"]),
            each["mean"],
            is_best=round(each["mean"], 1) == round(max(rivals), 1),
            is_gain=each["gain"] is not None and each["gain"] >= 0,
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
    shaded = [method for method in methods if LossName.parse(method).is_bounded]
    return Table(
        name=selection.name,
        title=f"{title}: accuracy on clean test labels in %, {_CAPTIONS[selection.weights]}",
        header=("method", *headings.values()),
        rows=pivot(cells, {method: label_of(method) for method in methods}, headings, shaded),
        records=tuple(records),
        notes=(*notes, *selection.notes),
        summary=_pairs_in_words(records, title),
    )


def _accuracies(selection: Selection) -> list[Record]:
    """Return a record per column, metric and method, with the gain from the bound."""
    scores = offset_scores(selection)
    chosen = search_offsets(scores).filter("chosen_on_noisy_validation")
    chosen = scores.join(chosen, on=["column", "method", "offset"], how="semi")
    # The runs at the chosen offsets, under the name of B*.
    searched = selection.usual.join(chosen, on=["column", "method", "offset", "seed"], how="semi")
    shown = [selection.usual.filter(offset=0.0), searched.with_columns(pl.col("method") + "*")]
    runs = pl.concat(shown).partition_by("column", "method", "weights", as_dict=True)

    def by_seed(metric: str, *place: str) -> dict[int, float]:
        found = runs.get(place)
        return {} if found is None else dict(found.select("seed", metric).drop_nulls().iter_rows())

    records = []
    for column in selection.columns:
        for metric, method in product(column.metrics, selection.methods):
            place = (column.name, method, selection.weights)
            values, name = by_seed(metric, *place), LossName.parse(method)
            if not values:
                continue
            mean, std = _mean_and_std(values)
            averaged = _mean_and_std(by_seed(metric, column.name, method, "averaged"))
            plain = by_seed(metric, column.name, str(name.plain), selection.weights)
            gain = paired_gain(plain, values) if name.is_bounded else None
            paper = paper_score(column, method, metric)
            records.append(
                {
                    "column": column.name,
                    "metric": metric,
                    "method": method,
                    "weights": selection.weights,
                    "mean": mean,
                    "std": std,
                    "seeds": len(values),
                    "bound": runs[place]["bound"][0],
                    "values": " ".join(f"{seed}:{value:.4f}" for seed, value in values.items()),
                    "gain": gain and gain.mean,
                    "gain_p_value": gain and gain.p_value,
                    "wrong_labels_reproduced": _mean_and_std(by_seed("memorized", *place))[0],
                    "averaged_mean": averaged[0],
                    "averaged_std": averaged[1],
                    "paper_mean": paper and paper.mean,
                    "paper_std": paper and paper.std,
                }
            )
    return records


def _mean_and_std(by_seed: Mapping[int, float]) -> tuple[float | None, float | None]:
    values = list(by_seed.values())
    return fmean(values) if values else None, stdev(values) if len(values) > 1 else None


def _pairs_in_words(records: Sequence[Record], title: str) -> str:
    """Return a sentence on the share of pairs in which the bound helps, here and in the paper."""
    bounded = [f"{name}+b" for name in BOUNDED]
    pairs = [each for each in records if each["method"] in bounded and each["gain"] is not None]
    if not pairs:
        return ""
    helped = sum(each["gain"] >= 0 for each in pairs)
    clear = [each["gain"] > 0 for each in pairs if (each["gain_p_value"] or 1.0) < _SIGNIFICANT]
    words = (
        f"{title}: the bound helps in {helped} of {len(pairs)} pairs "
        f"({helped / len(pairs):.0%}, counting ties), by "
        f"{fmean(each['gain'] for each in pairs):+.1f} points on average; "
        f"by a paired t-test over seeds (p < {_SIGNIFICANT}) it helps in {sum(clear)} and harms in "
        f"{len(clear) - sum(clear)}."
    )
    theirs = []
    for each in pairs:
        plain = each["method"].removesuffix("+b")
        score = paper_score(COLUMNS[each["column"]], plain, each["metric"])
        if score is not None and each["paper_mean"] is not None:
            theirs.append(each["paper_mean"] >= score.mean)
    if not theirs:
        return words
    share = f"{sum(theirs)} of {len(theirs)} ({fmean(theirs):.0%})"
    return f"{words} In the paper, of the same pairs: {share}."


def offset_scores(selection: Selection) -> pl.DataFrame:
    """Return the bounded runs, on the seeds that all offsets of a method on a column have."""
    place = ["column", "method"]
    runs = selection.usual.filter(weights=selection.weights).drop_nulls(["validation", "top1"])
    runs = runs.filter(pl.col("method").str.ends_with("+b"))
    tried = pl.col("offset").n_unique().over(place)
    return runs.filter(tried >= 2, pl.len().over(*place, "seed") == tried)


def search_offsets(scores: pl.DataFrame) -> pl.DataFrame:
    """Return the means at each offset, and which offset is the best by each of two criteria.

    The accuracy on noisy validation labels gives B*. The paper chose by the test set, which is an
    upper limit and not a result. In a tie, the offset nearer to the noise-bound wins.
    """
    place, offset = ["column", "method"], pl.col("offset")
    means = scores.group_by(*place, "offset").agg(
        noisy_validation_mean=pl.mean("validation"),
        noisy_validation_std=pl.std("validation"),
        test_mean=pl.mean("top1"),
        test_std=pl.std("top1"),
        seeds=pl.len(),
    )
    criteria = {f"chosen_on_{name}": f"{name}_mean" for name in ("noisy_validation", "test")}
    return means.sort(*place, "offset").with_columns(
        (offset == offset.sort_by(mean, -offset.abs()).last().over(place)).alias(name)
        for name, mean in criteria.items()
    )


def offset_table(selection: Selection) -> Table:
    """Return the accuracies at the noise-bound and at the chosen offsets, by loss and column."""
    means = search_offsets(offset_scores(selection))
    rows: list[Row] = []
    records: list[Record] = []
    losses = [LossName.parse(method).spec.name for method in selection.methods]
    for column, loss in product(selection.columns, losses):
        curve = means.filter(column=column.name, method=f"{loss}+b").drop("method").to_dicts()
        if curve:
            rows.append(Row(f"{label_of(loss)}, {column.title}", _offsets(column, loss, curve)))
        about = {"loss": loss, "weights": selection.weights}
        records += [about | each | {"paper_offset": paper_offset(column, loss)} for each in curve]
    return Table(
        name=selection.name,
        title="B*: bounds around the noise-bound; clean test accuracy in % and offset",
        header=(
            *("loss and column", "noise-bound", "B*, chosen on noisy validation data", "offset"),
            "chosen on the test set (as in the paper; not a result)",
            *("its offset", "offsets tried"),
        ),
        rows=tuple(rows),
        records=tuple(records),
        notes=(
            "positive offsets lie above the noise-bound; in brackets the paper's",
            "one offset per row, chosen by the mean over seeds",
            *selection.notes,
        ),
    )


def _offsets(column: Column, loss: str, curve: Sequence[Record]) -> tuple[Cell, ...]:
    def score(each: Record, paper_method: str | None = None) -> Cell:
        paper = paper_method and paper_score(column, paper_method, "top1")
        beside = f"{paper.mean:.1f}" if paper else ""
        return Cell(spread(each["test_mean"], each["test_std"]), beside, each["test_mean"])

    at_bound = next((each for each in curve if each["offset"] == 0.0), None)
    ours = next(each for each in curve if each["chosen_on_noisy_validation"])
    theirs = next(each for each in curve if each["chosen_on_test"])
    tried = f"{len(curve)} of {len(column.offsets)}, {ours['seeds']} seeds each"
    return (
        EMPTY if at_bound is None else score(at_bound, f"{loss}+b"),
        score(ours),
        number_cell(ours["offset"], "+.2f"),
        score(theirs, f"{loss}+b*"),
        number_cell(theirs["offset"], "+.2f", paper_offset(column, loss)),
        Cell(tried, "", len(curve)),
    )


def rate_table(selection: Selection) -> Table:
    """Return the accuracies by the noise rate that the method is given."""
    runs = selection.frame.filter(weights=selection.weights, offset=0.0).drop_nulls("top1")
    keys = [pl.col("column"), pl.col("method"), pl.lit(selection.weights).alias("weights")]
    keys += [pl.col("true_rate"), pl.col("given_rate").alias("believed_rate")]
    means = runs.group_by(keys).agg(
        pl.first("bound"),
        mean=pl.mean("top1"),
        std=pl.std("top1"),
        seeds=pl.len(),
        noisy_validation_mean=pl.mean("validation"),
        wrong_labels_reproduced=pl.mean("memorized"),
    )
    rows, cells, records = {}, {}, list[Record]()
    for column, method in product(selection.columns, selection.methods):
        found = means.filter(column=column.name, method=method).sort("believed_rate").to_dicts()
        if found:
            rows[column, method] = f"{label_of(method)}, {column.title}"
        for each in found:
            rate, text = each["believed_rate"], spread(each["mean"], each["std"])
            is_true = rate == each["true_rate"]
            cells[(column, method), rate] = Cell(text, "", each["mean"], is_best=is_true)
        records += found
    rates = sorted({record["believed_rate"] for record in records})
    return Table(
        name=selection.name,
        title="Clean test accuracy in %, by the noise rate that the method is given",
        header=("method and column", *(f"{rate:g}" for rate in rates)),
        rows=pivot(cells, rows, rates),
        records=tuple(records),
        notes=("bold: the true noise rate", *selection.notes),
    )


def comparison_table() -> Table:
    """Return the paper's example: two separable classes with 40 % symmetric noise.

    The first number is the loss of a model that has memorized the labels. The second is that of the
    best model that has not seen them.
    """
    records: list[Record] = []
    logits = torch.tensor([[1e3, 0.0]], dtype=torch.float64)
    for name in _COMPARED:
        loss = create_loss(name, noise_rate=_RATE, num_classes=_CLASSES)
        floor = float(noise_bound(loss, _RATE, _CLASSES))
        memorized = float(loss(logits, torch.zeros(1, dtype=torch.long)))
        for method, lowest in ((name, memorized), (f"{name}+b", floor)):
            record = {"method": method} | dict(zip(_COMPARISON, (lowest, floor), strict=True))
            theirs = _PAPER.get(method, (None, None))
            papers = (f"paper_{each}" for each in _COMPARISON)
            records.append(record | dict(zip(papers, theirs, strict=True)))
    cells = {
        (each["method"], name): number_cell(each[name], ".3f", each[f"paper_{name}"])
        for each, name in product(records, _COMPARISON)
    }
    rows = {each["method"]: label_of(each["method"]) for each in records}
    shaded = [method for method in rows if method.endswith("+b")]
    return Table(
        name="bound-comparison",
        title="Training loss on two separable classes with 40 % symmetric label noise",
        header=("loss", *_COMPARISON.values()),
        rows=pivot(cells, rows, _COMPARISON, shaded),
        records=tuple(records),
        notes=("in brackets the paper's",),
    )


def noise_bound_table(columns: Sequence[Column]) -> Table:
    """Return the noise-bounds of the five losses on each column."""
    records: list[Record] = []
    for name, column in product(BOUNDED, columns):
        rate, classes = column.noise_rate, column.num_classes
        loss = create_loss(name, noise_rate=rate, num_classes=classes)
        assert isinstance(loss, Loss)
        level = GivenRate(rate, classes, column.bound_classes).bound(loss).level
        shown = column.bound_classes or classes
        place = {"loss": name, "column": column.name, "noise_rate": rate, "classes": shown}
        records.append(place | {"bound": level})
    cells = {(r["loss"], r["column"]): number_cell(r["bound"], ".3f") for r in records}
    rows = {name: label_of(name) for name in BOUNDED}
    return Table(
        name="bound-table",
        title="The noise-bound of each loss on each column",
        header=("loss", *(column.title for column in columns)),
        rows=pivot(cells, rows, [column.name for column in columns]),
        records=tuple(records),
        notes=("non-uniform EMNIST: c = 2 in the bound, as in the paper",),
    )
