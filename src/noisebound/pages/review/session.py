"""A review in progress: the answers to the page's requests, as JSON values."""

import shlex
import threading
from collections import Counter
from dataclasses import asdict
from operator import itemgetter
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field

from noisebound.data import Splits
from noisebound.errors import MisuseError
from noisebound.pages.examples import ShownExamples, Size, comparable_vectors, nearest
from noisebound.review import Verdict
from noisebound.review.decisions import Manner, Place
from noisebound.review.exports import corrected_labels
from noisebound.review.queue import IS_SUSPECT, LAST, WORTH
from noisebound.runs import Run
from noisebound.runs.corrections import fit_again
from noisebound.runs.judgment import labels_of
from noisebound.system.spreadsheets import quote_formulas

Record = dict[str, Any]
MOST_AT_ONCE = 500
"""The largest number of labels in one request."""

_SEED = 5_310_877  # of the sample for a second opinion; another than the audit's
_NEIGHBORS = 8
_LOOK_ALIKES = 24  # fit on a screen
_CONFUSED_PAIRS = 50


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class AskedDecision(_Strict):
    """A decision from the page."""

    position: int
    verdict: Verdict
    label: str | None = None
    known: str | None = None  # the key of the last decision that the page has seen


class AskedDecisions(_Strict):
    """Decisions to write, all or none."""

    decisions: list[AskedDecision] = Field(min_length=1, max_length=MOST_AT_ONCE)
    where: Place
    how: Manner


class AskedQueue(BaseModel):
    """Labels to list, the most suspect first; the filters apply to those that are waiting."""

    offset: int = Field(default=0, ge=0, lt=2**53)
    count: int = Field(default=50, ge=0)
    label: str | None = None
    suggested: str | None = None
    waiting: bool = False  # True to leave out labels that are decided


class AskedUndo(_Strict):
    """Decisions to undo."""

    keys: list[str] | None = Field(default=None, max_length=MOST_AT_ONCE)  # default: one's last


class DecidedElsewhereError(MisuseError):
    """Another window has decided about the example first."""


class ReviewSession:
    """The review of a run's labels by one person; it may be called from several threads."""

    def __init__(self, run: Run, splits: Splits, by: str, second_opinion: int = 0) -> None:
        self.run, self.splits, self.by = run, splits, by
        order = torch.randperm(len(splits.train), generator=torch.Generator().manual_seed(_SEED))
        self._sample = order[:second_opinion].tolist()
        self.examples = ShownExamples(splits)
        judgment = run.judgment(splits)
        self._suspects, self._probs = judgment.suspects, judgment.probabilities
        self._vectors = comparable_vectors(splits, self._probs)
        self._queue, self._audit = run.review_queue(splits), run.audit(splits)
        self._decisions = self._audit.decisions = self._queue.decisions
        self._lock = threading.RLock()

    def about(self) -> Record:
        with self._lock:
            is_audited = self._queue.last_decisions or self._audit.result().more_for(0.05) == 0
        return {
            "run": self.run.name,
            "kind": self.examples.kind,
            "classes": self.splits.train.class_names,
            "examples": len(self.splits.train),
            "begins_with": "review" if is_audited else "audit",
            "second_opinion": len(self._sample),
        }

    def second(self) -> Record:
        """Return the next example for a second opinion, without labels, and the result at the end.

        The page shows nothing else then, because a person who sees the first label repeats it.
        """
        with self._lock:
            made = self._decisions.refresh().second_labels
        done = {each.position for each in made if each.by == self.by}
        waiting = [each for each in self._sample if each not in done]
        result = self.run.second_opinion(self.splits) if not waiting else None
        # By its position, because a file's name may contain its class.
        unnamed = [{"position": each, "name": f"#{each}"} for each in waiting[:1]]
        return {
            "next": unnamed[0] | self._content(waiting[0]) if waiting else None,
            "done": len(self._sample) - len(waiting),
            "of": len(self._sample),
            "words": result and f"Noise rate of all labels: {result.summary}.",
            "file": str(self.run.folder.decisions),
        }

    def _content(self, position: int) -> Record:
        examples = self.examples
        text, columns = examples.text(position), examples.columns(position)
        return {"kind": examples.kind, "text": text, "columns": columns}

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
        with self._lock:
            following, result = self._audit.next(), self._audit.result()
        looked_at = result.answered + result.undecided
        more = {5: result.more_for(0.05), 3: result.more_for(0.03)}
        shown = ("answered", "wrong", "undecided", "run_rate", "words")
        return {
            "next": following[0] if following else None,
            "sizes": [{"points": each, "labels": looked_at + more[each]} for each in more],
            "result": {
                **{name: getattr(result, name) for name in shown},
                "rate": result.estimate and result.estimate.noise_rate,
                "interval": result.estimate and result.estimate.interval,
                "confusions": [asdict(each) for each in result.confusions],
                "reliability": [asdict(each) for each in result.reliability],
            },
        }

    def queue(self, asked: AskedQueue) -> Record:
        with self._lock:
            if asked.waiting:
                found = self._queue.positions(label=asked.label, suggested=asked.suggested)
            else:
                found = self._suspects.ranking
            page = found[asked.offset :][: min(asked.count, MOST_AT_ONCE)]
            return {"total": len(found), "items": [self._brief(each) for each in page.tolist()]}

    def filters(self) -> Record:
        """Return the labels and confused pairs in the queue, with their numbers of suspects."""
        with self._lock:
            suspects, waiting = self._queue.suspects(), self._queue.positions()
            pairs = self._queue.pairs(_CONFUSED_PAIRS)
        labels, names = self.splits.train.labels, self.splits.train.class_names
        counts = labels[suspects].bincount(minlength=len(names)).tolist()
        shown = sorted(set(labels[waiting].tolist()))
        return {
            "labels": [{"label": names[index], "waiting": counts[index]} for index in shown],
            "pairs": [asdict(pair) for pair in pairs],
        }

    def example(self, position: int) -> Record:
        with self._lock:
            brief = self._brief(position)
        named = zip(self.splits.train.class_names, self._probs[position].tolist(), strict=True)
        probabilities = sorted(named, key=itemgetter(1), reverse=True)
        labels = labels_of(self.splits.train, position)
        return brief | self._content(position) | {"labels": labels, "probabilities": probabilities}

    def neighbors(self, position: int) -> list[Record]:
        self._decisions.data.check_position(position)
        found = nearest(self._vectors, position, _NEIGHBORS).tolist()
        with self._lock:
            return [self._brief(each) for each in found]

    def look_alikes(self, position: int) -> list[Record]:
        """Return a suspect and the examples most like it with the same label and suggestion.

        Only suspects are ticked: similarity to a wrong label is not evidence of a wrong label.
        """
        self._decisions.data.check_position(position)
        found = nearest(self._vectors, position, len(self.splits.train))
        with self._lock:
            alike = self._queue.look_alikes(position, found, _LOOK_ALIKES)
            return [
                self._brief(each.position) | {"ticked": each.probability > IS_SUSPECT}
                for each in alike
            ]

    def picture(self, position: int, size: Size) -> tuple[bytes, str]:
        self._decisions.data.check_position(position)
        return self.examples.picture(position, size)

    def decide(self, asked: AskedDecisions) -> Record:
        """Write decisions to the disk, or none if another window has decided about one of them."""
        with self._lock:
            self._decisions.refresh()
            is_audit = asked.where == "audit"
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
                    stands_for=self._audit.stands_for(each.position) if is_audit else None,
                )
                for each in asked.decisions
            ]
            self._decisions.add(made)
            return {"made": [each.model_dump() for each in made], "progress": self.progress()}

    def undo(self, asked: AskedUndo) -> Record:
        """Undo decisions, except those already undone elsewhere, and return their positions."""
        with self._lock:
            history = self._decisions.refresh().history
            own = [each.key for each in history if each.by == self.by]
            keys = own[-1:] if asked.keys is None else asked.keys
            known = {each.key for each in history}
            undone = [self._decisions.undo(key, by=self.by) for key in keys if key in known]
            return {"undone": [each.position for each in undone], "progress": self.progress()}

    def finish(self) -> Record:
        """Return the number of decisions, and the commands that use them."""
        verdicts = Counter(each.verdict for each in self._decisions)
        run, decisions = self.run, self.run.folder.decisions
        again = run.path.with_name(f"{run.name}-reviewed")
        commands = (
            ["noisebound", "labels", str(run.path), "--out", "labels.csv"],
            fit_again(run.folder, run.config, decisions, again),
        )
        return {
            "decided": verdicts.total(),
            "changed": verdicts["wrong"],
            "unsure": verdicts["unsure"],
            "unusable": verdicts["unusable"],
            "file": str(decisions),
            "commands": [shlex.join(words) for words in commands],
        }

    def labels(self) -> bytes:
        table = corrected_labels(self._decisions.refresh())
        return quote_formulas(table).write_csv().encode()

    def _check_known(self, asked: AskedDecision) -> None:
        self._decisions.data.check_position(asked.position)
        if asked.verdict == "labeled":
            return
        current = self._decisions.get(asked.position)
        if current is not None and current.key != asked.known:
            name = self.splits.example_name(asked.position)
            raise DecidedElsewhereError(
                f"Another window has decided about {name} first, and your answer was not saved."
            )

    def _brief(self, position: int) -> Record:
        suspect = self._queue.suspect(position)
        decision = self._decisions.get(position)
        return asdict(suspect) | {
            "name": self.splits.example_name(position),
            "short": self.examples.short(position),
            "decision": None if decision is None else decision.model_dump(),
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
