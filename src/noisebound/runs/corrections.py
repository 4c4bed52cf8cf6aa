"""Decisions about labels in a training, and the command that trains again with them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel

from noisebound.data import DataOrigin, Splits
from noisebound.errors import DataError
from noisebound.estimation import Checked
from noisebound.review.decisions import (
    DecisionFile,
    ReviewedData,
    corrected_indices,
    is_trusted,
    is_unusable,
)
from noisebound.runs.folder import RunFolder
from noisebound.system.console import print_note
from noisebound.training.config import TrainingConfig
from noisebound.training.data import TrainingData

_NO_DATA = "DATA"  # stands for data that was in memory
_NO_FILE = "MATRIX.csv"  # stands for a matrix, which does not fit on a command line


@dataclass(frozen=True)
class ChecksUsed:
    """How a training used the decisions about its labels.

    Args:
        trusted: the number of checked labels, all of which are trained on
        changed: the number of these that were corrected
        unusable: the number of examples that were left out
        weight: how much a checked label counts, where others count 1
        before: figures of the run whose labels were reviewed; accuracies are those of its model on
            the same examples and labels as in `after`
        after: the same figures of this run
    """

    trusted: int
    changed: int
    unusable: int
    weight: float
    before: Mapping[str, float]
    after: Mapping[str, float] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """One sentence that accounts for every decision."""
        confirmed = self.trusted - self.changed
        times = "" if self.weight == 1 else f"{self.weight:g} times "
        return (
            f"{self.trusted + self.unusable:,} examples were checked: {self.changed:,} labels "
            f"corrected, {confirmed:,} confirmed, {self.unusable:,} examples left out as unusable. "
            f"A checked label counts {times}as much as another."
        )


def read_corrections(path: str | Path, splits: Splits) -> DecisionFile:
    """Return the decisions in a file, or refuse one that is absent or about other data."""
    if not Path(path).is_file():
        raise DataError(
            f"{path} is not a file of decisions: `corrections` is the decisions.jsonl in a run's "
            "folder"
        )
    decisions = DecisionFile(Path(path), ReviewedData.of(splits))
    for note in decisions.notes:  # no correction is lost silently
        print_note(note)
    return decisions


def corrected_data(data: TrainingData, decisions: DecisionFile) -> TrainingData:
    """Return the splits with corrected training labels and without unusable examples.

    Args:
        data: the splits as given; no validation example was decided about
        decisions: about all examples
    """
    whole = len(decisions.data)
    positions = torch.arange(whole) if data.positions is None else data.positions
    train = replace(data.train, labels=corrected_indices(decisions)[positions])
    unusable = is_unusable(decisions)[positions]
    if unusable.any():
        train, positions = train.subset(~unusable), positions[~unusable]
    stands_for = torch.zeros(whole, dtype=torch.float64)
    for each in decisions:
        if each.where == "audit":
            stands_for[each.position] = 1.0 if each.stands_for is None else each.stands_for
    checked = Checked(
        is_trusted(decisions)[positions], decisions.data.labels[positions], stands_for[positions]
    )
    return replace(data, train=train, positions=positions, checked=checked)


def checks_used(
    data: TrainingData,
    decisions: DecisionFile,
    weight: float,
    before: Mapping[str, float],
    after: Mapping[str, float],
) -> ChecksUsed:
    """Return how a training used decisions, with the figures that both runs have."""
    assert data.checked is not None
    trusted = data.checked.is_trusted
    changed = (data.checked.given != data.train.labels)[trusted]
    common = [name for name in before if name in after]
    return ChecksUsed(
        int(trusted.sum()),
        int(changed.sum()),
        int(is_unusable(decisions).sum()),
        weight,
        {name: before[name] for name in common},
        {name: after[name] for name in common},
    )


def fit_again(folder: RunFolder, config: TrainingConfig, corrections: Path, out: Path) -> list[str]:
    """Return the words of a command that trains as the run did, with decisions about its labels.

    The user fills in anything that a command line cannot hold: data that was in memory, or a
    transition matrix.

    Args:
        folder: the folder of the run whose labels were decided about
        config: the config of that run
        corrections: the file of decisions
        out: the folder for the new run
    """
    origin = folder.read_origin() if folder.data.exists() else DataOrigin(data=None)
    words = ["noisebound", "fit", origin.data or _NO_DATA]
    words += _options(origin, but={"data"})
    words += _options(config, but={"transition"})
    if config.transition is not None:
        words += _option("transition", _NO_FILE)
    return [*words, "--corrections", str(corrections), "--out", str(out)]


def _options(given: BaseModel, but: set[str]) -> list[str]:
    """Return the fields that differ from their defaults as options of the command."""
    words = []
    for name, option in type(given).model_fields.items():
        value = getattr(given, name)
        if name not in but and value != option.get_default(call_default_factory=True):
            words += _option(name, value)
    return words


def _option(name: str, value: Any) -> list[str]:
    flag = f"--{name.replace('_', '-')}"
    if value is None:  # a command line has no word for it
        return []
    if value is True:
        return [flag]
    if isinstance(value, dict):
        value = [f"{key}={each}" for key, each in value.items()]
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [flag, *map(str, value)]
    return [flag, str(value)]
