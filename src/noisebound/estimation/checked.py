r"""The noise of labels of which some were checked by a person.

A checked label is right, so that the noise is that of the others: of ``n`` labels, ``rn`` were
wrong as given; ``w`` of them were found and corrected; among the ``u`` labels that nobody has
checked, the share ``(rn - w) / u`` is wrong. The rate ``r`` comes from the labels that were drawn
at random.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from noisebound.estimation.estimate import estimate_noise
from noisebound.estimation.estimated_noise import EstimatedNoise
from noisebound.estimation.identification import with_rate
from noisebound.estimation.noise import Noise
from noisebound.estimation.noise_estimate import NoiseEstimate
from noisebound.estimation.trusted import FEWEST_TRUSTED, Trusted


@dataclass(frozen=True, eq=False)
class Checked:
    """Which labels a person has checked, by position among the training examples.

    Args:
        is_trusted: which labels are known to be right, as they are now
        given: all labels as they were given, before any was corrected
        stands_for: how many examples a label stands for that was drawn at random to be checked; 0
            for labels that were not drawn
    """

    is_trusted: Bool[Tensor, " n"]
    given: Int64[Tensor, " n"]
    stands_for: Float64[Tensor, " n"]

    def subset(self, kept: Int64[Tensor, " m"] | Bool[Tensor, " n"]) -> "Checked":
        """Return the same for some of the examples."""
        return Checked(self.is_trusted[kept], self.given[kept], self.stands_for[kept])

    def untrusted_share(self, weights: Tensor | None) -> float:
        """Return the share of the weight that lies on labels that nobody has checked.

        Args:
            weights: how much each example counts; None if all count one
        """
        if weights is None:
            weights = torch.ones(len(self.is_trusted))
        weights = weights.double()
        return float(weights[~self.is_trusted].sum() / weights.sum())


def noise_of_unchecked(noise: Noise, checked: Checked) -> Noise:
    """Return the noise of the labels that nobody has checked, by those that were drawn at random.

    Without at least ten such labels the noise stays as the predictions tell it.

    Args:
        noise: what predictions tell of the unchecked labels
        checked: what a person has checked
    """
    audited = (checked.is_trusted & (checked.stands_for > 0)).nonzero().squeeze(1)
    if not isinstance(noise, EstimatedNoise) or len(audited) < FEWEST_TRUSTED:
        return noise
    found = noise.out_of_fold
    assert found is not None
    trusted = Trusted(audited, found.labels[audited], checked.stands_for[audited])
    of_given = estimate_noise(found.probabilities, checked.given, trusted=trusted)
    wrong = int((checked.given != found.labels)[checked.is_trusted].sum())
    unchecked = int((~checked.is_trusted).sum())
    if not unchecked:
        return noise

    def remaining(rate: float) -> float:
        return min(1.0, max(0.0, (rate * len(found.labels) - wrong) / unchecked))

    low, high = of_given.interval
    return replace(
        noise,
        estimate=_with_rate(
            noise.estimate,
            remaining(of_given.noise_rate),
            (remaining(low), remaining(high)),
            f"{of_given.words} Of the labels as they were given "
            f"{of_given.noise_rate:.1%} were wrong; {wrong} of them are corrected.",
        ),
    )


def _with_rate(
    estimate: NoiseEstimate, rate: float, interval: tuple[float, float], words: str
) -> NoiseEstimate:
    transition = with_rate(estimate.transition, estimate.class_prior, rate)
    return replace(estimate, noise_rate=rate, interval=interval, transition=transition, words=words)
