"""What becomes of the labels: each as it was given, as it should be, and why."""

import polars as pl
import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from noisebound.review.decisions import DecisionFile


def corrected_labels(decisions: DecisionFile, *, drop_unusable: bool = False) -> pl.DataFrame:
    """Return one row per example, in the order of the data.

    ``why`` is ``"person"`` for a label that a person has looked at by itself, ``"bulk"`` for a
    suggestion that was accepted together with others, and ``"unchanged"`` for a label that nobody
    has settled. ``probability_wrong`` is what was known before the decision.

    Args:
        decisions: what was decided
        drop_unusable: True to leave out the examples that were found unusable
    """
    data = decisions.data
    labels, corrected = data.labels, corrected_indices(decisions)
    why, verdicts, people, times = (["unchanged"] * len(data), *_nothing(len(data)))
    probabilities: list[float | None] = [None] * len(data)
    for each in decisions:
        place = each.position
        why[place] = each.how if each.is_trusted else "unchanged"
        verdicts[place], people[place], times[place] = each.verdict, each.by, each.at
        probabilities[place] = each.probability
    names = data.names
    table = pl.DataFrame(
        {
            "example": range(len(data)) if names is None else names,
            "label": [data.class_names[index] for index in labels.tolist()],
            "corrected": [data.class_names[index] for index in corrected.tolist()],
            "why": why,
            "verdict": pl.Series(verdicts, dtype=pl.String),
            "probability_wrong": pl.Series(probabilities, dtype=pl.Float64),
            "by": pl.Series(people, dtype=pl.String),
            "at": pl.Series(times, dtype=pl.String),
        }
    )
    return table.filter((~is_unusable(decisions)).numpy()) if drop_unusable else table


def corrected_indices(decisions: DecisionFile) -> Int64[Tensor, " n"]:
    """Return the class index of every example, corrected where it was found wrong."""
    corrected = decisions.data.labels.clone()
    for each in decisions:
        if each.label is not None:
            corrected[each.position] = decisions.data.class_index(each.label)
    return corrected


def is_unusable(decisions: DecisionFile) -> Bool[Tensor, " n"]:
    """Return which examples were found unusable."""
    return _where(decisions, [each.position for each in decisions if each.verdict == "unusable"])


def is_trusted(decisions: DecisionFile) -> Bool[Tensor, " n"]:
    """Return which examples have a label that a person has settled."""
    return _where(decisions, [each.position for each in decisions if each.is_trusted])


def is_decided(decisions: DecisionFile) -> Bool[Tensor, " n"]:
    """Return which examples a person has settled: their label is trusted, or they are unusable."""
    return is_trusted(decisions) | is_unusable(decisions)


def _where(decisions: DecisionFile, positions: list[int]) -> Bool[Tensor, " n"]:
    mask = torch.zeros(len(decisions.data), dtype=torch.bool)
    mask[positions] = True
    return mask


def _nothing(count: int) -> tuple[list[str | None], list[str | None], list[str | None]]:
    return [None] * count, [None] * count, [None] * count
