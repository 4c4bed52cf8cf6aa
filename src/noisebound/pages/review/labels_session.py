"""The review of a run with several labels at once: those of an example are decided together."""

import shlex
import threading
from collections import Counter

import torch
from jaxtyping import Int64
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from noisebound.data import Splits
from noisebound.data.multi_label import PRESENCE
from noisebound.errors import InvalidValueError
from noisebound.pages.examples import ShownExamples, Size
from noisebound.pages.review.session import AskedUndo, DecidedElsewhereError, Record
from noisebound.review import Decision, ReviewQueue
from noisebound.review.decisions import DecisionDetails
from noisebound.review.queue import IS_SUSPECT
from noisebound.runs import MultiLabelRun
from noisebound.runs.corrections import fit_again
from noisebound.system.spreadsheets import quote_formulas

ABSENT, PRESENT = PRESENCE


class AskedLabels(BaseModel):
    """All labels of an example from the page, or None if the example is not usable."""

    model_config = ConfigDict(extra="forbid", strict=True)

    position: int
    present: dict[str, bool] | None
    known: dict[str, str | None]  # the keys of the last decisions that the page has seen


class _Label:
    """One label: its queue, and the places of its examples among all."""

    def __init__(self, run: MultiLabelRun, name: str, splits: Splits) -> None:
        part = run.runs[name].training_data(splits)
        self.queue: ReviewQueue = run.runs[name].review_queue(part)
        known = splits.train.knows(splits.train.label_names.index(name))
        self.whole: Int64[Tensor, " n"] = known.nonzero().flatten()
        self.part = torch.full((len(known),), -1).index_put_(
            (self.whole,), known.cumsum(0)[known] - 1
        )

    def at(self, position: int) -> int | None:
        """Return the place of an example in this label's run, if its label is known there."""
        found = int(self.part[position])
        return None if found < 0 else found


class LabelsSession:
    """The review of all labels by one person; it may be called from several threads."""

    def __init__(self, run: MultiLabelRun, splits: Splits, by: str) -> None:
        self.run, self.splits, self.by = run, splits, by
        self.examples = ShownExamples(splits)
        self._labels = {name: _Label(run, name, splits) for name in run.labels}
        self._lock = threading.RLock()

    def about(self) -> Record:
        """Return the run and its labels."""
        return {
            "run": self.run.name,
            "kind": self.examples.kind,
            "classes": [],
            "labels": self.run.labels,
            "examples": len(self.splits.train),
            "begins_with": "labels",
            "second_opinion": 0,
        }

    def progress(self) -> Record:
        """Return the progress of the review, over all windows."""
        with self._lock:
            files = [label.queue.decisions.refresh() for label in self._labels.values()]
            paths = [each.path for each in files if each.path.exists()]
            waiting = sum(len(label.queue.suspects()) for label in self._labels.values())
        return {
            "version": sum(path.stat().st_size for path in paths),
            "reviewed": sum(map(len, files)),
            "waiting": waiting,
        }

    def following(self) -> Record:
        """Return the example with the most suspect label that nobody has decided about."""
        with self._lock:
            heads = [
                (each.probability, int(label.whole[each.position]))
                for label in self._labels.values()
                for each in label.queue.next()
            ]
        if not heads:
            return {"next": None}
        return {"next": max(heads, key=lambda head: head[0])[1]}

    def example(self, position: int) -> Record:
        """Return an example and its labels, the suspects first."""
        if not 0 <= position < len(self.splits.train):
            raise InvalidValueError(f"there is no example {position}")
        with self._lock:
            labels = [self._label(name, position) for name in self._labels]
        labels.sort(key=lambda each: -each["probability"] if each["is_suspect"] else 0)
        return {
            "position": position,
            "name": self.splits.example_name(position),
            "kind": self.examples.kind,
            "text": self.examples.text(position),
            "columns": self.examples.columns(position),
            "toggles": labels,
        }

    def _label(self, name: str, position: int) -> Record:
        label = self._labels[name]
        at = label.at(position)
        if at is None:
            return {"name": name, "given": None, "probability": 0.0, "is_suspect": False}
        suspect, made = label.queue.suspect(at), label.queue.decisions.get(at)
        is_settled = made is not None and made.is_trusted
        now = made.label if is_settled and made is not None and made.label else suspect.label
        return {
            "name": name,
            "given": suspect.label == PRESENT,
            "present": now == PRESENT,
            "probability": suspect.probability,
            "is_suspect": suspect.probability > IS_SUSPECT and made is None,
            "decision": None if made is None else made.model_dump(),
        }

    def decide(self, asked: AskedLabels) -> Record:
        """Write the decisions about all labels of an example, each into the file of its label."""
        with self._lock:
            made: dict[str, Decision] = {}
            for name, label in self._labels.items():
                at, present = label.at(asked.position), (asked.present or {}).get(name)
                if at is None or (asked.present is not None and present is None):
                    continue
                decisions = label.queue.decisions.refresh()
                current = decisions.get(at)
                if current is not None and current.key != asked.known.get(name):
                    shown = self.splits.example_name(asked.position)
                    raise DecidedElsewhereError(
                        f"Another window has decided about {shown} first, and your answer was not "
                        "saved."
                    )
                suspect, right = label.queue.suspect(at), PRESENT if present else ABSENT
                details: DecisionDetails = {"by": self.by, "probability": suspect.probability}
                if asked.present is None:
                    made[name] = decisions.make(at, "unusable", **details)
                elif right == suspect.label:
                    made[name] = decisions.make(at, "right", **details)
                else:
                    made[name] = decisions.make(at, "wrong", right, **details)
            for name, decision in made.items():
                self._labels[name].queue.decisions.add([decision])
            return {"made": [each.key for each in made.values()], "progress": self.progress()}

    def undo(self, asked: AskedUndo) -> Record:
        """Undo decisions of this window, and return the positions of their examples."""
        undone = []
        with self._lock:
            for label in self._labels.values():
                decisions = label.queue.decisions.refresh()
                known = {each.key for each in decisions.history}
                for key in known.intersection(asked.keys or ()):
                    undone.append(int(label.whole[decisions.undo(key, by=self.by).position]))
            return {"undone": sorted(set(undone)), "progress": self.progress()}

    def picture(self, position: int, size: Size) -> tuple[bytes, str]:
        """Return the file of a picture and its media type."""
        if not 0 <= position < len(self.splits.train):
            raise InvalidValueError(f"there is no example {position}")
        return self.examples.picture(position, size)

    def finish(self) -> Record:
        """Return the number of decisions, and the commands that use them."""
        verdicts = Counter(
            each.verdict for label in self._labels.values() for each in label.queue.decisions
        )
        run, first = self.run, self.run.runs[self.run.labels[0]]
        again = fit_again(first.folder, run.config, first.folder.decisions, run.path)
        return {
            "decided": verdicts.total(),
            "changed": verdicts["wrong"],
            "unsure": verdicts["unsure"],
            "unusable": verdicts["unusable"],
            "file": str(run.folder.labels),
            "commands": [
                shlex.join(["noisebound", "labels", str(run.path), "--out", "labels.csv"]),
                shlex.join(again),
            ],
        }

    def labels(self) -> bytes:
        """Return the corrected labels, as a CSV file for spreadsheets."""
        return quote_formulas(self.run.corrected_labels(self.splits)).write_csv().encode()
