r"""Noise that is estimated from out-of-fold predictions.

If a person has checked some labels, the noise of the others remains. Let ``r`` be the noise rate of
``n`` labels before review, by the checked labels that were drawn at random. If ``w`` wrong labels
were corrected, the share ``(rn - w) / u`` of the ``u`` unchecked labels is wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from noisebound.bounds import noise_bound, transition_bound
from noisebound.errors import MisuseError
from noisebound.estimation.estimate import NoiseEstimate, estimate_noise
from noisebound.estimation.floor import Floor, measured_floor
from noisebound.estimation.names import EstimationMethod
from noisebound.estimation.noise import BoundChoice, Noise, UnknownNoise
from noisebound.estimation.predictions import Matrix, OutOfFold, Probs, of_label
from noisebound.estimation.transitions import true_class_probabilities, with_rate
from noisebound.estimation.trusted import FEWEST_TRUSTED, Trusted, labels_to_check
from noisebound.losses import CrossEntropy, Loss

_LOW = 0.1  # upper end of an interval that even an underfit model supports; heuristic

UNDERFIT = (
    "the networks that estimate the noise were still learning when their epochs ended, so their "
    "mistakes would pass for noise: train for more `epochs` or with a higher `learning_rate`, or "
    "give `noise_rate`"
)


@dataclass(frozen=True, eq=False)
class EstimatedNoise(Noise):
    """Noise that is estimated from out-of-fold predictions.

    Args:
        estimate: the rate, the matrix and their quality
        cross_entropy_floor: the least out-of-fold cross-entropy
        out_of_fold: the predictions, or the mean of several; None if they were not kept
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
        """Estimate the noise of the labels that nobody has checked.

        ``others`` are predictions for the same examples by models that were trained on other folds.
        The first are the default estimator's second predictions; suspects are those of the mean.
        """
        judged, second = out_of_fold.unchecked, None
        if others and method == "agreement":
            trusted = out_of_fold.is_trusted
            second = replace(others[0], is_trusted=trusted).unchecked.probabilities
        estimate = estimate_noise(judged.probabilities, judged.labels, method, second_probs=second)
        mean = out_of_fold.averaged_with(others)
        floor = measured_floor(CrossEntropy(), mean.unchecked.logits, judged.labels)
        return cls(estimate, floor, mean)

    @cached_property
    def calibrated(self) -> Probs:
        """The out-of-fold probabilities of the observed label, at the best temperature."""
        if self.out_of_fold is None:
            raise MisuseError("the out-of-fold predictions of this estimate were not kept")
        return (self.out_of_fold.logits.double() / self.cross_entropy_floor.temperature).softmax(1)

    @cached_property
    def true_probabilities(self) -> Probs:
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
        """Whether confident learning calls the label wrong (Northcutt et al., 2021).

        A class is confidently predicted if its probability is at least its mean among the examples
        with its label. A label is doubted if the likeliest confidently predicted class is another.
        """
        assert self.out_of_fold is not None
        probs, labels = self.calibrated, self.out_of_fold.labels
        totals = torch.zeros(probs.shape[1], dtype=probs.dtype)
        totals.index_add_(0, labels, of_label(probs, labels))
        thresholds = totals / labels.bincount(minlength=probs.shape[1]).clamp(min=1)
        confident = torch.where((probs >= thresholds) & (thresholds > 0), probs, -1.0)
        surest, predicted = confident.max(1)
        doubted = (surest >= 0) & (predicted != labels)
        trusted = self.out_of_fold.is_trusted
        return doubted if trusted is None else doubted & ~trusted

    @property
    def rate(self) -> float:
        """The estimated rate."""
        return self.estimate.noise_rate

    @property
    def assumed_rate(self) -> float:
        """The estimated rate, but at most the rate at which labels carry no information."""
        num_classes = len(self.transition)
        return min(self.rate, (num_classes - 1) / num_classes)

    @property
    def transition(self) -> Matrix:
        """The estimated matrix."""
        return self.estimate.transition

    def prior_given(self, label_shares: Float64[Tensor, " classes"]) -> Float64[Tensor, " classes"]:
        """Return the estimated class prior."""
        return self.estimate.class_prior

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the noise rate."""
        return self.estimate.interval

    @property
    def warnings(self) -> tuple[str, ...]:
        """The problems with the estimate."""
        return self.estimate.diagnostics.warnings

    @property
    def unknown_because(self) -> str | None:
        """The problem that makes the estimate useless."""
        return self.estimate.diagnostics.rejection

    def floor(self, loss: Loss) -> Floor | None:
        """Return the least out-of-fold loss; None if predictions do not determine the loss."""
        observed = loss.on_observed_labels()
        if observed is None or self.out_of_fold is None:
            return None
        judged = self.out_of_fold.unchecked
        return measured_floor(observed, judged.logits, judged.labels)

    def bound(self, loss: Loss) -> BoundChoice:
        """Return the lower of the derived floor of the estimated noise and the measured floor.

        The derived floor ignores similar classes and assumes the worst noise of this rate. The
        measured floor has neither problem, but errors of the models raise it above the entropy.
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
            level = transition_bound(loss, matrix, self.estimate.class_prior)
            reason = "the entropy of the transition matrix that the loss corrects"
            return BoundChoice(level, "estimated transition", reason)
        level = float(noise_bound(loss, self.assumed_rate, len(self.transition)))
        reason = f"the noise-bound of the estimated noise rate {self.assumed_rate:.3f}"
        return BoundChoice(level, "estimated noise rate", reason)


def estimated_noise(out_of_fold: OutOfFold, method: EstimationMethod = "agreement") -> Noise:
    """Return the noise by out-of-fold predictions; unknown if they are unrelated to the labels.

    If the models are underfit, their errors would pass for noise. Only if there are few is the
    noise known to be low, and the upper end of the interval is known.
    """
    noise = EstimatedNoise.of(out_of_fold, method)
    if not out_of_fold.is_underfit:
        rejection = noise.unknown_because
        if rejection is not None:
            return UnknownNoise(out_of_fold.num_classes, rejection, noise.estimate)
        return noise
    most = noise.estimate.interval[1]
    if most > _LOW:
        return UnknownNoise(out_of_fold.num_classes, UNDERFIT, noise.estimate)
    words = f"Few labels are wrong, at most {most:.1%}. {noise.estimate.words}"
    return replace(noise, estimate=replace(noise.estimate, interval=(0.0, most), words=words))


def among_labels(noise: Noise, num_labels: int) -> Noise:
    """Return the noise with `labels_to_check` for all labels, if it was estimated from a part."""

    def among(estimate: NoiseEstimate) -> NoiseEstimate:
        count = labels_to_check(estimate.noise_rate, num_labels)
        return replace(estimate, labels_to_check=count)

    if isinstance(noise, EstimatedNoise):
        return replace(noise, estimate=among(noise.estimate))
    if isinstance(noise, UnknownNoise) and noise.rejected is not None:
        return replace(noise, rejected=among(noise.rejected))
    return noise


@dataclass(frozen=True, eq=False)
class Checked:
    """Labels that a person has checked, by position among the training examples.

    Args:
        is_trusted: whether the label is known to be right, after corrections
        given: the labels before corrections
        stands_for: the number of examples that a label represents, if it was drawn at random to be
            checked; else 0
    """

    is_trusted: Bool[Tensor, " n"]
    given: Int64[Tensor, " n"]
    stands_for: Float64[Tensor, " n"]

    def subset(self, kept: Int64[Tensor, " m"] | Bool[Tensor, " n"]) -> "Checked":
        """Return the same for a part of the examples."""
        return Checked(self.is_trusted[kept], self.given[kept], self.stands_for[kept])

    def untrusted_share(self, weights: Tensor | None) -> float:
        """Return the share of the weight on unchecked labels; by default, all weights are 1."""
        if weights is None:
            weights = torch.ones(len(self.is_trusted))
        weights = weights.double()
        return float(weights[~self.is_trusted].sum() / weights.sum())


def noise_of_unchecked(noise: Noise, checked: Checked) -> Noise:
    """Return the noise of the unchecked labels, by the checked ones that were drawn at random.

    With fewer than ten such labels, the estimate from predictions is returned unchanged.
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
    return replace(noise, estimate=estimate)
