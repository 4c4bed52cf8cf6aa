"""Decisions about labels, as a training takes them: corrected, trusted, or left out."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from noisebound.data import Dataset, Splits
from noisebound.errors import DataError
from noisebound.estimation.checked import Checked
from noisebound.review.corrected_labels import corrected_indices, is_trusted, is_unusable
from noisebound.review.decisions import DecisionFile
from noisebound.review.reviewed_data import ReviewedData
from noisebound.training.data import TrainingData


@dataclass(frozen=True)
class ChecksUsed:
    """What a training made of decisions about its labels, for its result and its report.

    Args:
        trusted: how many training labels were checked
        changed: how many of them were corrected
        unusable: how many examples were left out
        weight: how much a checked label counted
        before: what the run had come to whose labels were decided about; empty if that is unknown
    """

    trusted: int
    changed: int
    unusable: int
    weight: float
    before: Mapping[str, float]

    def record(self) -> dict[str, Any]:
        """Return everything, as JSON can hold it."""
        return asdict(self) | {"before": dict(self.before)}


def read_corrections(path: str | Path, splits: Splits) -> DecisionFile:
    """Return the decisions in a file, or refuse one that is absent or about other data."""
    if not Path(path).is_file():
        raise DataError(
            f"{path} is no file of decisions: `corrections` are the decisions.jsonl in a run's "
            "folder"
        )
    return DecisionFile(Path(path), ReviewedData.of(splits))


def corrected_data(data: TrainingData, decisions: DecisionFile) -> TrainingData:
    """Return the splits with corrected labels; unusable examples are left out of all of them.

    Args:
        data: the splits as they were given
        decisions: about all examples that were given, those of validation included
    """
    whole = len(decisions.data)
    positions = torch.arange(whole) if data.positions is None else data.positions
    labels, unusable = corrected_indices(decisions), is_unusable(decisions)
    kept = ~unusable[positions]
    train = _relabeled(data.train, labels[positions], kept)
    validation, at = data.validation, data.validation_positions
    if validation is not None:
        assert at is not None
        validation = _relabeled(validation, labels[at], ~unusable[at])
        at = at[~unusable[at]]
    positions = positions[kept]
    stands_for = torch.zeros(whole, dtype=torch.float64)
    for each in decisions:
        if each.where == "audit":
            stands_for[each.position] = 1.0 if each.stands_for is None else each.stands_for
    checked = Checked(
        is_trusted(decisions)[positions], decisions.data.labels[positions], stands_for[positions]
    )
    return replace(
        data,
        train=train,
        validation=validation,
        positions=positions,
        checked=checked,
        validation_positions=at,
    )


def _relabeled(examples: Dataset, labels: Int64[Tensor, " n"], kept: Bool[Tensor, " n"]) -> Dataset:
    corrected = replace(examples, labels=labels)
    return corrected if bool(kept.all()) else corrected.subset(kept)


def checks_used(
    data: TrainingData, decisions: DecisionFile, weight: float, before: Mapping[str, float]
) -> ChecksUsed:
    """Return what a training made of decisions."""
    assert data.checked is not None
    trusted = data.checked.is_trusted
    changed = (data.checked.given != data.train.labels)[trusted]
    known = {name: value for name, value in before.items() if math.isfinite(value)}
    return ChecksUsed(
        int(trusted.sum()),
        int(changed.sum()),
        int(is_unusable(decisions).sum()),
        weight,
        known,
    )
