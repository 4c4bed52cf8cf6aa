"""Where `auto` stands in each setting, beside plain training, the best others and the ceiling."""

from collections.abc import Mapping, Sequence

from noisebound.paper.outcome.contest import Contest
from noisebound.paper.outcome.statistics import Gain, Summary, paired_gain, summarize
from noisebound.paper.protocol.columns import Column
from noisebound.report.table import EMPTY, Cell, Row, Table, Value, number_cell

_OURS, _PLAIN, _CEILING = "auto", "plain", "ceiling"
_NEAR = 0.5  # points behind the best simple contender that are still near enough

_Scores = Mapping[str, Mapping[int, float]]


def standing_table(contest: Contest) -> Table:
    """Return one row per setting; differences are over the seeds that both contenders have."""
    rows, records, behind, gains = [], [], {}, {}
    for column in contest.columns:
        scores = {name: contest.accuracies(column, name) for name in contest.contenders}
        standing = _Standing(contest, scores)
        rows.append(standing.row(column))
        records.append(standing.record(column))
        if standing.to_simple is not None:
            behind[column.title] = standing.to_simple.mean
        if standing.to_plain is not None:
            gains[column.title] = standing.to_plain.mean
    return Table(
        name=f"{contest.name}-standing",
        title="Where auto stands",
        header=(
            "setting",
            "auto",
            "over plain",
            "best simple contender",
            "over it",
            "best that is told the rate",
            "over it",
            "ceiling",
        ),
        rows=tuple(rows),
        records=tuple(records),
        notes=(
            "accuracy on clean test labels in %, mean ± unbiased standard deviation over seeds; "
            "differences are means over the seeds that both have",
            "a contender is simple if it can be had without noisebound and is told nothing",
        ),
        summary=_in_words(behind, gains),
    )


class _Standing:
    """The comparisons of one setting; None for what is not finished."""

    def __init__(self, contest: Contest, scores: _Scores) -> None:
        of = contest.contenders
        simple = [name for name in of if of[name].is_simple and name != _OURS]
        told = [name for name in of if of[name].knows == "true rate"]
        self.labels = {name: contender.label for name, contender in of.items()}
        self.scores = scores
        self.simple, self.told = self._best(simple), self._best(told)
        self.to_plain = self._gain(_PLAIN)
        self.to_simple, self.to_told = self._gain(self.simple), self._gain(self.told)

    def row(self, column: Column) -> Row:
        return Row(
            column.title,
            (
                _cell(self._summary(_OURS)),
                _gain_cell(self.to_plain),
                self._named(self.simple),
                _gain_cell(self.to_simple),
                self._named(self.told),
                _gain_cell(self.to_told),
                _cell(self._summary(_CEILING)),
            ),
        )

    def record(self, column: Column) -> dict[str, Value]:
        return {
            "column": column.name,
            "auto": _mean(self._summary(_OURS)),
            "over plain": _mean(self.to_plain),
            "best simple": self.simple,
            "over best simple": _mean(self.to_simple),
            "best told": self.told,
            "over best told": _mean(self.to_told),
            "ceiling": _mean(self._summary(_CEILING)),
        }

    def _best(self, names: Sequence[str]) -> str | None:
        means = {name: found.mean for name in names if (found := self._summary(name)) is not None}
        return max(means, key=means.__getitem__, default=None)

    def _gain(self, other: str | None) -> Gain | None:
        if other is None:
            return None
        return paired_gain(self.scores.get(other, {}), self.scores.get(_OURS, {}))

    def _summary(self, name: str | None) -> Summary | None:
        return None if name is None else summarize(self.scores.get(name, {}))

    def _named(self, name: str | None) -> Cell:
        found = self._summary(name)
        if name is None or found is None:
            return EMPTY
        return Cell(f"{self.labels[name]} {found.text}", value=found.mean)


def _cell(found: Summary | None) -> Cell:
    return EMPTY if found is None else Cell(found.text, value=found.mean)


def _gain_cell(gain: Gain | None) -> Cell:
    return number_cell(_mean(gain), "+.1f")


def _mean(found: Summary | Gain | None) -> float | None:
    return None if found is None else found.mean


def _in_words(behind: Mapping[str, float], gains: Mapping[str, float]) -> str:
    """Return in how many settings auto is first, and where it is far behind."""
    if not behind:
        return ""
    first = sum(gap >= 0 for gap in behind.values())
    words = f"auto is first among the contenders that are told nothing in {first} of {len(behind)} "
    far = {title: gap for title, gap in behind.items() if gap < -_NEAR}
    words += f"settings; more than {_NEAR} points behind the best simple one in {len(far)}"
    words += f" ({', '.join(f'{title} {gap:+.1f}' for title, gap in far.items())})" if far else ""
    if gains:
        low, high = (pick(gains, key=gains.__getitem__) for pick in (min, max))
        words += (
            f"; over plain training by {gains[low]:+.1f} ({low}) to {gains[high]:+.1f} ({high})"
        )
    return f"{words}."
