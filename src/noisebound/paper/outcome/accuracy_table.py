"""Tables 1 and 2 and the appendix's: methods by columns, the paper's figures beside ours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from noisebound.catalog import LossName
from noisebound.paper.outcome.finished import (
    FinishedRun,
    Measurements,
    Selection,
    Weights,
    accuracies,
    memorized_shares,
)
from noisebound.paper.outcome.offset_search import search_offset
from noisebound.paper.outcome.paper_figures import PaperScore, paper_score
from noisebound.paper.outcome.statistics import Gain, Summary, paired_gain, summarize
from noisebound.paper.protocol.columns import TABLE_TITLES, Column, Metric
from noisebound.paper.protocol.methods import BOUNDED, label_of
from noisebound.report.table import EMPTY, Cell, Row, Table, Value

_SIGNIFICANT = 0.05  # the usual level of a test
_CAPTIONS = {
    "last": "the weights of the last epoch",
    "averaged": "weights averaged over the last epochs",
}


@dataclass(frozen=True)
class _Entry:
    """What a method reaches on a column by one metric."""

    column: Column
    method: str
    metric: Metric
    values: Mapping[int, float]
    averaged: Mapping[int, float]
    memorized: Mapping[int, float]
    bound: float | None
    gain: Gain | None
    paper: PaperScore | None

    @property
    def summary(self) -> Summary:
        summary = summarize(self.values)
        assert summary is not None  # an entry has a value
        return summary

    def record(self, weights: Weights) -> dict[str, Value]:
        summary, averaged = self.summary, summarize(self.averaged)
        memorized = summarize(self.memorized)
        return {
            "column": self.column.name,
            "metric": self.metric,
            "method": self.method,
            "weights": weights,
            "mean": summary.mean,
            "std": summary.std,
            "seeds": summary.count,
            "values": " ".join(f"{seed}:{value:.4f}" for seed, value in self.values.items()),
            "bound": self.bound,
            "gain": self.gain.mean if self.gain else None,
            "gain_p_value": self.gain.p_value if self.gain else None,
            "wrong_labels_reproduced": memorized.mean if memorized else None,
            "averaged_mean": averaged.mean if averaged else None,
            "averaged_std": averaged.std if averaged else None,
            "paper_mean": self.paper.mean if self.paper else None,
            "paper_std": self.paper.std if self.paper else None,
        }


def accuracy_table(selection: Selection) -> Table:
    """Return the accuracies on clean test labels in percent, as far as runs are finished."""
    measurements, columns = selection.measurements, selection.columns
    methods, weights = selection.methods, selection.weights
    title = " and ".join(dict.fromkeys(TABLE_TITLES[column.table] for column in columns))
    places = [(column, metric) for column in columns for metric in column.metrics]
    entries = {
        (method, column.name, metric): entry
        for column, metric in places
        for method in methods
        if (entry := _entry(measurements, column, method, metric, weights)) is not None
    }
    most_seeds = max((len(entry.values) for entry in entries.values()), default=0)
    best: dict[tuple[str, Metric], float] = {}
    for entry in entries.values():
        place = (entry.column.name, entry.metric)
        best[place] = max(best.get(place, 0.0), round(entry.summary.mean, 1))
    rows = tuple(
        Row(
            label_of(method),
            tuple(
                _cell(entries.get((method, column.name, metric)), best, most_seeds)
                for column, metric in places
            ),
            is_shaded=LossName.parse(method).is_bounded,
        )
        for method in methods
    )
    return Table(
        name=selection.name,
        title=f"{title}: accuracy on clean test labels in %, {_CAPTIONS[weights]}",
        header=("method", *(_header(column, metric) for column, metric in places)),
        rows=rows,
        records=tuple(entry.record(weights) for entry in entries.values()),
        notes=(
            "mean ± unbiased standard deviation over seeds; in brackets the paper's; bold: best of "
            "its column; ↑: the unrounded mean is at least as high as without the bound",
            *_notes_on_search(methods),
            *selection.notes,
        ),
        summary=_pairs_in_words(list(entries.values()), title),
    )


def _notes_on_search(methods: Sequence[str]) -> list[str]:
    if not any(LossName.parse(method).is_searched for method in methods):
        return []
    return ["B*: ours is chosen on noisy validation data, the paper's on the test set"]


def _header(column: Column, metric: Metric) -> str:
    return column.title + (" top-5" if metric == "top5" else "")


def _entry(
    measurements: Measurements, column: Column, method: str, metric: Metric, weights: Weights
) -> _Entry | None:
    runs = _runs(measurements, column, method, weights)
    values = accuracies(runs, metric, weights)
    if not values:
        return None
    gain = None
    name = LossName.parse(method)
    if name.is_bounded:
        plain = measurements.of(column, str(name.plain))
        gain = paired_gain(accuracies(plain, metric, weights), values)
    return _Entry(
        column,
        method,
        metric,
        values,
        accuracies(runs, metric, "averaged"),
        memorized_shares(runs, weights),
        next(iter(runs.values())).result.bound,
        gain,
        paper_score(column, method, metric),
    )


def _runs(
    measurements: Measurements, column: Column, method: str, weights: Weights
) -> Mapping[int, FinishedRun]:
    name = LossName.parse(method)
    if not name.is_searched:
        return measurements.of(column, method)
    search = search_offset(measurements, column, name.spec.name, weights)
    if search is None:
        return {}
    runs = measurements.of(column, str(name.bounded), offset=search.by_validation.offset)
    return {seed: runs[seed] for seed in search.seeds}


def _cell(entry: _Entry | None, best: Mapping[tuple[str, Metric], float], most_seeds: int) -> Cell:
    if entry is None:
        return EMPTY
    summary, paper = entry.summary, entry.paper
    beside = ""
    if paper is not None:
        beside = f"{paper.mean:.1f}" + ("" if paper.std is None else f" ± {paper.std:.1f}")
    return Cell(
        summary.text + ("" if summary.count == most_seeds else f" [n = {summary.count}]"),
        beside,
        summary.mean,
        is_best=round(summary.mean, 1) == best[entry.column.name, entry.metric],
        is_gain=entry.gain is not None and entry.gain.mean >= 0,
    )


def _pairs_in_words(entries: Sequence[_Entry], title: str) -> str:
    """Return in how many pairs the bound helps, here and in the paper."""
    bounded = [f"{name}+b" for name in BOUNDED]
    pairs = [entry for entry in entries if entry.method in bounded and entry.gain is not None]
    gains = [entry.gain for entry in pairs if entry.gain is not None]
    if not gains:
        return ""
    helped = sum(gain.mean >= 0 for gain in gains)
    clear = [gain for gain in gains if gain.p_value is not None and gain.p_value < _SIGNIFICANT]
    upwards = sum(gain.mean > 0 for gain in clear)
    words = (
        f"{title}: the bound helps in {helped} of {len(gains)} pairs "
        f"({helped / len(gains):.0%}, counting ties), by "
        f"{sum(gain.mean for gain in gains) / len(gains):+.1f} points on average; by a paired "
        f"t-test over seeds (p < {_SIGNIFICANT}) it helps in {upwards} and harms in "
        f"{len(clear) - upwards}."
    )
    theirs = [is_helped for entry in pairs if (is_helped := _helps_in_paper(entry)) is not None]
    if theirs:
        same = sum(theirs)
        words += f" In the paper, of the same pairs: {same} of {len(theirs)} "
        words += f"({same / len(theirs):.0%})."
    return words


def _helps_in_paper(entry: _Entry) -> bool | None:
    plain = paper_score(entry.column, str(LossName.parse(entry.method).plain), entry.metric)
    return None if plain is None or entry.paper is None else entry.paper.mean >= plain.mean
