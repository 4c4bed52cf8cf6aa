"""Noise that was estimated from out-of-fold predictions, and what follows for a training."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from noisebound.bounds import noise_bound, transition_bound
from noisebound.errors import MisuseError
from noisebound.estimation.estimate import EstimationMethod, estimate_noise
from noisebound.estimation.floor import Floor, measured_floor
from noisebound.estimation.noise import BoundChoice, Noise, UnknownNoise
from noisebound.estimation.noise_estimate import NoiseEstimate
from noisebound.estimation.out_of_fold import OutOfFold
from noisebound.estimation.true_class import true_class_probabilities
from noisebound.losses import CrossEntropy, Loss

_SETTLED = 0.1  # a rate that is at most this is known well enough to train by: a choice

UNDERFIT = (
    "the networks that were to estimate the noise were still learning when their epochs ended, and "
    "their mistakes would pass for noise: train for more `epochs` or with a higher "
    "`learning_rate`, or give `noise_rate`"
)


@dataclass(frozen=True, eq=False)
class EstimatedNoise(Noise):
    """Noise that was estimated from out-of-fold predictions.

    Args:
        estimate: the rate, the matrix and how far to trust them
        cross_entropy_floor: the least out-of-fold cross-entropy
        out_of_fold: the predictions, averaged where networks have made several; None where they
            are no longer kept
    """

    kind = "estimated"
    estimate: NoiseEstimate
    cross_entropy_floor: Floor
    out_of_fold: OutOfFold | None = None

    @classmethod
    def of(
        cls,
        out_of_fold: OutOfFold,
        method: EstimationMethod = "agreement",
        others: Sequence[OutOfFold] = (),
    ) -> "EstimatedNoise":
        """Return the noise that out-of-fold predictions show, in labels that nobody has checked.

        Args:
            out_of_fold: the predictions
            method: the estimator
            others: predictions for the same examples by networks that were trained on other parts
                of them. Where the first of them differ from `out_of_fold`, the networks' own
                mistakes show; the mean of all decides which labels are suspects
        """
        judged, second = out_of_fold.unchecked, None
        if others:
            trusted = out_of_fold.is_trusted
            second = replace(others[0], is_trusted=trusted).unchecked.probabilities
        estimate = estimate_noise(judged.probabilities, judged.labels, method, second_probs=second)
        mean = out_of_fold.averaged_with(others)
        floor = measured_floor(CrossEntropy(), mean.unchecked.logits, judged.labels)
        return cls(estimate, floor, mean)

    @cached_property
    def calibrated(self) -> Float64[Tensor, "n classes"]:
        """The out-of-fold probabilities of the observed label, at the best temperature."""
        if self.out_of_fold is None:
            raise MisuseError("the out-of-fold predictions of this estimate are no longer kept")
        return (self.out_of_fold.logits.double() / self.cross_entropy_floor.temperature).softmax(1)

    @cached_property
    def true_probabilities(self) -> Float64[Tensor, "n classes"]:
        """The probabilities of each example's true class, given its inputs and its label."""
        assert self.out_of_fold is not None
        probs = true_class_probabilities(self.calibrated, self.transition)
        joint = self.transition[self.out_of_fold.labels] * probs
        found = joint / joint.sum(1, keepdim=True).clamp(min=torch.finfo(joint.dtype).tiny)
        trusted = self.out_of_fold.is_trusted
        if trusted is not None:
            found[trusted] = torch.eye(found.shape[1]).double()[self.out_of_fold.labels[trusted]]
        return found

    @cached_property
    def is_doubted(self) -> Bool[Tensor, " n"]:
        """Which labels confident learning holds to be wrong (Northcutt et al., 2021).

        A class is confidently predicted where its probability is at least its mean among the
        examples that carry its label. A label is doubted if another class is, and likelier.
        """
        assert self.out_of_fold is not None
        probs, labels = self.calibrated, self.out_of_fold.labels
        own = probs.gather(1, labels[:, None]).squeeze(1)
        totals = torch.zeros(probs.shape[1], dtype=probs.dtype).index_add_(0, labels, own)
        thresholds = totals / labels.bincount(minlength=probs.shape[1]).clamp(min=1)
        confident = torch.where((probs >= thresholds) & (thresholds > 0), probs, -1.0)
        surest, predicted = confident.max(1)
        doubted = (surest >= 0) & (predicted != labels)
        trusted = self.out_of_fold.is_trusted
        return doubted if trusted is None else doubted & ~trusted

    @property
    def rate(self) -> float:
        """The estimated rate, but never so high that labels would be worse than useless."""
        num_classes = len(self.estimate.transition)
        return min(self.estimate.noise_rate, (num_classes - 1) / num_classes)

    @property
    def transition(self) -> Float64[Tensor, "classes classes"]:
        """The estimated matrix."""
        return self.estimate.transition

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of the noise rate, at 95 % confidence."""
        return self.estimate.interval

    @property
    def warnings(self) -> tuple[str, ...]:
        """What speaks against the estimate."""
        return self.estimate.diagnostics.warnings

    @property
    def unknown_because(self) -> str | None:
        """What leaves nothing of the estimate, although training went by it."""
        return self.estimate.diagnostics.rejection

    def floor(self, loss: Loss) -> Floor | None:
        """Return the least out-of-fold loss; None where predictions tell nothing of this loss."""
        observed = loss.on_observed_labels()
        if observed is None or self.out_of_fold is None:
            return None
        judged = self.out_of_fold.unchecked
        return measured_floor(observed, judged.logits, judged.labels)

    def bound(self, loss: Loss) -> BoundChoice:
        """Return the lower of the derived floor of the estimated noise and the measured floor.

        The derived floor knows nothing of classes that look alike, and the paper's noise-bound
        supposes the worst structure that noise of a rate can have. The measured floor knows both,
        but lies as far above the entropy as the networks that measured it are from perfect.
        """
        derived = self._derived_bound(loss)
        floor = self.floor(loss)
        if floor is None:
            return derived
        measured = f"{floor.level:.3f} ± {floor.standard_error:.3f}"
        if derived.level <= floor.cautious_level:
            return replace(
                derived, reason=f"{derived.reason}; below the measured floor, {measured}"
            )
        return BoundChoice(
            floor.cautious_level,
            "measured floor",
            f"the least out-of-fold loss, {measured}, less its error; below {derived.level:.3f}, "
            f"{derived.reason}",
        )

    def _derived_bound(self, loss: Loss) -> BoundChoice:
        matrix = loss.assumed_transition
        if matrix is not None:  # the loss corrects a noise of its own, and its floor follows
            level = transition_bound(loss, matrix, self.estimate.class_prior)
            reason = "the entropy of the transition matrix that the loss corrects"
            return BoundChoice(level, "estimated transition", reason)
        level = float(noise_bound(loss, self.rate, len(self.transition)))
        reason = f"the noise-bound of the estimated noise rate {self.rate:.3f}"
        return BoundChoice(level, "estimated noise rate", reason)

    def record(self) -> dict[str, Any]:
        """Return the estimate and the floor of cross-entropy."""
        floor = self.cross_entropy_floor
        return {
            "kind": self.kind,
            "rate": self.rate,
            **self.estimate.record(),
            "floor": {
                "level": floor.level,
                "standard_error": floor.standard_error,
                "temperature": floor.temperature,
            },
        }


def estimated_noise(out_of_fold: OutOfFold, method: EstimationMethod = "agreement") -> Noise:
    """Return the noise that out-of-fold predictions show; unknown where they learned too little.

    Networks that are still learning make mistakes, which pass for noise. Where they hardly make
    any, there is hardly any noise either, and how much there is at most is known.
    """
    noise = EstimatedNoise.of(out_of_fold, method)
    if not out_of_fold.is_underfit:
        rejection = noise.unknown_because
        if rejection is not None:
            return UnknownNoise(out_of_fold.num_classes, rejection, noise.estimate)
        return noise
    most = noise.estimate.interval[1]
    if most > _SETTLED:
        return UnknownNoise(out_of_fold.num_classes, UNDERFIT, noise.estimate)
    words = f"About none of the labels are wrong, at most {most:.1%}. {noise.estimate.words}"
    return replace(noise, estimate=replace(noise.estimate, interval=(0.0, most), words=words))
