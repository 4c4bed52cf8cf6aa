"""One door to all estimators: predictions and labels in, the noise and its uncertainty out."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from noisebound.checks import ArrayLike, as_float64, check_within
from noisebound.errors import InvalidTypeError, InvalidValueError
from noisebound.estimation.agreement import SUREST, agreement_transition
from noisebound.estimation.anchor_points import anchor_transition, dual_transition
from noisebound.estimation.confident_learning import confident_transition
from noisebound.estimation.labels import check_labels, check_predictions
from noisebound.estimation.neighbors import neighbor_triples, transition_of_triples
from noisebound.estimation.noise_estimate import Diagnostics, NoiseEstimate

EstimationMethod: TypeAlias = Literal["agreement", "anchor", "dual-t", "confident", "neighbors"]
ESTIMATION_METHODS: tuple[EstimationMethod, ...] = get_args(EstimationMethod)

_GROUPS = 20  # of the jackknife: enough for a t-distribution close to normal
_OTHER_SHARES = (SUREST / 2, 2 * SUREST)
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
    features: ArrayLike | None = None,
    confidence: float = 0.95,
) -> NoiseEstimate:
    """Return how noisy labels are, by predictions of a model that was trained on such labels.

    - ``"agreement"``, the default: how often labels agree with sure predictions
    - ``"anchor"``: predictions at examples that are surely of a class
    - ``"dual-t"``: Dual-T, for predictions on the training examples themselves
    - ``"confident"``: confident learning, by cleanlab
    - ``"neighbors"``: whether the labels of nearest neighbors agree

    Args:
        probs: out-of-fold probabilities of the *noisy* label, one row per example (as
            cross-validation gives them)
        labels: observed class indices
        method: see above
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
    sample = _sample(method, predictions, observed, features)
    transition = sample.transition(torch.arange(sample.size))
    prior = _predicted_shares(predictions)
    rate = _rate(transition, prior)
    doubt = _doubt(method, predictions, observed, prior)
    return NoiseEstimate(
        noise_rate=rate,
        transition=transition,
        class_prior=prior,
        interval=_interval(rate, prior, sample, level, doubt),
        diagnostics=_diagnose(method, rate, predictions, observed),
    )


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
            points = probs.sqrt() if features is None else as_float64(features).flatten(1)
            if len(points) != n:
                raise InvalidValueError(
                    f"`features` must have one row per example, {n}; got {len(points)}"
                )
            triples = neighbor_triples(points, labels)
            size = len(triples)
            return _Sample(
                size, size, lambda rows: transition_of_triples(triples[rows], num_classes)
            )


def _predicted_shares(probs: Float[Tensor, "n classes"]) -> Float64[Tensor, " classes"]:
    counts = probs.argmax(1).bincount(minlength=probs.shape[1]).double()
    return counts / counts.sum()


def _rate(transition: Float64[Tensor, "classes classes"], prior: Tensor) -> float:
    return float((prior * (1 - transition.diagonal())).sum())


def _interval(
    rate: float, prior: Tensor, sample: _Sample, level: float, doubt: float
) -> tuple[float, float]:
    """Return the interval: chance by a jackknife over groups, and the doubt in the method."""
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
    return max(0.0, rate - doubt - reach), min(1.0, rate + doubt + max(reach, unseen))


def _doubt(method: str, probs: Tensor, labels: Tensor, prior: Tensor) -> float:
    """Return how much agreement depends on what "sure" means; 0 for the other methods."""
    if method != "agreement":
        return 0.0
    sureness, predicted = probs.max(1)
    central, *others = (
        _rate(agreement_transition(sureness, predicted, labels, probs.shape[1], share), prior)
        for share in (SUREST, *_OTHER_SHARES)
    )
    return max(abs(other - central) for other in others)


def _diagnose(method: str, rate: float, probs: Tensor, labels: Tensor) -> Diagnostics:
    num_classes = probs.shape[1]
    predicted = probs.argmax(1)
    agreement = (predicted == labels).double().mean().item()
    commonest = labels.bincount(minlength=num_classes).max().item() / len(labels)
    warnings = []
    # Guessing the commonest label would reach this, and chance adds to it.
    if agreement <= commonest + 3 * math.sqrt(commonest * (1 - commonest) / len(labels)):
        warnings.append(
            f"the predictions agree with {agreement:.1%} of the labels, hardly more than guessing "
            f"({commonest:.1%}): the model has learned nothing that could tell noise from truth"
        )
    if rate >= _NEAR_CHANCE * (num_classes - 1) / num_classes:
        warnings.append(
            f"a noise rate of {rate:.2f} is close to that of labels that say nothing "
            f"({(num_classes - 1) / num_classes:.2f}): it may be anything above"
        )
    rejection = warnings[0] if warnings else None
    missing = num_classes - len(torch.unique(predicted))
    if missing:
        warnings.append(f"{missing} of {num_classes} classes are never predicted")
    return Diagnostics(method, len(labels), agreement, tuple(warnings), rejection)
