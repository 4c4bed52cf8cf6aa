"""Decisions about labels in a training: corrected, trusted, or left out."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from noisebound.data import Splits
from noisebound.errors import DataError
from noisebound.estimation import Checked
from noisebound.review.decisions import (
    DecisionFile,
    ReviewedData,
    corrected_indices,
    is_trusted,
    is_unusable,
)
from noisebound.training.data import TrainingData


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

    def record(self) -> dict[str, Any]:
        """Return everything, as JSON can hold it."""
        return asdict(self)


def read_corrections(path: str | Path, splits: Splits) -> DecisionFile:
    """Return the decisions in a file, or refuse one that is absent or about other data."""
    if not Path(path).is_file():
        raise DataError(
            f"{path} is not a file of decisions: `corrections` is the decisions.jsonl in a run's "
            "folder"
        )
    return DecisionFile(Path(path), ReviewedData.of(splits))


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
