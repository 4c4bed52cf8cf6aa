"""How noisy labels are, by the labels that copies of one example were given.

If each label is wrong with probability ``η``, independently and in favor of any other of ``c``
classes alike, two labels of one example agree with probability ``(1 - η)² + η² / (c - 1)``. So the
share of copies whose labels agree gives ``η``, without a model.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from noisebound.estimation.predictions import Labels
from noisebound.estimation.trusted import clopper_pearson

FEWEST_SETS = 30
"""The fewest sets of copies that show the noise. If labels differ in three of thirty, the interval
of the rate is 0.01 to 0.14 for ten classes."""


@dataclass(frozen=True)
class RepeatedLabels:
    """The noise by the labels of copies."""

    sets: int  # of copies
    agreement: float  # the share of pairs whose labels agree, each set counting once
    noise_rate: float
    interval: tuple[float, float]  # with 95 % confidence

    @property
    def words(self) -> str:
        low, high = (f"{end:.1%}" for end in self.interval)
        if self.agreement == 1:
            return (
                f"The labels of all {self.sets:,} sets of copies agree: either at most {high} of "
                "them are wrong, or labels were copied together with the examples."
            )
        return (
            f"The labels of {self.sets:,} sets of copies agree in {self.agreement:.1%} of the "
            f"pairs. If copies were labeled independently, {self.noise_rate:.1%} of their labels "
            f"are wrong ({low} to {high} with 95% confidence). More are wrong if people make the "
            "same mistake on several copies, as they often do, or if labels were copied too."
        )


def noise_of_repeated(
    labels: Labels, sets: Sequence[Sequence[int]], num_classes: int
) -> RepeatedLabels | None:
    """Return the noise rate by the labels of sets of copies; None if there are too few.

    Example:
        >>> import torch
        >>> labels = torch.tensor([0, 0] * 82 + [0, 1] * 18)  # 0.9² + 0.1² agree
        >>> sets = [(first, first + 1) for first in range(0, 200, 2)]
        >>> round(noise_of_repeated(labels, sets, 2).noise_rate, 3)
        0.1
    """
    if len(sets) < FEWEST_SETS:
        return None
    agreements = [
        fmean(one == other for one, other in combinations(labels[list(each)].tolist(), 2))
        for each in sets
    ]
    agreement = fmean(agreements)
    low, high = clopper_pearson(sum(agreements), len(sets))
    rate, most, least = (rate_of_agreement(share, num_classes) for share in (agreement, low, high))
    return RepeatedLabels(len(sets), agreement, rate, (least, most))


def rate_of_agreement(agreement: float, num_classes: int) -> float:
    """Return the noise rate at which two labels agree this often, ``1 - 1/c`` at most."""
    spread = num_classes / (num_classes - 1)
    return (1 - math.sqrt(max(0.0, 1 - spread * (1 - agreement)))) / spread
