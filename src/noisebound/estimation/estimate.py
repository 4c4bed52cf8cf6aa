"""Estimate the noise from predictions and labels: the rate, its interval and the matrix.

A label differs from the prediction because one of them is wrong. So the share of labels that differ
is the upper end of the rate. Where a model is surest it is hardly ever wrong, so the share that
differs there, less the share in which two models disagree, is the lower end.

If noise is independent of difficulty, the rate among the surest examples is right. If noise grows
with difficulty, the rate among all examples is closer. When two similar models disagree, each is
wrong in about half of the cases, so half of that share is subtracted from both rates. The point
estimate is midway between them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from noisebound.checks import ArrayLike
from noisebound.errors import InvalidTypeError, InvalidValueError
from noisebound.estimation.annotators import (
    UNLESS_SHARED,
    AnnotatorEstimate,
    estimate_annotators,
)
from noisebound.estimation.names import ESTIMATION_METHODS, EstimationMethod
from noisebound.estimation.predictions import (
    Labels,
    Mask,
    Matrix,
    PerClass,
    Probs,
    are_informative,
    check_labels,
    check_predictions,
    of_label,
)
from noisebound.estimation.sequences import are_sequences, join
from noisebound.estimation.transitions import (
    SUREST,
    agreement_transition,
    anchor_transition,
    confident_transition,
    rate_of,
    surest_of_each_class,
    with_rate,
)
from noisebound.estimation.trusted import (
    REACH,
    UPPER,
    Trusted,
    audited_rate,
    check_trusted,
    labels_to_check,
)

_GROUPS = 20  # of the jackknife, enough for a t-distribution that is close to normal
_PRIOR_LABELS = 10.0  # weight of the model's matrix, in checked labels per class; heuristic
_NEAR_CHANCE = 0.95  # share of the rate at which labels carry no information

UNPREDICTABLE = "if mistakes cannot be predicted from the inputs"
_CONDITIONS = {
    "agreement": UNPREDICTABLE,
    "anchor": "if some examples of each class are certain",
    "confident": "if the model errs equally often on all classes",
}


@dataclass(frozen=True)
class Diagnostics:
    """The quality of an estimate.

    Args:
        method: the name of the estimator
        examples: the number of examples
        warnings: the problems with the estimate, one sentence each
        rejection: the problem that makes the estimate useless
    """

    method: str
    examples: int
    warnings: tuple[str, ...] = ()
    rejection: str | None = None


@dataclass(frozen=True, eq=False)
class NoiseEstimate:
    """The estimated label noise of a data set.

    Args:
        noise_rate: the probability that a label is wrong
        transition: ``T[noisy, true]``, columns summing to one
        class_prior: the share of each true class
        interval: the 95 % interval of the noise rate
        diagnostics: the quality of the estimate
        words: the evidence and the assumptions behind the estimate
        labels_to_check: the number of labels to check by hand to know the noise rate to ±3 points
        condition: the condition under which the interval is valid, in a few words
        annotators: the noise of each annotator and the consensus, given several labels per example
    """

    noise_rate: float
    transition: Matrix
    class_prior: PerClass
    interval: tuple[float, float]
    diagnostics: Diagnostics
    words: str = ""
    labels_to_check: int = 0
    condition: str = UNPREDICTABLE
    annotators: AnnotatorEstimate | None = None

    @property
    def is_reliable(self) -> bool:
        return not self.diagnostics.warnings

    @property
    def summary(self) -> str:
        """The rate and its interval, with the condition of the interval."""
        low, high = (f"{end:.1%}" for end in self.interval)
        return f"{self.noise_rate:.1%} ({low} to {high} with 95% confidence, {self.condition})"


def estimate_noise(
    probs: ArrayLike | None,
    labels: ArrayLike,
    method: EstimationMethod = "agreement",
    *,
    second_probs: ArrayLike | None = None,
    trusted: tuple[ArrayLike, ArrayLike] | Trusted | None = None,
    annotators: Sequence[str] | None = None,
    multi_label: bool | None = None,
) -> NoiseEstimate:
    """Estimate the noise of labels from the predictions of a model that was trained on such labels.

    Data shows how often labels differ from the best possible prediction, but not how many are
    *wrong*: a hard example with the right label looks like one with a wrong label. So the interval
    has a condition, `NoiseEstimate.condition`, and `NoiseEstimate.words` explains the estimate. A
    hundred checked labels remove the condition: pass them as ``trusted``.

    - ``"agreement"``, the default: agreement of labels with predictions, mainly confident ones
    - ``"anchor"``: predictions at examples that certainly belong to a class
    - ``"confident"``: confident learning, by cleanlab

    Several labels per example make the interval far narrower: pass a matrix, whose missing labels
    are ``-1``. The rate is then that of a label drawn from all labels, and
    `NoiseEstimate.annotators` has the details.

    For labels of tokens, pass one array ``[length, classes]`` and one sequence of labels per
    sentence. Labels of -100 are ignored, and ``trusted`` names tokens as pairs of sentence and
    position.

    Multi-label data has labels 0 and 1 (-1: not given) in the shape of ``probs``, each of which is
    the probability of one label. The result is a `MultiLabelEstimate`, which has the rates at which
    each label is missed and added.

    Args:
        probs: out-of-fold probabilities of the *noisy* label, one row per example; None to compare
            several labels per example without a model
        labels: observed class indices, one per example or ``[examples, annotators]``; or 0/1 labels
            of the shape of ``probs``
        method: the estimator
        second_probs: out-of-fold probabilities by models that were trained on other folds. Labels
            are compared with the mean of both; where the two disagree, predictions may be wrong
        trusted: ``(positions, true_labels)`` of examples that were drawn at random and checked by a
            person. They make the rate unbiased for any noise. Pass a `Trusted` if the examples were
            drawn with unequal probabilities
        annotators: the names of the annotators, one per column of ``labels``. Without names, each
            column has labels by anyone
        multi_label: True for multi-label data; by default, if no other reading is possible: where
            all rows of ``probs`` sum to one, ``labels`` are those of annotators

    Example:
        >>> from noisebound import corrupt
        >>> g = torch.Generator().manual_seed(0)
        >>> true = torch.arange(10).repeat(200)
        >>> noisy = corrupt(true, "symmetric", 0.3, 10, generator=g, exact=True)
        >>> probs = noisy.transition[:, true].T  # the best possible predictions
        >>> estimate = estimate_noise(probs, noisy.labels)
        >>> abs(estimate.noise_rate - 0.3) < 0.03, estimate.is_reliable
        (True, True)
    """
    if probs is None:
        if np.ndim(labels) != 2:
            raise InvalidTypeError(
                "`probs` may be None only if `labels` has several labels per example, as a matrix"
            )
        return _by_annotators(None, labels, method, annotators, trusted)
    if are_sequences(probs):
        tokens = join(probs, labels)
        if second_probs is not None:
            second_probs = join(second_probs, labels, "second_probs").probs
        if isinstance(trusted, tuple) and not isinstance(trusted, Trusted):
            trusted = tokens.positions_of(trusted[0]), trusted[1]
        return estimate_noise(
            tokens.probs,
            tokens.labels,
            method,
            second_probs=second_probs,
            trusted=trusted,
            annotators=annotators,
        )
    # Imported here, as it applies this function to each label.
    from noisebound.estimation.multi_label import are_multi_label, estimate_label_noise

    if are_multi_label(probs, labels) if multi_label is None else multi_label:
        for option in (second_probs, trusted, annotators):
            if option is not None:
                raise InvalidTypeError(
                    "`second_probs`, `trusted` and `annotators` do not apply to multi-label data: "
                    "leave them out"
                )
        return estimate_label_noise(probs, labels, method)
    predictions = check_predictions(probs)
    if method not in ESTIMATION_METHODS:
        names = ", ".join(ESTIMATION_METHODS)
        raise InvalidValueError(f"method must be one of {names}, got {method!r}")
    in_doubt = None
    if second_probs is not None:
        second = _check_second(second_probs, predictions, method)
        in_doubt = predictions.argmax(1) != second.argmax(1)
        predictions = (predictions + second) / 2
    if np.ndim(labels) == 2:
        return _by_annotators(predictions, labels, method, annotators, trusted)
    if annotators is not None:
        raise InvalidTypeError(
            "`annotators` names the columns of `labels`, and these are a vector: leave it out"
        )
    observed = check_labels(labels, predictions, "probs")
    num_classes = predictions.shape[1]
    predicted = predictions.argmax(1)
    prior = predicted.bincount(minlength=num_classes).double() / len(predicted)
    condition = _CONDITIONS[method]
    if method == "agreement":
        transition, rate, interval, words = _by_agreement(predictions, observed, prior, in_doubt)
    else:
        exact = predictions.double()
        estimator = anchor_transition if method == "anchor" else confident_transition
        transition = estimator(exact, observed)
        rate = rate_of(transition, prior)
        interval = _jackknife_interval(estimator, exact, observed, prior, rate)
        words = f"The interval is valid {condition}. It covers sampling error only."
    found = NoiseEstimate(
        noise_rate=rate,
        transition=transition,
        class_prior=prior,
        interval=interval,
        diagnostics=_diagnose(method, rate, predictions, observed, is_audited=trusted is not None),
        words=words,
        labels_to_check=labels_to_check(rate, len(observed)),
        condition=condition,
    )
    return found if trusted is None else _audited(found, predictions, observed, trusted)


def _audited(
    found: NoiseEstimate,
    probs: Float[Tensor, "n classes"],
    labels: Labels,
    trusted: tuple[ArrayLike, ArrayLike] | Trusted,
) -> NoiseEstimate:
    checked = check_trusted(trusted, labels, probs.shape[1])
    at, suspicion = checked.positions, checked.suspicion
    if suspicion is None:
        suspicion = 1 - of_label(probs, labels).double()
    is_wrong = labels[at] != checked.true_labels
    rate, interval = audited_rate(is_wrong, suspicion[at], suspicion, checked.weights)
    return replace(
        found,
        noise_rate=rate,
        transition=_with_trusted(found.transition, checked, labels),
        interval=interval,
        words=f"By {len(at)} labels that a person has checked, drawn at random.",
        labels_to_check=labels_to_check(rate, len(labels)),
        condition=f"by {len(at):,} checked labels",
    )


def _by_annotators(
    probs: Float[Tensor, "n classes"] | None,
    labels: ArrayLike,
    method: EstimationMethod,
    names: Sequence[str] | None,
    trusted: tuple[ArrayLike, ArrayLike] | Trusted | None,
) -> NoiseEstimate:
    if method != "agreement":
        raise InvalidValueError(f"method {method!r} takes one label per example, not a matrix")
    by_annotator = estimate_annotators(labels, probs, names=names)
    found = NoiseEstimate(
        noise_rate=by_annotator.noise_rate,
        transition=by_annotator.transition,
        class_prior=by_annotator.class_prior,
        interval=by_annotator.interval,
        diagnostics=Diagnostics(
            "annotators",
            len(by_annotator.consensus),
            by_annotator.warnings,
            by_annotator.rejection,
        ),
        words=by_annotator.words,
        labels_to_check=labels_to_check(by_annotator.noise_rate, int(by_annotator.counts.sum())),
        condition=UNLESS_SHARED,
        annotators=by_annotator,
    )
    if trusted is None:
        return found
    # One label per example, drawn at random, stands for all of them.
    given = labels.detach().cpu() if isinstance(labels, Tensor) else np.asarray(labels)
    table = torch.as_tensor(given).long()
    draws = torch.rand(table.shape, generator=torch.Generator().manual_seed(0))
    drawn = draws.masked_fill(table < 0, -1.0).argmax(1)
    one = table.gather(1, drawn[:, None]).squeeze(1)
    return _audited(found, by_annotator.consensus, one, trusted)


def _check_second(
    second_probs: ArrayLike, probs: Float[Tensor, "n classes"], method: str
) -> Float[Tensor, "n classes"]:
    if method != "agreement":
        raise InvalidTypeError(f"second_probs do not apply to {method!r}: leave them out")
    second = check_predictions(second_probs, "second_probs")
    if second.shape != probs.shape:
        raise InvalidValueError(
            f"`second_probs` must have the shape of `probs`, {tuple(probs.shape)}; got "
            f"{tuple(second.shape)}"
        )
    return second


def _by_agreement(
    probs: Float[Tensor, "n classes"],
    labels: Labels,
    prior: PerClass,
    in_doubt: Mask | None,
) -> tuple[Matrix, float, tuple[float, float], str]:
    """Return the matrix, the rate, its interval and the evidence in words.

    Examples are in doubt if two models predict different classes for them.
    """
    sureness, predicted = probs.max(1)
    differs = predicted != labels
    surest = _surest(sureness, predicted, probs.shape[1])
    least, high, interval = _limits(differs, surest, in_doubt, _skill(differs, labels))
    transition = agreement_transition(sureness, predicted, labels, probs.shape[1])
    rate = rate_of(transition, prior)
    if in_doubt is not None:
        among_surest = max(0.0, rate - _share(in_doubt[surest[1]])[0] / 2)
        among_all = max(0.0, high - _share(in_doubt)[0] / 2)
        rate = (among_surest + among_all) / 2
    rate = min(max(rate, least), high)
    words = (
        f"Labels differ from predictions in {high:.1%} of the examples. This is the upper limit, "
        "unless mistakes can be predicted from the inputs: predictions then repeat them, and no "
        f"method detects them. At least {least:.1%} are wrong, if predictions are right where they "
        "are surest and agree. The estimate lies between the rate among all examples and the rate "
        "among the surest ones. The latter is closer if labels are wrong as often on easy examples "
        "as on hard ones. Only checked labels can settle it."
    )
    return with_rate(transition, prior, rate), rate, interval, words


def class_intervals(
    probs: Float[Tensor, "n classes"], labels: Labels
) -> Float64[Tensor, "classes 2"]:
    """Return the 95 % interval of each true class's noise rate, by agreement.

    A class that is never predicted has the interval from 0 to 1.
    """
    sureness, predicted = probs.max(1)
    differs = predicted != labels
    surest = _surest(sureness, predicted, probs.shape[1])
    skill = _skill(differs, labels)
    intervals = [
        _limits(differs, [rows[predicted[rows] == k] for rows in surest], None, skill)[2]
        for k in range(probs.shape[1])
    ]
    return torch.tensor(intervals, dtype=torch.float64)


def _surest(sureness: Float[Tensor, " n"], predicted: Labels, num_classes: int) -> list[Tensor]:
    """Return the positions of all examples, and of two shares of the surest of each class."""
    shares = (1.0, SUREST, SUREST / 2)
    return [surest_of_each_class(sureness, predicted, num_classes, share) for share in shares]


def _skill(differs: Mask, labels: Labels) -> float:
    """Return a single model's advantage over predicting the most frequent class."""
    commonest = labels.bincount().max().item() / len(labels)
    return max(0.0, 1 - _share(differs)[0] / max(1 - commonest, 1 / len(labels)))


def _limits(
    differs: Mask, surest: list[Tensor], in_doubt: Mask | None, skill: float
) -> tuple[float, float, tuple[float, float]]:
    """Return the least and the largest rate that predictions allow, and their interval.

    The first of ``surest`` are all examples.
    """
    if not len(surest[0]):
        return 0.0, 1.0, (0.0, 1.0)
    high, high_error = _share(differs[surest[0]])
    lows = []  # lower ends and their standard errors
    for rows in surest:
        seen, error = _share(differs[rows])
        low = skill * seen if in_doubt is None else seen - _share(in_doubt[rows])[0]
        lows.append((min(low, high), error))
    lowest = min(share - REACH * error for share, error in lows)
    interval = max(0.0, lowest), min(1.0, high + REACH * high_error)
    return max(0.0, min(lows)[0]), high, interval


def _share(is_true: Mask) -> tuple[float, float]:
    """Return a share and its standard error, which is positive even for shares of 0 and 1."""
    n, count = len(is_true), int(is_true.sum())
    cautious = (count + 1) / (n + 2)
    return count / n, math.sqrt(cautious * (1 - cautious) / n)


def _with_trusted(transition: Matrix, checked: Trusted, labels: Labels) -> Matrix:
    """Return the matrix of the checked labels, with the model's matrix as a prior."""
    num_classes = len(transition)
    cells = labels[checked.positions] * num_classes + checked.true_labels
    weights = checked.weights
    parts = None if weights is None else weights * (len(weights) / weights.sum())
    counts = torch.bincount(cells, parts, minlength=num_classes**2).view(num_classes, num_classes)
    counted = counts.double() + _PRIOR_LABELS * transition
    return counted / counted.sum(0)


def _jackknife_interval(
    estimator: Callable[[Probs, Labels], Matrix],
    probs: Probs,
    labels: Labels,
    prior: PerClass,
    rate: float,
) -> tuple[float, float]:
    """Return the interval due to sampling error, by a jackknife over groups of examples."""
    from scipy.special import stdtrit  # takes longer to import than all of noisebound

    size = len(labels)
    group = torch.randperm(size, generator=torch.Generator().manual_seed(0)) % _GROUPS
    rates = []
    for left_out in range(_GROUPS):
        rows = group != left_out
        rates.append(rate_of(estimator(probs[rows], labels[rows]), prior))
    without = torch.tensor(rates, dtype=torch.float64)
    error = math.sqrt((_GROUPS - 1) / _GROUPS * float(((without - without.mean()) ** 2).sum()))
    reach = float(stdtrit(_GROUPS - 1, UPPER)) * error
    unseen = math.log(20) / size  # the upper end of 95 % if no wrong label was seen
    return max(0.0, rate - reach), min(1.0, rate + max(reach, unseen))


def _diagnose(
    method: str, rate: float, probs: Tensor, labels: Tensor, *, is_audited: bool
) -> Diagnostics:
    num_classes = probs.shape[1]
    predicted = probs.argmax(1)
    warnings = []
    if not is_audited and not are_informative(probs, labels):
        warnings.append(
            "the predictions have nothing to do with the labels: the model has learned nothing "
            "that could separate wrong labels from right ones"
        )
    chance = (num_classes - 1) / num_classes
    if not is_audited and rate >= _NEAR_CHANCE * chance:
        warnings.append(
            f"a noise rate of {rate:.2f} is close to {chance:.2f}, at which labels carry no "
            "information: the true rate may be higher"
        )
    rejection = warnings[0] if warnings else None
    missing = num_classes - len(torch.unique(predicted))
    if missing:
        warnings.append(f"{missing} of {num_classes} classes are never predicted")
    return Diagnostics(method, len(labels), tuple(warnings), rejection)
