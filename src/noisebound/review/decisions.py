"""Decisions about labels, in a file to which whole lines are appended.

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
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, get_args

import torch
from filelock import FileLock
from jaxtyping import Bool, Int64
from torch import Tensor

from noisebound.data import Dataset, Splits
from noisebound.errors import DataError, InvalidValueError
from noisebound.system.files import add_lines, fingerprint

Verdict: TypeAlias = Literal["right", "wrong", "unsure", "unusable"]
Place: TypeAlias = Literal["audit", "review"]
Manner: TypeAlias = Literal["person", "bulk"]

FORMAT = 1
_KIND = "decisions"
_SHOWN_CLASSES = 5


class ReviewedData:
    """The training examples of a run with their labels.

    A file of decisions records two hashes of its examples: one of the inputs, one of the labels and
    names. Either identifies them, since inputs may be embedded by another backbone later, and
    labels may be corrected in the data itself.

    Args:
        train: all training examples, validation included
        names: the names of the examples, such as their files
        inputs: the hash of the inputs, or a function that computes it on demand; by default that of
            `train`
        ids: the ids of the examples, where their table has a column of ids
    """

    def __init__(
        self,
        train: Dataset,
        names: tuple[str, ...] | None = None,
        inputs: str | Callable[[], str] | None = None,
        ids: list[str] | None = None,
    ) -> None:
        self.labels, self.class_names, self.names = train.labels, train.class_names, names
        self.ids = ids
        self._inputs = train.rows.fingerprint if inputs is None else inputs
        self._index = {name: index for index, name in enumerate(self.class_names)}

    @classmethod
    def of(cls, splits: Splits, inputs: str | None = None) -> "ReviewedData":
        """Return the training examples of a data set."""
        return cls(splits.train, splits.train_names, inputs or splits.fingerprint, splits.ids)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def inputs(self) -> str:
        """The hash of all inputs."""
        if not isinstance(self._inputs, str):
            self._inputs = self._inputs()
        return self._inputs

    @cached_property
    def marks(self) -> str:
        """The hash of the classes, the labels and the names."""
        digest = hashlib.sha256(repr((self.class_names, self.names)).encode())
        digest.update(fingerprint(self.labels).encode())
        return digest.hexdigest()

    def given(self, position: int) -> str:
        """Return the label of an example in the data."""
        return self.class_names[int(self.labels[self.check_position(position)])]

    def check_position(self, position: int) -> int:
        """Return a position, or raise an error if no example has it."""
        is_whole = isinstance(position, int) and not isinstance(position, bool)
        if not is_whole or not 0 <= position < len(self):
            raise InvalidValueError(
                f"`position` must be that of a training example, 0 … {len(self) - 1}; got "
                f"{position!r}"
            )
        return position

    def class_index(self, name: str) -> int:
        """Return the index of a class, or raise an error that suggests similar names."""
        index = self._index.get(name)
        if index is None:
            similar = get_close_matches(str(name), self.class_names, _SHOWN_CLASSES)
            known = similar or self.class_names[:_SHOWN_CLASSES]
            more = ", …" if len(known) < len(self.class_names) else ""
            raise InvalidValueError(
                f"`label` must be the name of a class, such as {', '.join(known)}{more}; got "
                f"{name!r}"
            )
        return index

    def record(self) -> dict[str, Any]:
        """Return the number of examples and their hashes."""
        return {"examples": len(self), "inputs": self.inputs, "marks": self.marks}

    def check_same(self, record: Mapping[str, Any], source: str) -> None:
        """Raise an error if the decisions in `source` are about other examples.

        Args:
            record: the :meth:`record` of the examples of those decisions
            source: the file of decisions
        """
        count = record.get("examples")
        if count != len(self):
            raise DataError(
                f"{source} holds decisions about {count} examples, and this data has {len(self)}: "
                "give the data that was reviewed, with nothing added or left out"
            )
        if record.get("marks") != self.marks and record.get("inputs") != self.inputs:
            raise DataError(
                f"{source} holds decisions about other examples, or about the same in another "
                "order: give the data that was reviewed"
            )


@dataclass(frozen=True)
class Decision:
    """A decision about the label of one example.

    Args:
        position: the example's position among the training examples
        verdict: the label is ``"right"`` or ``"wrong"``, the person is ``"unsure"``, or the example
            is ``"unusable"``
        label: the right class, for a wrong label only
        by: who decided
        at: when, as ISO 8601 in UTC
        where: ``"audit"`` for an example that was drawn at random, ``"review"`` for a suspect
        how: ``"person"`` for a single decision, ``"bulk"`` for one of many made at once
        probability: the probability before the decision that the label is wrong
        key: a unique key
        stands_for: in an audit, the number of examples that this one represents
    """

    position: int
    verdict: Verdict
    label: str | None
    by: str
    at: str
    where: Place = "review"
    how: Manner = "person"
    probability: float | None = None
    key: str = ""
    stands_for: float | None = None

    @property
    def is_trusted(self) -> bool:
        """True if the decision settles the label."""
        return self.verdict in ("right", "wrong")


class DecisionDetails(TypedDict, total=False):
    """Optional fields of a `Decision`; by default, the current user decides now."""

    by: str | None
    at: str | None
    where: Place
    how: Manner
    probability: float | None
    stands_for: float | None


class DecisionFile:
    """The decisions about a data set; :meth:`refresh` reads those of other processes.

    Args:
        path: the file, which the first decision creates
        data: the examples; a file about others is refused
    """

    def __init__(self, path: Path, data: ReviewedData) -> None:
        self.path, self.data = path, data
        self.notes: list[str] = []
        """Problems with the file, a sentence each."""
        self._lock = threading.RLock()
        self._offset = self._lines = 0
        self._has_header = False
        self._by_key: dict[str, Decision] = {}
        self._by_position: dict[int, list[Decision]] = {}
        self.refresh()

    def __len__(self) -> int:
        return len(self._by_position)

    def __iter__(self) -> Iterator[Decision]:
        """Iterate over the latest decision about each example, in the order of positions."""
        return iter([self._by_position[place][-1] for place in sorted(self._by_position)])

    @property
    def history(self) -> list[Decision]:
        """Every decision that was not undone, in the order of the file."""
        return list(self._by_key.values())

    def get(self, position: int) -> Decision | None:
        """Return the latest decision about an example."""
        made = self._by_position.get(position)
        return made[-1] if made else None

    def refresh(self) -> "DecisionFile":
        """Read lines that were added since."""
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
        given = self.data.given(position)
        if label is not None:
            self.data.class_index(label)
        made = Decision(
            position,
            verdict,
            label,
            by=details.get("by") or current_user(),
            at=details.get("at") or now(),
            where=details.get("where", "review"),
            how=details.get("how", "person"),
            probability=details.get("probability"),
            key=secrets.token_hex(8),
            stands_for=details.get("stands_for"),
        )
        for name, known in (("verdict", Verdict), ("where", Place), ("how", Manner)):
            if getattr(made, name) not in get_args(known):
                raise InvalidValueError(
                    f"`{name}` must be one of {', '.join(get_args(known))}; got "
                    f"{getattr(made, name)!r}"
                )
        if (verdict == "wrong") != (label is not None):
            raise InvalidValueError(
                f"a wrong label, and no other, needs the `label` that it should be; got {label!r} "
                f"for the verdict {verdict!r}"
            )
        if label == given:
            raise InvalidValueError(
                f"example {position} has the label {given!r} already: its verdict is 'right'"
            )
        return made

    def add(self, decisions: list[Decision]) -> None:
        """Write decisions that :meth:`make` returned: all of them, or none if the disk is full."""
        self._append([{"key": each.key} | asdict(each) for each in decisions])

    def undo(self, key: str, by: str | None = None) -> Decision:
        """Take back a decision, and return it; an earlier one about the example counts again.

        Args:
            key: the key of the decision
            by: who takes it back
        """
        with self._lock:
            self.refresh()
            undone = self._by_key.get(key)
            if undone is None:
                raise InvalidValueError(f"there is no decision {key!r} to take back")
            self._append([{"undo": key, "by": by or current_user(), "at": now()}])
        return undone

    def _append(self, records: list[dict[str, Any]]) -> None:
        """Append lines in one piece, under a lock between processes, and read them back."""
        with self._lock:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path.with_name(f".{self.path.name}.lock")):
                self.refresh()
                if not self._has_header:
                    about = {"noisebound": _KIND, "format": FORMAT, "data": self.data.record()}
                    records = [about, *records]
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
        elif "noisebound" in record:
            self._read_header(record)
        elif not self._has_header:
            raise DataError(
                f"{self.path} is not a file of decisions: its first line does not say which data "
                "they are about"
            )
        elif "undo" in record:
            self._take_back(record["undo"])
        else:
            self._take_in(record)

    def _read_header(self, record: Mapping[str, Any]) -> None:
        if record["noisebound"] != _KIND or record.get("format") != FORMAT:
            raise DataError(
                f"{self.path} is of another version of noisebound: it holds "
                f"{record['noisebound']} in format {record.get('format')}, this version reads "
                f"{_KIND} in format {FORMAT}"
            )
        about = record.get("data")
        self.data.check_same(about if isinstance(about, dict) else {}, str(self.path))
        self._has_header = True

    def _take_in(self, record: dict[str, Any]) -> None:
        try:
            decision = Decision(**record)
            is_known = self.data.class_names if decision.label is not None else (None,)
            if decision.label not in is_known or decision.verdict not in get_args(Verdict):
                raise InvalidValueError("its label or verdict is unknown")
            self.data.check_position(decision.position)
        except (TypeError, ValueError) as error:
            self._note(f"is not a decision about this data: {error}")
            return
        self._by_key[decision.key] = decision
        self._by_position.setdefault(decision.position, []).append(decision)

    def _take_back(self, key: str) -> None:
        undone = self._by_key.pop(key, None)
        if undone is None:
            return
        made = self._by_position[undone.position]
        made.remove(undone)
        if not made:
            del self._by_position[undone.position]

    def _note(self, problem: str) -> None:
        self.notes.append(f"Line {self._lines} of {self.path} {problem}, and is ignored.")


def corrected_indices(decisions: DecisionFile) -> Int64[Tensor, " n"]:
    """Return the class index of every example, corrected where the label is wrong."""
    corrected = decisions.data.labels.clone()
    for each in decisions:
        if each.label is not None:
            corrected[each.position] = decisions.data.class_index(each.label)
    return corrected


def is_unusable(decisions: DecisionFile) -> Bool[Tensor, " n"]:
    """Return which examples are unusable."""
    return _where(decisions, [each.position for each in decisions if each.verdict == "unusable"])


def is_trusted(decisions: DecisionFile) -> Bool[Tensor, " n"]:
    """Return which labels a person has settled."""
    return _where(decisions, [each.position for each in decisions if each.is_trusted])


def is_decided(decisions: DecisionFile) -> Bool[Tensor, " n"]:
    """Return which examples a person has settled: their label is trusted, or they are unusable."""
    return is_trusted(decisions) | is_unusable(decisions)


def _where(decisions: DecisionFile, positions: list[int]) -> Bool[Tensor, " n"]:
    mask = torch.zeros(len(decisions.data), dtype=torch.bool)
    mask[positions] = True
    return mask


def now() -> str:
    """Return the time in UTC, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def current_user() -> str:
    """Return the name of the user of this computer."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        return f"user {os.getuid()}" if hasattr(os, "getuid") else "unknown"
