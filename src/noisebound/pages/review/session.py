"""A review in progress: the answers to the page's requests, as JSON values."""

import shlex
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from operator import itemgetter
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from noisebound.data import Splits
from noisebound.errors import MisuseError
from noisebound.pages.examples import Neighbors, Pictures, ShownExamples, Size
from noisebound.review import Audit, Verdict
from noisebound.review.decisions import Manner, Place
from noisebound.review.exports import corrected_labels
from noisebound.review.queue import IS_SUSPECT, LAST, WORTH
from noisebound.runs import Run
from noisebound.runs.corrections import fit_again
from noisebound.system.spreadsheets import quote_formulas

Record = dict[str, Any]
MOST_AT_ONCE = 500
"""The largest number of labels in one request."""

_NEIGHBORS = 8
_LOOK_ALIKES = 24  # fit on a screen
_CONFUSED_PAIRS = 50


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class AskedDecision(_Strict):
    """A decision from the page; `known` is the key of the last decision that it has seen."""

    position: int
    verdict: Verdict
    label: str | None = None
    known: str | None = None


class AskedDecisions(_Strict):
    """Decisions to write, all or none."""

    decisions: list[AskedDecision] = Field(min_length=1, max_length=MOST_AT_ONCE)
    where: Place
    how: Manner


class AskedUndo(_Strict):
    """The keys of decisions to undo (default: the last decision of this person)."""

    keys: list[str] | None = Field(default=None, max_length=MOST_AT_ONCE)


class DecidedElsewhereError(MisuseError):
    """Another window has decided about the example first."""


class ReviewSession:
    """The review of a run's labels by one person; it may be called from several threads."""

    def __init__(self, run: Run, splits: Splits, by: str) -> None:
        self.run, self.splits, self.by = run, splits, by
        self.examples = ShownExamples(splits)
        self._suspects = run.find_suspects(splits)
        self._probs = run.label_probabilities(splits)
        self._neighbors = Neighbors.of(splits, self._probs)
        self._decisions = run.decisions_about(splits)
        self._queue = run.review_queue(splits, decisions=self._decisions)
        self._audit = Audit(self._probs, self._suspects, self._decisions, run.stated_rate)
        self._lock = threading.RLock()

    @cached_property
    def _pictures(self) -> Pictures:
        return Pictures(self.splits)

    def about(self) -> Record:
        """Return the run, its classes, and the step to begin with."""
        with self._lock:
            result = self._audit.result()
            is_audited = result.more_for_5 == 0 or bool(self._queue.last_decisions)
        return {
            "run": self.run.name,
            "kind": self.examples.kind,
            "classes": self.splits.train.class_names,
            "examples": len(self.splits.train),
            "begins_with": "review" if is_audited else "audit",
        }

    def progress(self) -> Record:
        """Return the progress of the review, over all windows."""
        with self._lock:
            self._decisions.refresh()
            last = self._queue.last_decisions
            wrong = sum(each.verdict == "wrong" for each in last)
            path = self.run.folder.decisions
            return {
                # grows with every line that any process writes
                "version": path.stat().st_size if path.exists() else 0,
                "reviewed": len(self._decisions),
                "waiting": len(self._queue.suspects()),
                "last": {"of": len(last), "wrong": wrong},
                "pays": self._queue.pays,
                "advice": self._advice(len(last), wrong),
            }

    def audit(self) -> Record:
        """Return the next example of the audit, and the result so far."""
        with self._lock:
            following, result = self._audit.next(), self._audit.result()
            looked_at = result.answered + result.undecided
            more = {5: result.more_for_5, 3: result.more_for_3}
            return {
                "next": following[0] if following else None,
                "sizes": [{"points": each, "labels": looked_at + more[each]} for each in more],
                "result": {
                    "answered": result.answered,
                    "wrong": result.wrong,
                    "undecided": result.undecided,
                    "rate": result.estimate and result.estimate.noise_rate,
                    "interval": result.estimate and result.estimate.interval,
                    "run_rate": result.run_rate,
                    "words": result.words,
                    "confusions": [asdict(each) for each in result.confusions],
                    "reliability": [asdict(each) for each in result.reliability],
                },
            }

    def queue(
        self, offset: int, count: int, label: str | None, suggested: str | None, *, waiting: bool
    ) -> Record:
        """Return up to ``count`` labels after the first ``offset``, the most suspect first.

        With ``waiting``, only undecided labels; the filters ``label`` and ``suggested`` apply to
        these.
        """
        with self._lock:
            if waiting:
                found = self._queue.positions(label=label, suggested=suggested)
            else:
                found = self._suspects.ranking
            page = found[offset : offset + min(count, MOST_AT_ONCE)]
            return {"total": len(found), "items": self._briefly(page.tolist())}

    def filters(self) -> Record:
        """Return the labels and confused pairs in the queue, with their numbers of suspects."""
        with self._lock:
            suspects, waiting = self._queue.suspects(), self._queue.positions()
            pairs = self._queue.pairs(_CONFUSED_PAIRS)
        labels, names = self.splits.train.labels, self.splits.train.class_names
        counts = labels[suspects].bincount(minlength=len(names)).tolist()
        return {
            "labels": [
                {"label": names[index], "waiting": counts[index]}
                for index in sorted(set(labels[waiting].tolist()))
            ],
            "pairs": [asdict(pair) for pair in pairs],
        }

    def example(self, position: int) -> Record:
        """Return one example without its picture and neighbors."""
        with self._lock:
            brief = self._brief(position)
        return brief | {
            "kind": self.examples.kind,
            "text": self.examples.text(position),
            "columns": self.examples.columns(position),
            "probabilities": sorted(
                zip(self.splits.train.class_names, self._probs[position].tolist(), strict=True),
                key=itemgetter(1),
                reverse=True,
            ),
        }

    def neighbors(self, position: int) -> list[Record]:
        """Return the examples most similar to one, the most similar first."""
        self._decisions.data.check_position(position)
        nearest = self._neighbors.nearest(position, _NEIGHBORS).tolist()
        with self._lock:
            return self._briefly(nearest)

    def look_alikes(self, position: int) -> list[Record]:
        """Return a suspect and the examples most like it with the same label and suggestion.

        Only suspects are ticked: similarity to a wrong label is not evidence of a wrong label.
        """
        self._decisions.data.check_position(position)
        nearest = self._neighbors.nearest(position, len(self.splits.train))
        with self._lock:
            alike = self._queue.look_alikes(position, nearest, _LOOK_ALIKES)
            return [
                self._brief(each.position) | {"ticked": each.probability > IS_SUSPECT}
                for each in alike
            ]

    def picture(self, position: int, size: Size) -> tuple[bytes, str]:
        """Return the file of a picture and its media type."""
        self._decisions.data.check_position(position)
        return self._pictures.read(position, size)

    def decide(self, asked: AskedDecisions) -> Record:
        """Write decisions to the disk, or none if another window has decided about one of them."""
        with self._lock:
            self._decisions.refresh()
            for each in asked.decisions:
                self._check_known(each)
            made = [
                self._decisions.make(
                    each.position,
                    each.verdict,
                    each.label,
                    by=self.by,
                    where=asked.where,
                    how=asked.how,
                    probability=float(self._suspects.probability[each.position]),
                    stands_for=(
                        self._audit.stands_for(each.position) if asked.where == "audit" else None
                    ),
                )
                for each in asked.decisions
            ]
            self._decisions.add(made)
            return {"made": [asdict(each) for each in made], "progress": self.progress()}

    def undo(self, asked: AskedUndo) -> Record:
        """Undo decisions, except those already undone elsewhere, and return their positions."""
        with self._lock:
            history = self._decisions.refresh().history
            own = [each.key for each in history if each.by == self.by]
            keys = own[-1:] if asked.keys is None else asked.keys
            known = {each.key for each in history}
            undone = [self._decisions.undo(key, by=self.by) for key in keys if key in known]
            positions = [each.position for each in undone]
            return {"undone": positions, "progress": self.progress()}

    def finish(self) -> Record:
        """Return the number of decisions, and the commands that use them."""
        verdicts = Counter(each.verdict for each in self._decisions)
        folder, decisions = self.run.path, self.run.folder.decisions
        again = folder.with_name(f"{self.run.name}-reviewed")
        return {
            "decided": verdicts.total(),
            "changed": verdicts["wrong"],
            "unsure": verdicts["unsure"],
            "unusable": verdicts["unusable"],
            "file": str(decisions),
            "commands": [
                shlex.join(["noisebound", "labels", str(folder), "--out", "labels.csv"]),
                shlex.join(fit_again(self.run.folder, self.run.config, decisions, again)),
            ],
        }

    def labels(self) -> bytes:
        """Return the given and the corrected labels, as a CSV file for spreadsheets."""
        table = corrected_labels(self._decisions.refresh())
        return quote_formulas(table).write_csv().encode()

    def _check_known(self, asked: AskedDecision) -> None:
        self._decisions.data.check_position(asked.position)
        current = self._decisions.get(asked.position)
        if current is not None and current.key != asked.known:
            raise DecidedElsewhereError(
                f"Another window has decided about {self.examples.name(asked.position)} first, "
                "and your answer was not saved."
            )

    def _briefly(self, positions: Sequence[int]) -> list[Record]:
        return [self._brief(position) for position in positions]

    def _brief(self, position: int) -> Record:
        suspect = self._queue.suspect(position)
        decision = self._decisions.get(position)
        return asdict(suspect) | {
            "name": self.examples.name(position),
            "short": "" if self.examples.kind == "image" else self.examples.short(position),
            "decision": None if decision is None else asdict(decision),
        }

    def _advice(self, decided: int, wrong: int) -> str:
        if not len(self._queue):
            return "Every label is checked."
        if decided < LAST:
            return (
                f"Fewer than {WORTH:.0%} of the next {LAST} labels are probably wrong: checking "
                "them hardly pays."
            )
        return f"Only {wrong} of the last {LAST} labels were wrong: it no longer pays to go on."
