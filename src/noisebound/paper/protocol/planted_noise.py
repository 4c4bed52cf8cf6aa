"""The noise that estimates are judged under: blind to the inputs, by difficulty, foretellable."""

from typing import Literal, TypeAlias, get_args

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Generator, Tensor

from noisebound.corruption import corrupt
from noisebound.data import Dataset

NoiseName: TypeAlias = Literal[
    "none",
    "symmetric-0.2",
    "symmetric-0.4",
    "pairwise-0.3",
    "difficulty-0.2",
    "foretellable-0.2",
    "human",
]
NOISE_NAMES: tuple[NoiseName, ...] = get_args(NoiseName)

_BLIND: tuple[Literal["symmetric", "pairwise"], ...] = ("symmetric", "pairwise")
_MOST = 0.49  # the probability of a flip: the true class stays the likeliest label
_LEAST = 0.02
_TREES = 100


def noisy_labels(train: Dataset, noise: NoiseName, seed: int) -> Int64[Tensor, " n"]:
    """Return labels with noise of a kind.

    Args:
        train: examples with clean labels; for ``"human"`` with noisy ones, which stay
        noise: the kind, with its rate
        seed: decides which labels change
    """
    if noise in ("none", "human"):
        return train.labels
    kind, _, rate = noise.partition("-")
    generator = Generator().manual_seed(seed)
    for blind in _BLIND:
        if kind == blind:
            return corrupt(
                train.labels, blind, float(rate), train.num_classes, generator=generator
            ).labels
    probs = _outside_model(train, seed)
    doubt = 1 - probs.gather(1, train.labels[:, None]).squeeze(1)
    likeliest_other = probs.scatter(1, train.labels[:, None], -1.0).argmax(1)
    if kind == "difficulty":
        draws = torch.rand(len(train), generator=generator, dtype=torch.float64)
        is_flipped = draws < flip_chances(doubt, float(rate))
    else:
        count = round(float(rate) * len(train))
        is_flipped = torch.zeros(len(train), dtype=torch.bool)
        # The order of equal doubts must not be that of the file.
        order = torch.randperm(len(train), generator=generator)
        hardest = order[doubt[order].argsort(descending=True, stable=True)]
        is_flipped[hardest[:count]] = True
    return torch.where(is_flipped, likeliest_other, train.labels)


def flip_chances(doubt: Float64[Tensor, " n"], rate: float) -> Float64[Tensor, " n"]:
    """Return chances that grow with doubt, stay below one half, and have this mean if they can."""
    low, high = 0.0, 1e6
    for _ in range(60):
        middle = (low + high) / 2
        if _chances(doubt, middle).mean() < rate:
            low = middle
        else:
            high = middle
    return _chances(doubt, low)


def _chances(doubt: Tensor, slope: float) -> Tensor:
    return (_LEAST + slope * doubt).clamp(max=_MOST)


def _outside_model(train: Dataset, seed: int) -> Float64[Tensor, "n classes"]:
    """Return the out-of-fold probabilities of a random forest that has seen clean labels."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    inputs = train.dense_inputs.flatten(1).numpy()
    forest = RandomForestClassifier(_TREES, min_samples_leaf=3, random_state=seed)
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    probs = cross_val_predict(
        forest, inputs, train.labels.numpy(), cv=folds, method="predict_proba"
    )
    return torch.from_numpy(np.asarray(probs, dtype=np.float64))
