"""Decisions about labels, in a file of JSON lines that only grows.

Each decision is on the disk before the call returns. Undoing one appends another line. Several
processes may write to the file at once. The latest decision about an example counts.
"""

import getpass
import hashlib
import json
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cached_property
from operator import index
from pathlib import Path
from typing import Any, Literal, SupportsIndex, TypeAlias, TypedDict, Unpack

import torch
from filelock import FileLock
from jaxtyping import Bool, Int64
from pydantic import BaseModel, ConfigDict, ValidationError
from torch import Tensor

from noisebound.data import Dataset, Splits
from noisebound.data.column_types import did_you_mean, listed_names
from noisebound.data.options import validated
from noisebound.errors import DataError, InvalidValueError
from noisebound.system.files import add_lines, fingerprint

Verdict: TypeAlias = Literal["right", "wrong", "unsure", "unusable", "labeled"]
Place: TypeAlias = Literal["audit", "review", "second opinion"]
Manner: TypeAlias = Literal["person", "bulk"]

TRUSTED: tuple[Verdict, ...] = ("right", "wrong")
"""The verdicts that settle a label."""


class _About(BaseModel):
    """The examples that a file of decisions is about."""

    examples: int
    inputs: str | None = None
    marks: str | None = None


class _Header(BaseModel):
    """The first line of a file of decisions."""

    noisebound: Literal["decisions"] = "decisions"
    format: Literal[1] = 1
    data: _About


class ReviewedData:
    """The training examples of a run with their labels.

    A file of decisions records two hashes of its examples: one of the inputs, one of the labels and
    names. Either identifies them, since inputs may be embedded by another backbone later, and
    labels may be corrected in the data itself. The hash of the inputs may be a function, which is
    called on demand.
    """

    def __init__(
        self,
        train: Dataset,
        names: tuple[str, ...] | None = None,
        inputs: str | Callable[[], str] | None = None,
        ids: list[str] | None = None,
    ) -> None:
        self.labels, self.class_names = train.labels, train.class_names
        self.names, self.ids = names, ids
        self._inputs = inputs or train.rows.fingerprint
        self._index = {name: index for index, name in enumerate(self.class_names)}

    @classmethod
    def of(cls, splits: Splits, inputs: str | None = None) -> "ReviewedData":
        """Return the training examples of a data set."""
        return cls(splits.train, splits.train_names, inputs or splits.fingerprint, splits.ids)

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def inputs(self) -> str:
        return self._inputs if isinstance(self._inputs, str) else self._inputs()

    @cached_property
    def marks(self) -> str:
        digest = hashlib.sha256(repr((self.class_names, self.names)).encode())
        digest.update(fingerprint(self.labels).encode())
        return digest.hexdigest()

    def given(self, position: int) -> str:
        return self.class_names[int(self.labels[self.check_position(position)])]

    def check_position(self, position: int) -> int:
        """Return a position, or raise an error if there is no such example."""
        is_whole = isinstance(position, SupportsIndex) and not isinstance(position, bool)
        if not is_whole or not 0 <= index(position) < len(self):
            raise InvalidValueError(
                f"`position` must be that of a training example, 0 … {len(self) - 1}, as the "
                f"column position of `suspects` or the review queue has it; got {position!r}"
            )
        return index(position)

    def class_index(self, name: str) -> int:
        """Return the index of a class, or raise an error that suggests similar names."""
        if name not in self._index:
            raise InvalidValueError(
                f"`label` must be the name of a class, {listed_names(self.class_names, most=5)}; "
                f"got {name!r}{did_you_mean(str(name), self.class_names)}"
            )
        return self._index[name]

    def check_same(self, known: _About, source: Path) -> None:
        """Raise an error unless the file ``source`` is about these examples."""
        if known.examples != len(self):
            raise DataError(
                f"{source} holds decisions about {known.examples} examples, and this data has "
                f"{len(self)}: give the data that was reviewed, with nothing added or left out"
            )
        if known.marks != self.marks and known.inputs != self.inputs:
            raise DataError(
                f"{source} holds decisions about other examples, or about the same in another "
                "order: give the data that was reviewed"
            )


class Decision(BaseModel):
    """A decision about the label of one example, and its line in a file."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    position: int  # of the example among the training examples
    verdict: Verdict
    label: str | None  # the right class, for a wrong label only; or the label that was given
    by: str  # who decided
    at: str  # when, as ISO 8601 in UTC
    where: Place = "review"  # audit, second opinion: drawn at random; review: a suspect
    how: Manner = "person"  # person: a single decision; bulk: one of many made at once
    probability: float | None = None  # before the decision, that the label is wrong
    key: str = ""  # unique
    stands_for: float | None = None  # in an audit, the number of examples that it represents

    @property
    def is_trusted(self) -> bool:
        return self.verdict in TRUSTED


class DecisionDetails(TypedDict, total=False):
    """Optional fields of a `Decision` (default: the current user, now, in a review)."""

    by: str | None
    at: str | None
    where: Place
    how: Manner
    probability: float | None
    stands_for: float | None


class DecisionFile:
    """The decisions about a data set; :meth:`refresh` reads those of other processes.

    The first decision creates the file. A file about other examples is refused.
    """

    def __init__(self, path: Path, data: ReviewedData) -> None:
        self.path, self.data = path, data
        self.notes: list[str] = []
        """Problems with the file, a sentence each."""
        self._lock = threading.RLock()
        self._offset = self._lines = 0
        self._has_header = False
        self._history: list[Decision] = []
        self._latest: dict[int, Decision] = {}
        self.refresh()

    def __len__(self) -> int:
        return len(self._latest)

    def __iter__(self) -> Iterator[Decision]:
        """Iterate over the latest decision about each example, by position."""
        latest = self._latest
        return iter([latest[position] for position in sorted(latest)])

    @property
    def history(self) -> list[Decision]:
        """All decisions that were not undone, in the order of the file."""
        return self._history.copy()

    @property
    def second_labels(self) -> list[Decision]:
        """The latest label of each example by each person who did not see the given one."""
        given = [each for each in self._history if each.verdict == "labeled"]
        return list({(each.position, each.by): each for each in given}.values())

    def get(self, position: int) -> Decision | None:
        return self._latest.get(position)

    def corrected(self) -> Int64[Tensor, " n"]:
        """Return the class index of every example, corrected where the label is wrong."""
        corrected = self.data.labels.clone()
        for each in self:
            if each.label is not None:
                corrected[each.position] = self.data.class_index(each.label)
        return corrected

    def with_verdict(self, *verdicts: Verdict) -> Bool[Tensor, " n"]:
        """Return which examples have one of these verdicts, by the latest decision."""
        mask = torch.zeros(len(self.data), dtype=torch.bool)
        mask[[each.position for each in self if each.verdict in verdicts]] = True
        return mask

    def refresh(self) -> "DecisionFile":
        """Read the lines that were added since the last call."""
        with self._lock:
            try:
                with self.path.open("rb") as file:
                    file.seek(self._offset)
                    added = file.read()
            except FileNotFoundError:
                return self
            whole, found, rest = added.rpartition(b"\n")
            for line in whole.split(b"\n") if found else ():
                self._lines += 1
                self._read_line(line)
            self._offset += len(whole) + len(found)
            if found:
                decided = (each for each in self._history if each.verdict != "labeled")
                self._latest = {each.position: each for each in decided}
            cut = f"The last line of {self.path} was cut off and is ignored."
            self.notes = [note for note in self.notes if note != cut] + ([cut] if rest else [])
        return self

    def decide(
        self,
        position: int,
        verdict: Verdict,
        label: str | None = None,
        **details: Unpack[DecisionDetails],
    ) -> Decision:
        """Write a decision to the disk, and return it; the arguments are those of `Decision`."""
        made = self.make(position, verdict, label, **details)
        self.add([made])
        return made

    def make(
        self,
        position: int,
        verdict: Verdict,
        label: str | None = None,
        **details: Unpack[DecisionDetails],
    ) -> Decision:
        """Return a checked decision that is not written yet, to :meth:`add` with others."""
        made = self._checked(
            {
                **details,
                "position": position,
                "verdict": verdict,
                "label": label,
                "by": details.get("by") or current_user(),
                "at": details.get("at") or now(),
                "key": secrets.token_hex(8),
            }
        )
        if (verdict in ("wrong", "labeled")) != (label is not None):
            raise InvalidValueError(
                f"a wrong label, and no other, needs the `label` that it should be; got {label!r} "
                f"for the verdict {verdict!r}"
            )
        if verdict == "wrong" and label == self.data.given(position):
            raise InvalidValueError(
                f"example {position} has the label {label!r} already: its verdict is 'right'"
            )
        return made

    def add(self, decisions: list[Decision]) -> None:
        """Write decisions that :meth:`make` returned: all of them, or none if the disk is full."""
        self._append([each.model_dump() for each in decisions])

    def undo(self, key: str, by: str | None = None) -> Decision:
        """Undo the decision with this key, and return it; an earlier one then counts again."""
        with self._lock:
            undone = self.refresh()._find(key)
            if undone is None:
                raise InvalidValueError(f"there is no decision {key!r} to take back")
            self._append([{"undo": key, "by": by or current_user(), "at": now()}])
        return undone

    def _find(self, key: str) -> Decision | None:
        # Keys may repeat, since people copy lines by hand.
        return next((each for each in reversed(self._history) if each.key == key), None)

    def _append(self, records: list[dict[str, Any]]) -> None:
        """Append all lines at once, under a lock between processes, and read them back."""
        with self._lock:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path.with_name(f".{self.path.name}.lock")):
                self.refresh()
                if not self._has_header:
                    data = self.data
                    about = _About(examples=len(data), inputs=data.inputs, marks=data.marks)
                    records = [_Header(data=about).model_dump(), *records]
                add_lines(self.path, [json.dumps(record, allow_nan=False) for record in records])
            self.refresh()

    def _read_line(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            record = json.loads(line)
        except ValueError:
            self._note("is not JSON")
            return
        if not isinstance(record, dict):
            self._note("is not a decision")
        elif "noisebound" in record or not self._has_header:
            try:
                header = _Header.model_validate(record)
            except ValidationError as error:
                raise DataError(
                    f"{self.path} is not a file of decisions, or of another version of "
                    f"noisebound: its first line is {record}"
                ) from error
            self.data.check_same(header.data, self.path)
            self._has_header = True
        elif "undo" in record:
            if (undone := self._find(record["undo"])) is not None:
                self._history.remove(undone)
        else:
            try:
                self._history.append(self._checked(record))
            except InvalidValueError as error:
                self._note(f"is not a decision about this data: {error}")

    def _checked(self, record: Mapping[str, Any]) -> Decision:
        """Return a decision about an example and a class of this data."""
        self.data.check_position(record.get("position", "none"))
        decision = validated(Decision, record)
        if decision.label is not None:
            self.data.class_index(decision.label)
        return decision

    def _note(self, problem: str) -> None:
        self.notes.append(f"Line {self._lines} of {self.path} {problem}, and is ignored.")


def now() -> str:
    """Return the time in UTC, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def current_user() -> str:
    """Return the name of the user of this computer."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        return f"user {os.getuid()}" if hasattr(os, "getuid") else "unknown"
