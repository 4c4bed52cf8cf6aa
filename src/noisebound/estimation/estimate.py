"""One door to all estimators: predictions and labels in, the noise and its uncertainty out."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from noisebound.checks import ArrayLike, as_float64, check_within
from noisebound.errors import InvalidTypeError, InvalidValueError
from noisebound.estimation.agreement import SUREST, agreement_transition
from noisebound.estimation.anchor_points import anchor_transition, dual_transition
from noisebound.estimation.confident_learning import confident_transition
from noisebound.estimation.identification import identify, with_rate
from noisebound.estimation.labels import check_labels, check_predictions
from noisebound.estimation.names import ESTIMATION_METHODS, EstimationMethod
from noisebound.estimation.neighbors import neighbor_triples, transition_of_triples
from noisebound.estimation.noise_estimate import Diagnostics, NoiseEstimate
from noisebound.estimation.trusted import (
    AuditedRate,
    Trusted,
    audited_rate,
    check_trusted,
    labels_to_check,
)

_GROUPS = 20  # of the jackknife: enough for a t-distribution close to normal
_PRECISION = 0.03  # half the width of the interval that `labels_to_check` is for
_BELIEVED = 10.0  # checked labels per class that a model's matrix counts as: a choice
_ASSUMPTIONS = {
    "anchor": "It assumes that some examples are surely of each class. The interval is of chance.",
    "dual-t": "It assumes that a model's labels and the observed ones err independently. The "
    "interval is of chance.",
    "confident": "It assumes that the model errs alike on all classes. The interval is of chance.",
    "neighbors": "It assumes that neighbors are of one class. The interval is of chance.",
}
_NEAR_CHANCE = 0.95  # of the rate at which labels say nothing


@dataclass(frozen=True, eq=False)
class _Sample:
    """What a transition matrix is estimated from, so that parts of it can be left out.

    Args:
        size: the number of units
        looked_at: how many of them the estimate rests on
        transition: returns the estimate from the units at these positions
    """

    size: int
    looked_at: float
    transition: Callable[[Int64[Tensor, " m"]], Float64[Tensor, "classes classes"]]


def estimate_noise(
    probs: ArrayLike,
    labels: ArrayLike,
    method: EstimationMethod = "agreement",
    *,
    second_probs: ArrayLike | None = None,
    trusted: tuple[ArrayLike, ArrayLike] | Trusted | None = None,
    features: ArrayLike | None = None,
    confidence: float = 0.95,
) -> NoiseEstimate:
    """Return how noisy labels are, by predictions of a model that was trained on such labels.

    How often labels differ from the best possible prediction can be measured. How many labels are
    *wrong* cannot be had from labels alone: people err where it is hard, and a hard example that is
    labeled rightly looks the same. So the interval of ``"agreement"`` has two ends, with chance
    added, and `NoiseEstimate.words` says what the estimate in between assumes. A
    hundred labels that a person has checked settle the matter: pass them as ``trusted``.

    - ``"agreement"``, the default: how often labels agree with predictions, sure ones above all
    - ``"anchor"``: predictions at examples that are surely of a class
    - ``"dual-t"``: Dual-T, for predictions on the training examples themselves
    - ``"confident"``: confident learning, by cleanlab
    - ``"neighbors"``: whether the labels of nearest neighbors agree

    Args:
        probs: out-of-fold probabilities of the *noisy* label, one row per example (as
            cross-validation gives them)
        labels: observed class indices
        method: see above
        second_probs: out-of-fold probabilities by models that were trained on other examples, such
            as a second cross-validation with other folds; where both differ, they do not know, and
            their mean is what labels are compared with
        trusted: ``(positions, true_labels)`` of examples that were drawn at random and whose labels
            a person has checked: they make the rate unbiased, whatever the noise. A `Trusted`
            where some were likelier to be drawn than others
        features: for ``"neighbors"``, in which similar examples are near each other; without them
            the predictions are taken
        confidence: the probability with which the interval is to hold the noise rate

    Example:
        >>> from noisebound import corrupt
        >>> g = torch.Generator().manual_seed(0)
        >>> true = torch.arange(10).repeat(200)
        >>> noisy = corrupt(true, "symmetric", 0.3, 10, generator=g, exact=True)
        >>> probs = noisy.transition[:, true].T  # a model that knows as much as can be known
        >>> estimate = estimate_noise(probs, noisy.labels)
        >>> abs(estimate.noise_rate - 0.3) < 0.03, estimate.is_reliable
        (True, True)
    """
    predictions = check_predictions(probs)
    observed = check_labels(labels, predictions, "probs")
    level = check_within("confidence", confidence, 0.0, 1.0, open_at_low=True)
    in_doubt = None
    if second_probs is not None:
        second = _check_second(second_probs, predictions, method)
        in_doubt = predictions.argmax(1) != second.argmax(1)
        predictions = (predictions + second) / 2
    sample = _sample(method, predictions, observed, features)
    transition = sample.transition(torch.arange(sample.size))
    prior = _predicted_shares(predictions)
    if method == "agreement":
        found = identify(predictions, observed, _rate(transition, prior), in_doubt)
        rate, interval, words = found.point, found.interval(level), found.words
        transition = with_rate(transition, prior, rate)
    else:
        rate = _rate(transition, prior)
        interval, words = _interval(rate, prior, sample, level), _ASSUMPTIONS[method]
    spread = math.sqrt(rate * (1 - rate))
    if trusted is not None:
        checked = check_trusted(trusted, observed, predictions.shape[1])
        audited = _audit(checked, predictions, observed, level)
        rate, interval, spread = audited.rate, audited.interval, audited.spread
        words = f"By {audited.checked} labels that a person has checked, drawn at random."
        transition = _with_trusted(transition, checked, observed)
    return NoiseEstimate(
        noise_rate=rate,
        transition=transition,
        class_prior=prior,
        interval=interval,
        diagnostics=_diagnose(method, rate, predictions, observed, is_audited=trusted is not None),
        words=words,
        labels_to_check=labels_to_check(spread, _PRECISION, len(observed)),
    )


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


def _audit(
    checked: Trusted, probs: Float[Tensor, "n classes"], labels: Int64[Tensor, " n"], level: float
) -> AuditedRate:
    """Return the rate by checked labels, sharpened by how little the model expects each label."""
    suspicion = checked.suspicion
    if suspicion is None:
        suspicion = 1 - probs.gather(1, labels[:, None]).squeeze(1).double()
    at = checked.positions
    is_wrong = labels[at] != checked.true_labels
    return audited_rate(is_wrong, suspicion[at], suspicion, level, checked.weights)


def _with_trusted(
    transition: Float64[Tensor, "classes classes"], checked: Trusted, labels: Int64[Tensor, " n"]
) -> Float64[Tensor, "classes classes"]:
    """Return the matrix of the checked labels, with the model's as if it were some more of them."""
    num_classes = len(transition)
    cells = labels[checked.positions] * num_classes + checked.true_labels
    weights = checked.weights
    parts = None if weights is None else weights * (len(weights) / weights.sum())
    counts = torch.bincount(cells, parts, minlength=num_classes**2).view(num_classes, num_classes)
    believed = counts.double() + _BELIEVED * transition
    return believed / believed.sum(0)


def _sample(method: str, probs: Tensor, labels: Tensor, features: ArrayLike | None) -> _Sample:
    if method not in ESTIMATION_METHODS:
        raise InvalidValueError(
            f"method must be one of {', '.join(ESTIMATION_METHODS)}, got {method!r}"
        )
    if features is not None and method != "neighbors":
        raise InvalidTypeError(f"features do not apply to {method!r}: leave them out")
    n, num_classes = probs.shape
    if method == "agreement":  # keeps two numbers per example, however many classes there are
        sureness, predicted = probs.max(1)
        return _Sample(
            n,
            SUREST * n,
            lambda rows: agreement_transition(
                sureness[rows], predicted[rows], labels[rows], num_classes
            ),
        )
    probs = probs.double()
    match method:
        case "anchor":
            return _Sample(n, n, lambda rows: anchor_transition(probs[rows]))
        case "dual-t":
            return _Sample(n, n, lambda rows: dual_transition(probs[rows], labels[rows]))
        case "confident":
            return _Sample(n, n, lambda rows: confident_transition(probs[rows], labels[rows]))
        case _:
            points = probs.sqrt() if features is None else _check_features(features)
            if len(points) != n:
                raise InvalidValueError(
                    f"`features` must have one row per example, {n}; got {len(points)}"
                )
            triples = neighbor_triples(points, labels)
            size = len(triples)
            return _Sample(
                size, size, lambda rows: transition_of_triples(triples[rows], num_classes)
            )


def _check_features(features: ArrayLike) -> Float64[Tensor, "n dimensions"]:
    given = as_float64(features)
    if given.ndim < 2 or not given.isfinite().all():
        raise InvalidValueError(
            "`features` must have a row of finite numbers per example; got shape "
            f"{tuple(given.shape)}{'' if given.isfinite().all() else ' with NaN or infinity'}"
        )
    return given.flatten(1)


def _predicted_shares(probs: Float[Tensor, "n classes"]) -> Float64[Tensor, " classes"]:
    counts = probs.argmax(1).bincount(minlength=probs.shape[1]).double()
    return counts / counts.sum()


def _rate(transition: Float64[Tensor, "classes classes"], prior: Tensor) -> float:
    return float((prior * (1 - transition.diagonal())).sum())


def _interval(rate: float, prior: Tensor, sample: _Sample, level: float) -> tuple[float, float]:
    """Return the interval of chance alone, by a jackknife over groups."""
    from scipy.special import stdtrit  # takes longer to import than all of noisebound

    group = torch.randperm(sample.size, generator=torch.Generator().manual_seed(0)) % _GROUPS
    without = torch.tensor(
        [
            _rate(sample.transition((group != left_out).nonzero().squeeze(1)), prior)
            for left_out in range(_GROUPS)
        ],
        dtype=torch.float64,
    )
    error = math.sqrt((_GROUPS - 1) / _GROUPS * float(((without - without.mean()) ** 2).sum()))
    reach = float(stdtrit(_GROUPS - 1, (1 + level) / 2)) * error
    # Where no wrong label was seen there may be some: about one in as many as were looked at.
    unseen = -math.log1p(-level) / sample.looked_at if level < 1 else math.inf
    return max(0.0, rate - reach), min(1.0, rate + max(reach, unseen))


def _diagnose(
    method: str, rate: float, probs: Tensor, labels: Tensor, *, is_audited: bool
) -> Diagnostics:
    """Return what speaks against an estimate; a rate by checked labels asks nothing of a model."""
    num_classes = probs.shape[1]
    predicted = probs.argmax(1)
    agreement = (predicted == labels).double().mean().item()
    commonest = labels.bincount(minlength=num_classes).max().item() / len(labels)
    warnings = []
    # Guessing the commonest label would reach this, and chance adds to it.
    guessing = commonest + 3 * math.sqrt(commonest * (1 - commonest) / len(labels))
    if agreement <= guessing and not is_audited:
        warnings.append(
            f"the predictions agree with {agreement:.1%} of the labels, hardly more than guessing "
            f"({commonest:.1%}): the model has learned nothing that could tell noise from truth"
        )
    if rate >= _NEAR_CHANCE * (num_classes - 1) / num_classes and not is_audited:
        warnings.append(
            f"a noise rate of {rate:.2f} is close to that of labels that say nothing "
            f"({(num_classes - 1) / num_classes:.2f}): it may be anything above"
        )
    rejection = warnings[0] if warnings else None
    missing = num_classes - len(torch.unique(predicted))
    if missing:
        warnings.append(f"{missing} of {num_classes} classes are never predicted")
    return Diagnostics(method, len(labels), agreement, tuple(warnings), rejection)
