"""Noise that is estimated from out-of-fold predictions, and what remains of it after a review."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from noisebound.bounds import noise_bound, transition_bound
from noisebound.errors import MisuseError
from noisebound.estimation.annotators import AnnotatorEstimate
from noisebound.estimation.estimate import NoiseEstimate, estimate_noise
from noisebound.estimation.floor import Floor, measured_floor
from noisebound.estimation.multi_label import estimate_one_label
from noisebound.estimation.names import EstimationMethod
from noisebound.estimation.noise import BoundChoice, Noise, UnknownNoise
from noisebound.estimation.predictions import (
    Labels,
    Mask,
    Matrix,
    OutOfFold,
    PerClass,
    Probs,
    are_several,
    of_label,
)
from noisebound.estimation.transitions import true_class_probabilities, with_rate
from noisebound.estimation.trusted import FEWEST_TRUSTED, Trusted, labels_to_check
from noisebound.losses import CrossEntropy, Loss

_TINY = torch.finfo(torch.float64).tiny
_LOW = 0.1  # upper end of an interval that even an underfit model supports; heuristic

UNDERFIT = (
    "the networks that estimate the noise were still learning when their epochs ended, so their "
    "mistakes would pass for noise: train for more `epochs` or with a higher `learning_rate`, or "
    "give `noise_rate`"
)


@dataclass(frozen=True, eq=False)
class EstimatedNoise(Noise):
    """Noise that is estimated from out-of-fold predictions, which may not have been kept.

    Several predictions are kept as their mean, which judges the labels. With several labels per
    example, `estimate` is about all of them, and `of_majority` about their majority
    votes, which are trained on: it gives the rate, the matrix and the bound.
    """

    kind = "estimated"
    estimate: NoiseEstimate = field()  # no default here
    cross_entropy_floor: Floor
    out_of_fold: OutOfFold | None = None
    of_majority: NoiseEstimate | None = None

    @classmethod
    def of(
        cls,
        out_of_fold: OutOfFold,
        method: EstimationMethod = "agreement",
        others: Sequence[OutOfFold] = (),
    ) -> "EstimatedNoise":
        """Estimate the noise of the labels that nobody has checked.

        ``others`` are predictions by models that were trained on other folds. The first of them are
        the default estimator's second predictions; suspects follow from the mean of all.
        """
        judged, second = out_of_fold.unchecked, None
        if others and method == "agreement":
            trusted = out_of_fold.is_trusted
            second = replace(others[0], is_trusted=trusted).unchecked.probabilities
        has_both = bool(judged.labels.bincount(minlength=2).all())
        is_one_of_several = out_of_fold.counts_alike and has_both
        if is_one_of_several and method == "agreement":
            estimate = estimate_one_label(judged.probabilities[:, 1], judged.labels)
        else:
            probs = judged.probabilities
            estimate = estimate_noise(probs, judged.labels, method, second_probs=second)
        mean = out_of_fold.averaged_with(others)
        unchecked = mean.unchecked
        floor = measured_floor(CrossEntropy(), unchecked.logits, unchecked.labels)
        by_votes = _estimate_by_votes(unchecked) if method == "agreement" else None
        if by_votes is None:
            return cls(estimate, floor, mean)
        of_majority = noise_of_majority(by_votes, unchecked.labels)
        return cls(_with_checked(by_votes, mean), floor, mean, of_majority)

    @property
    def annotators(self) -> AnnotatorEstimate | None:
        """The noise of each annotator, and the consensus, given several labels per example."""
        return self.estimate.annotators

    def judged_by(self, predictions: Sequence[OutOfFold]) -> "EstimatedNoise":
        """Return the same estimate and floor; the mean of other predictions judges the labels."""
        first, *others = predictions
        mean = first.averaged_with(others)
        found = measured_floor(CrossEntropy(), mean.unchecked.logits, mean.unchecked.labels)
        floor = replace(self.cross_entropy_floor, temperature=found.temperature)
        return replace(self, out_of_fold=mean, cross_entropy_floor=floor)

    @cached_property
    def calibrated(self) -> Probs:
        """The out-of-fold probabilities of the observed label, at the best temperature."""
        if self.out_of_fold is None:
            raise MisuseError("the out-of-fold predictions of this estimate were not kept")
        return (self.out_of_fold.logits.double() / self.cross_entropy_floor.temperature).softmax(1)

    @cached_property
    def true_probabilities(self) -> Probs:
        """The probabilities of the true class, given the inputs and the label."""
        assert self.out_of_fold is not None
        probs = true_class_probabilities(self.calibrated, self.transition)
        joint = self.transition[self.out_of_fold.labels] * probs
        found = joint / joint.sum(1, keepdim=True).clamp(min=torch.finfo(joint.dtype).tiny)
        trusted = self.out_of_fold.is_trusted
        if trusted is not None:
            found[trusted] = torch.eye(found.shape[1]).double()[self.out_of_fold.labels[trusted]]
        return found

    @cached_property
    def is_doubted(self) -> Mask:
        """Whether confident learning doubts the label (Northcutt et al., 2021).

        A class is confidently predicted if its probability is at least its mean among the examples
        with its label. A label is doubted if the likeliest such class is another.
        """
        assert self.out_of_fold is not None
        probs, labels = self.calibrated, self.out_of_fold.labels
        totals = labels.bincount(of_label(probs, labels), minlength=probs.shape[1])
        thresholds = totals / labels.bincount(minlength=probs.shape[1]).clamp(min=1)
        confident = torch.where((probs >= thresholds) & (thresholds > 0), probs, -1.0)
        surest, predicted = confident.max(1)
        doubted = (surest >= 0) & (predicted != labels)
        trusted = self.out_of_fold.is_trusted
        return doubted if trusted is None else doubted & ~trusted

    @property
    def of_labels(self) -> NoiseEstimate:
        """The noise of the labels that are trained on."""
        return self.of_majority or self.estimate

    @property
    def rate(self) -> float:
        return self.of_labels.noise_rate

    @property
    def interval(self) -> tuple[float, float]:
        return self.of_labels.interval

    @property
    def assumed_rate(self) -> float:
        """The estimated rate, but at most the rate at which labels carry no information."""
        num_classes = len(self.transition)
        return min(self.rate, (num_classes - 1) / num_classes)

    @property
    def transition(self) -> Matrix:
        return self.of_labels.transition

    def prior_given(self, label_shares: PerClass) -> PerClass:
        return self.of_labels.class_prior

    def floor(self, loss: Loss) -> Floor | None:
        """Return the least out-of-fold loss; None if predictions do not determine the loss."""
        observed = loss.on_observed_labels()
        if observed is None or self.out_of_fold is None:
            return None
        judged = self.out_of_fold.unchecked
        return measured_floor(observed, judged.logits, judged.labels)

    def bound(self, loss: Loss) -> BoundChoice:
        """Return the lower of the derived and the measured floor.

        The derived one assumes separable classes and the worst noise of this rate. Errors of the
        models raise the measured one.
        """
        derived = self._derived_bound(loss)
        floor = self.floor(loss)
        if floor is None:
            return derived
        measured = f"{floor.level:.3f} ± {floor.standard_error:.3f}"
        if derived.level <= floor.cautious_level:
            reason = f"{derived.reason}; below the measured floor, {measured}"
            return replace(derived, reason=reason)
        reason = (
            f"the least out-of-fold loss, {measured}, minus its error; below "
            f"{derived.level:.3f}, {derived.reason}"
        )
        return BoundChoice(floor.cautious_level, "measured floor", reason)

    def _derived_bound(self, loss: Loss) -> BoundChoice:
        matrix = loss.assumed_transition
        if matrix is not None:  # the floor of a corrected loss follows from its own matrix
            level = transition_bound(loss, matrix, self.of_labels.class_prior)
            reason = "the entropy of the transition matrix that the loss corrects"
            return BoundChoice(level, "estimated transition", reason)
        level = float(noise_bound(loss, self.assumed_rate, len(self.transition)))
        reason = f"the noise-bound of the estimated noise rate {self.assumed_rate:.3f}"
        return BoundChoice(level, "estimated noise rate", reason)


def _estimate_by_votes(out_of_fold: OutOfFold) -> NoiseEstimate | None:
    """Return the noise of several labels per example; None if few have two, or if it is useless."""
    votes = out_of_fold.votes
    if votes is None or not are_several(votes):
        return None
    names = out_of_fold.annotators or None
    found = estimate_noise(out_of_fold.probabilities, votes, annotators=names)
    return None if found.diagnostics.rejection is not None else found


def _with_checked(estimate: NoiseEstimate, out_of_fold: OutOfFold) -> NoiseEstimate:
    """Return the estimate with a consensus for all examples; checked labels are right."""
    found, trusted = estimate.annotators, out_of_fold.is_trusted
    assert found is not None
    if trusted is None or len(found.consensus) == len(trusted):
        return estimate
    consensus = torch.eye(out_of_fold.num_classes).double()[out_of_fold.labels]
    consensus[~trusted] = found.consensus
    return replace(estimate, annotators=replace(found, consensus=consensus))


def noise_of_majority(estimate: NoiseEstimate, labels: Labels) -> NoiseEstimate:
    """Return the noise of one label per example, given the consensus of all labels.

    The interval is in proportion to that of all labels.
    """
    assert estimate.annotators is not None
    consensus = estimate.annotators.consensus
    rate = 1 - of_label(consensus, labels).mean().item()
    counts = torch.eye(consensus.shape[1], dtype=torch.float64) * torch.finfo(torch.float32).eps
    counts.index_add_(0, labels, consensus)
    low, high = (end * rate / max(estimate.noise_rate, _TINY) for end in estimate.interval)
    return replace(
        estimate,
        noise_rate=rate,
        transition=counts / counts.sum(0),
        class_prior=consensus.mean(0),
        interval=(low, min(1.0, high)),
        labels_to_check=labels_to_check(rate, len(labels)),
        annotators=None,
    )


def estimated_noise(out_of_fold: OutOfFold, method: EstimationMethod = "agreement") -> Noise:
    """Return the noise by out-of-fold predictions; unknown if they are unrelated to the labels.

    The errors of underfit models would pass for noise. Only if they are few, the noise is low.
    """
    noise = EstimatedNoise.of(out_of_fold, method)
    most = noise.estimate.interval[1]
    rejection = noise.unknown_because
    if out_of_fold.is_underfit:
        rejection = UNDERFIT if most > _LOW else None
    if rejection is not None:
        return UnknownNoise(out_of_fold.num_classes, rejection, noise.estimate)
    if not out_of_fold.is_underfit:
        return noise
    words = f"Few labels are wrong, at most {most:.1%}. {noise.estimate.words}"
    return replace(noise, estimate=replace(noise.estimate, interval=(0.0, most), words=words))


def among_labels(noise: Noise, num_labels: int) -> Noise:
    """Return the noise with `labels_to_check` for all labels, if it was estimated from a part."""
    if not isinstance(noise, EstimatedNoise | UnknownNoise) or noise.estimate is None:
        return noise
    count = labels_to_check(noise.estimate.noise_rate, num_labels)
    return replace(noise, estimate=replace(noise.estimate, labels_to_check=count))


@dataclass(frozen=True, eq=False)
class Checked:
    """Labels that a person has checked, by position among the training examples."""

    is_trusted: Mask  # whether the label is known to be right, after corrections
    given: Int64[Tensor, " n"]  # the labels before corrections
    stands_for: Float64[Tensor, " n"]  # examples that a label drawn at random represents, else 0

    def subset(self, kept: Int64[Tensor, " m"] | Mask) -> "Checked":
        return Checked(self.is_trusted[kept], self.given[kept], self.stands_for[kept])

    def untrusted_share(self, weights: Tensor | None) -> float:
        """Return the share of the weight on unchecked labels; by default, all weights are 1."""
        weights = torch.ones(len(self.is_trusted)) if weights is None else weights
        return float(weights[~self.is_trusted].double().sum() / weights.double().sum())


def noise_of_unchecked(noise: Noise, checked: Checked) -> Noise:
    """Return the noise of the unchecked labels, by the checked ones that were drawn at random.

    If ``r`` is the rate of ``n`` labels before review, and ``w`` wrong ones were corrected, then
    ``(rn - w) / u`` of the ``u`` unchecked ones are wrong. Less than ten drawn labels do not count.
    """
    audited = (checked.is_trusted & (checked.stands_for > 0)).nonzero().squeeze(1)
    unchecked = int((~checked.is_trusted).sum())
    if not isinstance(noise, EstimatedNoise) or len(audited) < FEWEST_TRUSTED or not unchecked:
        return noise
    found = noise.out_of_fold
    assert found is not None
    trusted = Trusted(audited, found.labels[audited], checked.stands_for[audited])
    of_given = estimate_noise(found.probabilities, checked.given, trusted=trusted)
    wrong = int((checked.given != found.labels)[checked.is_trusted].sum())

    def remaining(rate: float) -> float:
        return min(1.0, max(0.0, (rate * len(found.labels) - wrong) / unchecked))

    low, high = of_given.interval
    rate, estimate = remaining(of_given.noise_rate), noise.estimate
    words = (
        f"{of_given.words} Before review, {of_given.noise_rate:.1%} of the labels were wrong; "
        f"{wrong} of them are corrected."
    )
    estimate = replace(
        estimate,
        noise_rate=rate,
        interval=(remaining(low), remaining(high)),
        transition=with_rate(estimate.transition, estimate.class_prior, rate),
        words=words,
        condition=of_given.condition,
    )
    return replace(noise, estimate=estimate, of_majority=None)
