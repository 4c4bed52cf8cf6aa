"""How noisy the labels are: what two networks, each trained on one half, say of the other."""

from collections.abc import Callable

import torch
from jaxtyping import Int64
from torch import Tensor

from noisebound.data.dataset import stratified_indices
from noisebound.integrations.sklearn.examples import Examples
from noisebound.integrations.sklearn.learner import Learner
from noisebound.training.held_out import LOOKED_AT, BestEpoch, HeldOut
from noisebound.training.measured_noise import MeasuredNoise

FEWEST_EXAMPLES = 100
"""To measure noise with; of fewer it could be anything."""

_LARGEST_PART = 1 / 2  # of the epochs, on halves of the examples: half the cost of the training


def measure_by_halves(
    examples: Examples, new_learner: Callable[[Examples], Learner], epochs: int, seed: int
) -> MeasuredNoise:
    """From the labels as they are: weights enter the training, and not the estimate.

    Args:
        examples: with noisy labels
        new_learner: makes a network that is to be trained plainly on a half
        epochs: of the training that this serves, of which a part is done
        seed: decides the halves
    """
    first, second = _halves(examples, seed)
    by_second, is_second_underfit = _held_out(examples, second, first, new_learner, epochs)
    by_first, is_first_underfit = _held_out(examples, first, second, new_learner, epochs)
    in_order = torch.cat([first, second]).argsort()
    held_out = HeldOut(
        torch.cat([by_second, by_first])[in_order],
        is_first_underfit or is_second_underfit,
        torch.arange(len(examples)),
    )
    return MeasuredNoise(held_out, examples.labels)


def _held_out(
    examples: Examples,
    own: Int64[Tensor, " m"],
    others: Int64[Tensor, " k"],
    new_learner: Callable[[Examples], Learner],
    epochs: int,
) -> tuple[Tensor, bool]:
    """What a network that is trained on some examples says of the others; whether it underfits."""
    half, held_out = examples.subset(own), examples.subset(others)
    learner, best = new_learner(half), BestEpoch(held_out.labels)
    for _ in range(max(1, int(_LARGEST_PART * epochs))):  # few tables take so many
        learner.epoch(half)
        best.look(learner.logits(held_out.rows, examples.scaling))
        if best.is_past:
            break
    some = learner.logits(half.rows[:LOOKED_AT], examples.scaling)
    return best.logits, best.is_underfit(some, half.labels[:LOOKED_AT])


def _halves(examples: Examples, seed: int) -> tuple[Int64[Tensor, " m"], Int64[Tensor, " k"]]:
    """Class by class."""
    first = stratified_indices(examples.labels, len(examples) // 2, seed)
    is_first = torch.zeros(len(examples), dtype=torch.bool).index_fill_(0, first, True)
    return first, (~is_first).nonzero().squeeze(1)
