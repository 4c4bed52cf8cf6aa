"""The examples that decisions are about, and how to tell them from other examples."""

import hashlib
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from noisebound.data import Dataset, Splits
from noisebound.errors import DataError, InvalidValueError
from noisebound.system.files import fingerprint

_SHOWN_CLASSES = 5


class ReviewedData:
    """The training examples of a run, by position, with the labels that were given.

    The same examples are known again by their inputs, or by their labels and names: inputs may be
    embedded by another backbone later, and labels may be corrected in the files themselves.

    Args:
        train: all training examples, those of validation included
        names: the names of the examples, such as their files; None if they have none
        inputs: the hash of all inputs, or what computes it when it is needed; None for the hash of
            the inputs of `train`
    """

    def __init__(
        self,
        train: Dataset,
        names: tuple[str, ...] | None = None,
        inputs: str | Callable[[], str] | None = None,
    ) -> None:
        self.labels, self.class_names, self.names = train.labels, train.class_names, names
        self._inputs = train.rows.fingerprint if inputs is None else inputs
        self._index = {name: index for index, name in enumerate(self.class_names)}

    @classmethod
    def of(cls, splits: Splits, inputs: str | None = None) -> "ReviewedData":
        """Return the training examples of a data set."""
        return cls(splits.train, splits.train_names, inputs or splits.fingerprint)

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
        """Return the label that the data has at a position."""
        return self.class_names[int(self.labels[self.check_position(position)])]

    def check_position(self, position: int) -> int:
        """Return a position, or refuse one that no example has."""
        is_whole = isinstance(position, int) and not isinstance(position, bool)
        if not is_whole or not 0 <= position < len(self):
            raise InvalidValueError(
                f"`position` must be that of a training example, 0 … {len(self) - 1}; got "
                f"{position!r}"
            )
        return position

    def class_index(self, name: str) -> int:
        """Return the index of a class by its name, or refuse what is no class."""
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
        """Return what tells these examples from others, as JSON can hold it."""
        return {"examples": len(self), "inputs": self.inputs, "marks": self.marks}

    def check_same(self, record: Mapping[str, Any], source: str) -> None:
        """Refuse decisions that were made about other examples.

        Args:
            record: what :meth:`record` gave for the examples of those decisions
            source: where the decisions are
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
