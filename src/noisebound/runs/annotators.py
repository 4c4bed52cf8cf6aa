"""Annotators and the consensus of their labels, as data frames."""

from collections.abc import Sequence

import polars as pl
import torch

from noisebound.data import Dataset
from noisebound.estimation import AnnotatorEstimate

_RARE = 0.005  # rarer confusions would be rounded to 0 %


def annotators_frame(found: AnnotatorEstimate, class_names: Sequence[str]) -> pl.DataFrame:
    """Return one row per annotator; null for an agreement that is not known.

    Labels by unknown people have one row.
    """
    names = found.names if found.are_named else ("all annotators",)
    counts, rows = found.counts if found.are_named else found.counts.sum()[None], len(names)
    return pl.DataFrame(
        {
            "annotator": names,
            "labels": counts.tolist(),
            "error_rate": found.error_rates[:rows].tolist(),
            "low": found.intervals[:rows, 0].tolist(),
            "high": found.intervals[:rows, 1].tolist(),
            "agreement": found.agreement[:rows].tolist(),
            "most_frequent_mistake": [_worst(found, row, class_names) for row in range(rows)],
        }
    ).with_columns(pl.col("agreement").fill_nan(None))


def _worst(found: AnnotatorEstimate, row: int, class_names: Sequence[str]) -> str | None:
    joint = (found.transitions[row] * found.class_prior).fill_diagonal_(0)
    noisy, true = divmod(int(joint.argmax()), len(joint))
    if joint[noisy, true] < _RARE:
        return None
    share = float(found.transitions[row, noisy, true])
    return f"{share:.0%} of {class_names[true]} labeled {class_names[noisy]}"


def labels_of(train: Dataset, position: int) -> list[tuple[str, str]]:
    """Return all labels of an example, each with its annotator; empty without several labels."""
    if train.votes is None:
        return []
    votes = train.votes[position]
    at = (votes >= 0).nonzero().flatten().tolist()
    names = train.annotators or [f"label {place + 1}" for place in range(len(votes))]
    return [(names[place], train.class_names[int(votes[place])]) for place in at]


def consensus_columns(found: AnnotatorEstimate, train: Dataset) -> dict[str, list[object]]:
    """Return the consensus label of each example, its probability, and the number of labels."""
    assert train.votes is not None
    sureness, chosen = torch.max(found.consensus, dim=1)
    return {
        "consensus": [train.class_names[index] for index in chosen.tolist()],
        "probability_consensus": sureness.tolist(),
        "labels": (train.votes >= 0).sum(1).tolist(),
    }
