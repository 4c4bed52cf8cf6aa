"""Decisions about labels in a training, and the command that trains again with them."""

from dataclasses import replace
from pathlib import Path

import torch
from pydantic import BaseModel

from noisebound.data import DataOrigin, Dataset, Splits
from noisebound.data.votes import MISSING, majority_vote
from noisebound.errors import DataError
from noisebound.estimation import Checked
from noisebound.review.decisions import TRUSTED, DecisionFile, ReviewedData
from noisebound.runs.folder import RunFolder
from noisebound.system.console import print_note
from noisebound.training.config import TrainingConfig
from noisebound.training.data import TrainingData

_NO_DATA = "DATA"  # stands for data that was in memory
_NO_FILE = "MATRIX.csv"  # stands for a matrix, which does not fit on a command line


def read_corrections(path: str | Path, splits: Splits) -> DecisionFile:
    """Return the decisions in a file, or refuse one that is absent or about other data."""
    if not Path(path).exists():
        raise DataError(
            f"{path} does not exist: nobody has decided anything about that run's labels yet"
        )
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

    There must be no decisions about validation examples.
    """
    whole = len(decisions.data)
    positions = torch.arange(whole) if data.positions is None else data.positions
    settled = decisions.with_verdict(*TRUSTED)
    is_settled = settled[positions]
    labels = torch.where(is_settled, decisions.corrected()[positions], data.train.labels)
    votes = data.train.votes
    if votes is not None:  # a settled label counts alone
        first = (votes != MISSING).int().argmax(1, keepdim=True)
        alone = torch.full_like(votes, MISSING).scatter(1, first, labels[:, None])
        votes = torch.where(is_settled[:, None], alone, votes)
    train = replace(data.train, labels=labels, votes=votes)
    unusable = decisions.with_verdict("unusable")[positions]
    if unusable.any():
        train, positions = train.subset(~unusable), positions[~unusable]
    stands_for = torch.zeros(whole, dtype=torch.float64)
    for each in decisions:
        if each.where == "audit":
            stands_for[each.position] = 1.0 if each.stands_for is None else each.stands_for
    checked = Checked(settled[positions], decisions.data.labels[positions], stands_for[positions])
    return replace(data, train=train, positions=positions, checked=checked)


def with_second_labels(train: Dataset, decisions: DecisionFile) -> Dataset:
    """Return the training examples with the labels of a second opinion beside the given ones.

    The given label counts unless another has more votes.
    """
    made = decisions.second_labels
    if not made:
        return train
    given = train.labels[:, None] if train.votes is None else train.votes
    people = sorted({each.by for each in made})
    added = torch.full((len(given), len(people)), MISSING)
    for each in made:
        assert each.label is not None
        added[each.position, people.index(each.by)] = decisions.data.class_index(each.label)
    votes, names = torch.cat([given, added], dim=1), tuple[str, ...]()
    if train.votes is None or train.annotators:
        known = train.annotators or ("given",)
        names = (*known, *(f"{name} again" if name in known else name for name in people))
    chosen = majority_vote(votes, train.num_classes, are_named=bool(names))
    own, most = ((votes == each[:, None]).sum(1) for each in (train.labels, chosen))
    labels = torch.where(own == most, train.labels, chosen)
    return replace(train, labels=labels, votes=votes, annotators=names)


def fit_again(folder: RunFolder, config: TrainingConfig, corrections: Path, out: Path) -> list[str]:
    """Return the words of a command that trains as the run did, with decisions about its labels.

    The user fills in anything that a command line cannot hold: data that was in memory, or a
    transition matrix.
    """
    origin = folder.read_origin() if folder.data.exists() else DataOrigin(data=None)
    if origin.label is not None:  # all labels of the data are trained again
        corrections, origin = folder.path.parents[1], origin.model_copy(update={"label": None})
        out = corrections.with_name(f"{corrections.resolve().name}-reviewed")
    words = ["noisebound", "fit", origin.data or _NO_DATA]
    words += [*_flags(origin, but="data"), *_flags(config, but="transition")]
    if config.transition is not None:
        words += ["--transition", _NO_FILE]
    return [*words, "--corrections", str(corrections), "--out", str(out)]


def _flags(given: BaseModel, but: str) -> list[str]:
    """Return the fields that differ from their defaults as options of the command."""
    words: list[str] = []
    fields = given.model_dump(by_alias=True, exclude_defaults=True, exclude={but})
    for name, value in fields.items():
        if isinstance(value, dict):
            value = [f"{key}={each}" for key, each in value.items()]
        values = value if isinstance(value, list | tuple) else [value]
        if values and value is not None:  # a command line has no word for None
            flag = f"--{name.replace('_', '-')}"
            words += [flag] if value is True else [flag, *map(str, values)]
    return words
