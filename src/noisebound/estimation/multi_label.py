"""Multi-label data: the rates at which labels are missed and added, and the suspects.

Each label of an example is present (1), absent (0) or not given (-1), so that each label is a
problem with two classes. Annotators forget labels far more often than they invent them, and the
predicted probability of a label that is often missed may never exceed one half. So predictions are
calibrated *through* the noise: from the rates follow the probabilities of the true label under
which the observed labels are likeliest. From these follow the rates again.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from numpy.typing import NDArray
from torch import Tensor

from noisebound.checks import (
    ArrayLike,
    as_array,
    as_float64,
    as_tensor,
    check_label_probabilities,
    check_label_transitions,
    check_targets,
    frames_to_caller,
)
from noisebound.errors import InvalidValueError
from noisebound.estimation.estimate import (
    Diagnostics,
    NoiseEstimate,
    class_intervals,
    estimate_noise,
)
from noisebound.estimation.floor import random_sample
from noisebound.estimation.names import EstimationMethod
from noisebound.estimation.noise import UnknownNoiseWarning
from noisebound.estimation.predictions import FEWEST_JUDGED, Labels, Matrix, Probs, Values
from noisebound.estimation.suspects import Suspects, suspects_of
from noisebound.estimation.transitions import (
    SUREST,
    rate_of,
    shrunk_to_mean,
    surest_of_each_class,
)
from noisebound.estimation.trusted import labels_to_check

_ROUNDS = 2  # of calibration; by `benchmarks/multi_label.py` on digits, a third changes nothing
_LEAST = 1e-4  # distance of a probability from zero and one
_SLOPES = (0.05, 20.0)  # of the calibrated logits; certain predictions have no limit
_SUMS_TO_ONE = 1e-4
_ORDER = 1e-3  # share of the observed probability
_LEAST_SCALE = 0.1  # of probabilities of the true label to observed ones; heuristic
_MOST_LISTED = 5


@dataclass(frozen=True, eq=False, kw_only=True)
class MultiLabelEstimate(NoiseEstimate):
    """The estimated noise of multi-label data.

    The attributes of `NoiseEstimate` describe all labels of all examples, as the two classes absent
    (0) and present (1).

    Args:
        by_label: the estimate of each label, with the same two classes
        missed_intervals: for each label, the 95 % interval of the rate at which it is missed
        added_intervals: the same for the rate at which it is added
    """

    by_label: tuple[NoiseEstimate, ...]
    missed_intervals: Float64[Tensor, "labels 2"]
    added_intervals: Float64[Tensor, "labels 2"]

    @property
    def missed(self) -> Float64[Tensor, " labels"]:
        """For each label, the probability that it was left out where it belongs."""
        return self.transitions[:, 0, 1]

    @property
    def added(self) -> Float64[Tensor, " labels"]:
        """For each label, the probability that it was given where it does not belong."""
        return self.transitions[:, 1, 0]

    @property
    def prevalence(self) -> Float64[Tensor, " labels"]:
        """For each label, the share of examples to which it truly belongs."""
        return torch.stack([each.class_prior[1] for each in self.by_label])

    @property
    def transitions(self) -> Float64[Tensor, "labels 2 2"]:
        """``T[noisy, true]`` of each label."""
        return torch.stack([each.transition for each in self.by_label])

    @property
    def summary(self) -> str:
        """The mean rates, with the condition of the interval."""
        missed, added = self.transition[0, 1].item(), self.transition[1, 0].item()
        return (
            f"{missed:.1%} of the true labels are missing and {added:.1%} of the others were added:"
            f" of all, {super().summary} are wrong"
        )


@dataclass(frozen=True, eq=False)
class MultiLabelSuspects:
    """The log-odds that each label of each example is wrong, and the observed labels.

    A label that was not given has log-odds of -∞ and is not ranked.
    """

    score: Float64[Tensor, "n labels"]
    labels: Int64[Tensor, "n labels"]

    @property
    def probability(self) -> Float64[Tensor, "n labels"]:
        """The probability that the label is wrong."""
        return self.score.sigmoid()

    @property
    def ranking(self) -> Int64[Tensor, "pairs 2"]:
        """The pairs (example, label), the most suspect first."""
        order = self.score.flatten().argsort(descending=True, stable=True)
        order = order[self.labels.flatten()[order] >= 0]
        return torch.stack([order // self.labels.shape[1], order % self.labels.shape[1]], dim=1)

    @property
    def is_missing(self) -> Bool[Tensor, "n labels"]:
        """True where an absent label probably belongs to the example."""
        return (self.score > 0) & (self.labels == 0)

    @property
    def is_added(self) -> Bool[Tensor, "n labels"]:
        """True where a label that was given is probably wrong."""
        return (self.score > 0) & (self.labels == 1)

    @property
    def summary(self) -> str:
        missing, added = int(self.is_missing.sum()), int(self.is_added.sum())
        return (
            f"{missing + added:,} of {int((self.labels >= 0).sum()):,} labels are probably wrong: "
            f"{missing:,} are missing and {added:,} were added"
        )


def are_multi_label(probs: ArrayLike, labels: ArrayLike) -> bool:
    """True for 0/1 labels (-1 if not given) of the shape of ``probs`` that are no distributions."""
    given, predicted = as_array(labels), as_array(probs)
    if given.ndim != 2 or given.shape != predicted.shape or given.dtype.kind not in "biuf":
        return False
    sum_to_one = np.abs(predicted.sum(1) - 1) <= _SUMS_TO_ONE
    return not sum_to_one.all() and bool(np.isin(given, (-1, 0, 1)).all())


def estimate_label_noise(
    probs: ArrayLike, labels: ArrayLike, method: EstimationMethod = "agreement"
) -> MultiLabelEstimate:
    """Return the noise of multi-label data; see `estimate_noise`."""
    rounds = _ROUNDS if method == "agreement" else 0  # the others take noisy probabilities
    return _estimate(list(_each_label(*_check(probs, labels))), method, rounds)


def find_label_suspects(
    probs: ArrayLike, labels: ArrayLike, transition: ArrayLike | None, corrected: bool
) -> MultiLabelSuspects:
    """Return the suspects of multi-label data; see `find_suspects`."""
    predicted, observed = _check(probs, labels)
    columns = list(_each_label(predicted, observed))
    unknown: list[int] = []
    if transition is None:
        estimate = _estimate(columns, "agreement", 0 if corrected else _ROUNDS)
        matrices = estimate.transitions
        unknown = [k for k, each in enumerate(estimate.by_label) if each.diagnostics.rejection]
    else:
        matrices = check_label_transitions(transition, len(columns)).cpu()
    score = torch.full(observed.shape, -torch.inf, dtype=torch.float64)
    for k, (p, y) in enumerate(columns):
        if corrected:
            suspects = suspects_of(_two_classes(p), y, matrices[k])
        else:
            suspects = suspects_of_label(p, y, matrices[k])
        highest = suspects.score.max().clamp(min=0) if k in unknown else 0.0
        # The ranking of an unknown label may still help, but none can be called wrong.
        score[observed[:, k] >= 0, k] = suspects.score - highest
    if unknown:
        warnings.warn(
            f"no suspects of the labels {_listed(unknown)}: their predictions have nothing to do "
            "with the labels; train the model for more epochs, or on other features",
            UnknownNoiseWarning,
            stacklevel=frames_to_caller(),
        )
    return MultiLabelSuspects(score, observed)


def estimate_one_label(predicted: Values, labels: Labels) -> NoiseEstimate:
    """Return the noise of a single label, of which examples are present and absent."""
    return _of_label(predicted, labels, "agreement", _ROUNDS).estimate


def suspects_of_label(predicted: Values, labels: Labels, transition: Matrix) -> Suspects:
    """Return the suspects of a single label, by predictions of the observed label."""
    return suspects_of(_two_classes(_through(predicted, labels, transition)), labels, transition)


def of_true_label(
    present: NDArray[np.float32], transition: Matrix, share: float
) -> NDArray[np.float32]:
    """Return the probability that a label belongs to each example.

    Annotators miss labels, so a model of their labels predicts too few. ``present`` is the mean
    prediction of several models, of which this ``share`` learned the labels as they are.
    """
    missed, added = float(transition[0, 1]), float(transition[1, 0])
    scale = max(_LEAST_SCALE, 1 - share * (missed + added))
    true: NDArray[np.float32] = np.clip((present - share * added) / scale, 0, 1)
    return true + _ORDER * (present - true)  # the order of those that are cut off stays


def _estimate(
    columns: Sequence[tuple[Tensor, Tensor]], method: EstimationMethod, rounds: int
) -> MultiLabelEstimate:
    """Return the noise of all labels, with less sampling error in the rates of rare labels.

    Empirical Bayes shrinks the rates of missed labels to their mean, as far as chance explains
    their differences, and those of added labels to theirs.
    """
    found = [_of_label(p, y, method, rounds) for p, y in columns]
    rates = torch.stack([1 - each.estimate.transition.diagonal() for each in found])
    if rounds:
        judged = torch.stack([each.judged for each in found])
        mean = (rates * judged).sum(0) / judged.sum(0)
        shrunk = [shrunk_to_mean(rates[:, k], judged[:, k]) for k in (0, 1)]
        # A label that the predictions say nothing about has the mean rates.
        shares = torch.where(judged > 0, torch.stack(shrunk, dim=1), mean)
        rates = torch.where(shares.isnan(), rates, shares)
    intervals = torch.stack([each.intervals for each in found])
    intervals[..., 0] = intervals[..., 0].minimum(rates)
    intervals[..., 1] = intervals[..., 1].maximum(rates)
    by_label = tuple(
        _with_rates(each.estimate, y, *pair)
        for each, (_, y), pair in zip(found, columns, rates, strict=True)
    )
    weights = as_float64([each.diagnostics.examples for each in by_label])
    count = int(weights.sum())
    matrices = torch.stack([each.transition * each.class_prior for each in by_label])
    joint = torch.einsum("k,kij->ij", weights / count, matrices)
    prior, rate = joint.sum(0), float(joint[0, 1] + joint[1, 0])
    low, high = (weights / count @ as_float64([each.interval for each in by_label])).tolist()
    condition = by_label[0].condition
    return MultiLabelEstimate(
        noise_rate=rate,
        # No example may have any label; a class of none shows no rate.
        transition=torch.where(prior > 0, joint / prior, torch.eye(2).double()),
        class_prior=prior,
        interval=(low, high),
        diagnostics=_diagnosis(by_label, method, count),
        words=(
            "Each label is compared with its predictions, which are first calibrated so that they "
            f"explain the labels through the noise. The intervals are valid {condition}."
        ),
        labels_to_check=labels_to_check(rate, count),
        condition=condition,
        by_label=by_label,
        missed_intervals=intervals[:, 1],
        added_intervals=intervals[:, 0],
    )


class _LabelNoise(NamedTuple):
    estimate: NoiseEstimate
    intervals: Float64[Tensor, "2 2"]  # of the rates of added and of missed labels
    judged: Float64[Tensor, " 2"]  # the number of examples that these rates come from


def _of_label(
    predicted: Values, labels: Labels, method: EstimationMethod, rounds: int
) -> _LabelNoise:
    """Return the noise of one label, by two classes."""
    true = _two_classes(_as_often_as(labels, predicted) if rounds else predicted)
    estimate = estimate_noise(true, labels, method)
    for _ in range(rounds):
        true = _two_classes(_through(predicted, labels, estimate.transition))
        estimate = estimate_noise(true, labels, method)
    sureness, classes = true.max(1)
    judged = classes[surest_of_each_class(sureness, classes, 2, SUREST)].bincount(minlength=2)
    if estimate.diagnostics.rejection is not None:
        judged = torch.zeros(2)  # these rates say nothing about the others
    return _LabelNoise(estimate, class_intervals(true, labels), judged.double())


def _with_rates(
    estimate: NoiseEstimate, labels: Labels, added: Tensor, missed: Tensor
) -> NoiseEstimate:
    """Return the estimate of a label with other rates, and the prior that follows from them."""
    matrix = torch.stack([1 - added, missed, added, 1 - missed]).view(2, 2)
    share = labels.double().mean()
    present = ((share - added) / (1 - missed - added).clamp(min=_LEAST)).clamp(0, 1)
    prior = torch.stack([1 - present, present])
    rate, (low, high) = rate_of(matrix, prior), estimate.interval
    interval = min(low, rate), max(high, rate)
    return replace(
        estimate, noise_rate=rate, transition=matrix, class_prior=prior, interval=interval
    )


def _as_often_as(labels: Labels, predicted: Values) -> Values:
    """Return probabilities of which as many exceed one half as labels are present."""
    logits = _logits(predicted)
    ranked = logits.sort(descending=True).values
    count = int(labels.sum())
    return (logits - (ranked[count - 1] + ranked[count]) / 2).sigmoid()


def _through(predicted: Values, labels: Labels, transition: Matrix) -> Values:
    """Return the probabilities ``σ(α z + β)`` that explain the labels best through the noise.

    ``z`` are the predicted logits. Without noise, this is Platt's calibration.
    """
    from scipy.optimize import minimize  # takes longer to import than all of noisebound

    added, kept = transition[1, 0].item(), transition[1, 1].item()
    logits, sample = _logits(predicted), random_sample(len(labels))
    z, y = logits[sample].numpy(), labels[sample].numpy()

    def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        true = 1 / (1 + np.exp(-(weights[0] * z + weights[1])))
        seen = np.clip(added + (kept - added) * true, _LEAST, 1 - _LEAST)
        slope = (seen - y) / (seen * (1 - seen)) * (kept - added) * true * (1 - true)
        value = -np.log(np.where(y == 1, seen, 1 - seen)).mean()
        return value, np.array([(slope * z).mean(), slope.mean()])

    found = minimize(loss, (1.0, 0.0), jac=True, method="L-BFGS-B", bounds=(_SLOPES, (None, None)))
    slope, intercept = found.x
    return (slope * logits + intercept).sigmoid()


def _logits(probs: Values) -> Values:
    return probs.clamp(_LEAST, 1 - _LEAST).logit()


def _two_classes(true: Values) -> Probs:
    """Return the probabilities of the classes absent and present."""
    return torch.stack([1 - true, true], dim=1)


def _each_label(
    predicted: Float64[Tensor, "n labels"], observed: Int64[Tensor, "n labels"]
) -> Iterator[tuple[Values, Labels]]:
    """Return predictions and labels of the examples where the label was given, label by label."""
    for p, y in zip(predicted.T, observed.T, strict=True):
        yield p[y >= 0], y[y >= 0]


def _diagnosis(found: Sequence[NoiseEstimate], method: str, count: int) -> Diagnostics:
    warnings: dict[str, list[int]] = {}
    for k, each in enumerate(found):
        for warning in each.diagnostics.warnings:
            warnings.setdefault(warning, []).append(k)
    lines = tuple(f"labels {_listed(those)}: {words}" for words, those in warnings.items())
    rejected = all(each.diagnostics.rejection is not None for each in found)
    return Diagnostics(method, count, lines, lines[0] if rejected else None)


def _listed(numbers: Sequence[int]) -> str:
    more = len(numbers) - _MOST_LISTED
    return ", ".join(map(str, numbers[:_MOST_LISTED])) + (f" and {more} more" if more > 0 else "")


def _check(
    probs: ArrayLike, labels: ArrayLike
) -> tuple[Float64[Tensor, "n labels"], Int64[Tensor, "n labels"]]:
    """Return predictions and labels on the CPU; refuse those that are not multi-label data."""
    predicted = check_label_probabilities(probs).detach().cpu()
    given = as_tensor(labels).detach().cpu()
    if given.shape != predicted.shape:
        raise InvalidValueError(
            "multi-label `probs` and `labels` must have the same shape [examples, labels], got "
            f"{tuple(predicted.shape)} and {tuple(given.shape)}"
        )
    observed = check_targets(given).long()
    present, absent = ((observed == value).sum(0) for value in (1, 0))
    constant = ((present == 0) | (absent == 0)).nonzero().flatten().tolist()
    if constant:
        always = "never" if present[constant[0]] == 0 else "always"
        raise InvalidValueError(
            f"label {constant[0]} is {always} present, so that its noise cannot be estimated: "
            "leave out its column"
        )
    fewest = int((present + absent).min())
    if fewest < FEWEST_JUDGED:
        raise InvalidValueError(
            f"each label must be given for at least {FEWEST_JUDGED} examples, got {fewest}"
        )
    return predicted, observed
