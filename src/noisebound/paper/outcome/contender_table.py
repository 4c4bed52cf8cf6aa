"""Methods beyond the paper, by column: accuracy on clean test labels, and a summary in words."""

import statistics
from collections.abc import Iterable, Mapping, Sequence

from noisebound.catalog import LossName
from noisebound.paper.outcome.bounded_pairs import pairs_in_words
from noisebound.paper.outcome.contest import Contest
from noisebound.paper.outcome.statistics import Summary, paired_gain, summarize
from noisebound.paper.protocol.contenders import PEERS
from noisebound.report.table import EMPTY, Cell, Row, Table

_TOLD = ("fce+matrix", "ce+rate", "sce+rate")
_CLEAN = "-clean"
_MEAN = "mean"


def contender_table(contest: Contest) -> Table:
    """Return the accuracies as far as runs are finished, and their mean over all columns."""
    scores = {
        name: {column.name: contest.accuracies(column, name) for column in contest.columns}
        for name in contest.contenders
    }
    for by_column in scores.values():
        by_column[_MEAN] = _means(by_column)
    most_seeds = max(len(values) for by_column in scores.values() for values in by_column.values())
    columns = [*(column.name for column in contest.columns), _MEAN]
    judged = [scores[name] for name, each in contest.contenders.items() if not each.only_right]
    best = {column: _best(by_column[column] for by_column in judged) for column in columns}
    rows = tuple(
        Row(
            contender.label,
            tuple(
                _cell(
                    scores[name][column],
                    None if contender.only_right else best[column],
                    most_seeds,
                )
                for column in columns
            ),
            is_shaded=LossName.parse(contender.loss).is_bounded,
        )
        for name, contender in contest.contenders.items()
    )
    records = tuple(
        {
            "method": name,
            "column": column,
            "weights": contest.weights,
            "mean": found.mean,
            "std": found.std,
            "seeds": found.count,
            "values": " ".join(f"{seed}:{value:.4f}" for seed, value in values.items()),
        }
        for name, by_column in scores.items()
        for column, values in by_column.items()
        if (found := summarize(values)) is not None
    )
    return Table(
        name=contest.name,
        title=contest.title,
        header=("method", *(column.title for column in contest.columns), "mean"),
        rows=rows,
        records=records,
        notes=(
            "accuracy on clean test labels in %, mean ± unbiased standard deviation over seeds; "
            "bold: best of its column",
            *contest.notes,
        ),
        summary=(
            _in_words(contest, scores)
            if contest.contenders.keys() == PEERS.keys()
            else pairs_in_words(contest)
        ),
    )


def _means(by_column: Mapping[str, Mapping[int, float]]) -> dict[int, float]:
    """Return the mean over the columns, for the seeds that all of them have."""
    seeds = set.intersection(*(set(values) for values in by_column.values()))
    return {
        seed: statistics.fmean(values[seed] for values in by_column.values())
        for seed in sorted(seeds)
    }


def _best(rows: Iterable[Mapping[int, float]]) -> float:
    means = [found.mean for values in rows if (found := summarize(values)) is not None]
    return round(max(means, default=0.0), 1)


def _cell(values: Mapping[int, float], best: float | None, seeds: int) -> Cell:
    summary = summarize(values)
    if summary is None:
        return EMPTY
    shortage = "" if summary.count == seeds else f" [n = {summary.count}]"
    is_best = round(summary.mean, 1) == best
    return Cell(summary.text + shortage, value=summary.mean, is_best=is_best)


_Scores = Mapping[str, Mapping[str, Mapping[int, float]]]


def _in_words(contest: Contest, scores: _Scores) -> str:
    """Return how `auto` compares with methods that are told the truth, plain CE and peers."""
    names = {column.name: column.title for column in contest.columns}
    to_told = {title: _least_gain(scores, _TOLD, name) for name, title in names.items()}
    to_plain = {title: _least_gain(scores, ("plain",), name) for name, title in names.items()}
    told = {title: gap for title, gap in to_told.items() if gap is not None}
    plain = {title: gap for title, gap in to_plain.items() if gap is not None}
    if not told or not plain:
        return ""
    far = {title: gap for title, gap in told.items() if gap < -1}
    words = "auto is within 1 point of the best method that is told the truth in "
    words += f"{len(told) - len(far)} of {len(told)} settings"
    words += f" (further: {_listed(far)})" if far else ""
    worse = {title: gap for title, gap in plain.items() if gap < -0.5}
    words += f"; more than 0.5 below plain CE in {len(worse)}"
    words += f" ({_listed(worse)})" if worse else ""
    clean = {
        title: plain[title]
        for name, title in names.items()
        if name.endswith(_CLEAN) and title in plain
    }
    words += f"; against plain CE on clean data {_listed(clean)}. " if clean else ". "
    return words + _ranking(scores)


def _ranking(scores: _Scores) -> str:
    means = {
        name: found
        for name, by_column in scores.items()
        if (found := summarize(by_column[_MEAN])) is not None
    }
    peers = {name: found for name, found in means.items() if name not in ("auto", "fce+matrix")}
    if "auto" not in means or not peers:
        return ""
    next_best = max(peers, key=lambda name: peers[name].mean)
    gain = paired_gain(scores[next_best][_MEAN], scores["auto"][_MEAN])
    words = f"Over all settings auto has {means['auto'].text}, the best of the others "
    words += f"({PEERS[next_best].label}) {peers[next_best].text}"
    if gain is not None:
        words += f": {gain.mean:+.1f}"
        words += "" if gain.p_value is None else f", p = {gain.p_value:.3f} (paired t-test)"
    return f"{words}."


def _least_gain(scores: _Scores, others: Sequence[str], column: str) -> float | None:
    """Return by how much the mean of auto exceeds the best mean of the others."""
    ours: Summary | None = summarize(scores["auto"][column])
    theirs = [found for name in others if (found := summarize(scores[name][column])) is not None]
    if ours is None or not theirs:
        return None
    return ours.mean - max(found.mean for found in theirs)


def _listed(gaps: Mapping[str, float]) -> str:
    return ", ".join(f"{title} {gap:+.1f}" for title, gap in gaps.items())
