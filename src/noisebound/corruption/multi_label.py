"""Noise in multi-label data: labels that are missed, added, or both."""

from typing import Literal, TypeAlias, get_args

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Generator, Tensor

from noisebound.checks import ArrayLike, check_per_label
from noisebound.errors import InvalidTypeError

LabelNoiseKind: TypeAlias = Literal["missing", "added", "flip"]
LABEL_NOISE_KINDS: tuple[LabelNoiseKind, ...] = get_args(LabelNoiseKind)

_CHANGED = {"missing": (1,), "added": (0,), "flip": (0, 1)}  # the labels that each kind changes


def changed_labels(
    labels: Int64[Tensor, "n labels"],
    kind: str,
    noise_rate: ArrayLike | None,
    generator: Generator,
    *,
    exact: bool,
) -> Bool[Tensor, "n labels"]:
    """Return which labels change: each with the rate of its column, or exactly that share."""
    if noise_rate is None:
        raise InvalidTypeError(f"{kind} noise needs `noise_rate`")
    rates = check_per_label("noise_rate", noise_rate, labels.shape[1]).to(labels.device)
    may_change = torch.isin(labels, torch.tensor(_CHANGED[kind], device=labels.device))
    draws = torch.rand(labels.shape, generator=generator, device=labels.device, dtype=torch.float64)
    if not exact:
        return may_change & (draws < rates)
    places = draws.masked_fill(~may_change, 2.0).argsort(0).argsort(0)
    return may_change & (places < (rates * may_change.sum(0)).round())


def realized_transitions(
    noisy: Int64[Tensor, "n labels"], clean: Int64[Tensor, "n labels"]
) -> Float64[Tensor, "labels 2 2"]:
    """Return the realized ``T[noisy, true]`` of each label; a class without examples has no noise.

    Labels that were not given do not count.
    """
    columns = []
    for value in (0, 1):
        is_true = clean == value
        changed = ((noisy != clean) & is_true).sum(0) / is_true.sum(0).clamp(min=1).double()
        column = torch.stack([1 - changed, changed], dim=1)
        columns.append(column if value == 0 else column.flip(1))
    return torch.stack(columns, dim=2)
