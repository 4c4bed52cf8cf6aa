"""What people have decided about labels, in a file to which whole lines are added and none changed.

Each decision is on the disk before the call returns. To undo one is another line. Several processes
may write: none overwrites another, and of two decisions about an example the later one counts.
"""

import getpass
import json
import os
import secrets
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from filelock import FileLock

from noisebound.errors import DataError, InvalidValueError
from noisebound.review.reviewed_data import ReviewedData
from noisebound.system.files import add_lines

Verdict: TypeAlias = Literal["right", "wrong", "unsure", "unusable"]
Place: TypeAlias = Literal["audit", "review"]
Manner: TypeAlias = Literal["person", "bulk"]

FORMAT = 1
_KIND = "decisions"


@dataclass(frozen=True)
class Decision:
    """What someone decided about the label of one example.

    Args:
        position: the example's position among the run's training examples
        verdict: the label is ``"right"`` or ``"wrong"``, the person is ``"unsure"``, or the example
            is ``"unusable"``
        label: the class that a wrong label should be; None for any other verdict
        by: who decided
        at: when, as ISO 8601 in UTC
        where: ``"audit"`` for an example that was drawn at random, ``"review"`` for a suspect
        how: ``"person"`` for an example that was looked at by itself, ``"bulk"`` for one of many
            that were decided at once
        probability: the probability, before the decision, that the label is wrong; None if unknown
        key: what tells this decision from all others
        stands_for: for an audit, how many examples this one stands for, relative to others of the
            sample; None if it was not drawn at random
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
        """True if the decision tells what the label should be."""
        return self.verdict in ("right", "wrong")


class DecisionFile:
    """The decisions about a data set; those that others write appear on :meth:`refresh`.

    Args:
        path: the file, which is made by the first decision
        data: the examples that the decisions are about; a file about others is refused
    """

    def __init__(self, path: Path, data: ReviewedData) -> None:
        self.path, self.data = path, data
        self.notes: list[str] = []
        """What is wrong with the file, a sentence each."""
        self._lock = threading.RLock()
        self._offset = self._lines = 0
        self._has_header = False
        self._by_key: dict[str, Decision] = {}
        self._by_position: dict[int, list[Decision]] = {}
        self.refresh()

    def __len__(self) -> int:
        return len(self._by_position)

    def __iter__(self) -> Iterator[Decision]:
        """Iterate over the standing decisions, one per example, in the order of positions."""
        return iter([self._by_position[place][-1] for place in sorted(self._by_position)])

    @property
    def history(self) -> list[Decision]:
        """Every decision that was not undone, in the order of the file."""
        return list(self._by_key.values())

    def get(self, position: int) -> Decision | None:
        """Return the decision that stands for an example; None if there is none."""
        made = self._by_position.get(position)
        return made[-1] if made else None

    def refresh(self) -> "DecisionFile":
        """Read what was added since, by this process or by others."""
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
        *,
        by: str | None = None,
        where: Place = "review",
        how: Manner = "person",
        probability: float | None = None,
        stands_for: float | None = None,
    ) -> Decision:
        """Write a decision to the disk, and return it; the arguments are those of `Decision`."""
        made = self.make(
            position,
            verdict,
            label,
            by=by,
            where=where,
            how=how,
            probability=probability,
            stands_for=stands_for,
        )
        self.add([made])
        return made

    def make(
        self,
        position: int,
        verdict: Verdict,
        label: str | None = None,
        *,
        by: str | None = None,
        at: str | None = None,
        where: Place = "review",
        how: Manner = "person",
        probability: float | None = None,
        stands_for: float | None = None,
    ) -> Decision:
        """Return a decision that is checked and not written yet, to :meth:`add` with others."""
        given = self.data.given(position)
        if label is not None:
            self.data.class_index(label)
        for name, value, known in (
            ("verdict", verdict, Verdict),
            ("where", where, Place),
            ("how", how, Manner),
        ):
            if value not in get_args(known):
                raise InvalidValueError(
                    f"`{name}` must be one of {', '.join(get_args(known))}; got {value!r}"
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
        return Decision(
            position,
            verdict,
            label,
            by or current_user(),
            at or now(),
            where,
            how,
            probability,
            secrets.token_hex(8),
            stands_for,
        )

    def add(self, decisions: list[Decision]) -> None:
        """Write decisions that :meth:`make` returned: all of them, or none if the disk is full."""
        self._append([{"key": each.key, **_without_key(each)} for each in decisions])

    def undo(self, key: str, by: str | None = None) -> Decision:
        """Take a decision back, and return it; one made before it about the example stands again.

        Args:
            key: the decision's
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
        """Add lines in one piece, under a lock that all processes heed, and take them in."""
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
            self._note("is no JSON")
            return
        if not isinstance(record, dict):
            self._note("is no decision")
        elif "noisebound" in record:
            self._read_header(record)
        elif not self._has_header:
            raise DataError(
                f"{self.path} is no file of decisions: it does not begin with a line that says "
                "which data they are about"
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
            self._note(f"is no decision about this data: {error}")
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

    def _note(self, what: str) -> None:
        self.notes.append(f"Line {self._lines} of {self.path} {what}, and is ignored.")


def now() -> str:
    """Return the time in UTC, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def current_user() -> str:
    """Return the name of who uses this computer."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        return f"user {os.getuid()}" if hasattr(os, "getuid") else "unknown"


def _without_key(decision: Decision) -> dict[str, Any]:
    record = asdict(decision)
    del record["key"]
    return record
