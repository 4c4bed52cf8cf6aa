"""Transition matrices ``T[noisy, true]``: their estimators, and their inversion.

The estimators take predictions and labels:

- agreement, the default: count the labels of the examples of which the model is surest. There,
  predictions are hardly ever wrong, so a label that differs is wrong. This assumes that noise is as
  frequent among these examples as among the others.
- anchor points: the predictions at an example that certainly belongs to a class are the label
  shares of that class.
- confident learning (Northcutt et al., 2021), computed by cleanlab.
- neighbor consensus (Zhu et al., 2021): an example and its two nearest neighbors mostly have the
  same true class, so they give three labels of one class. How often these agree shows the noise. EM
  finds the likeliest matrix and class prior.
"""

from importlib.util import find_spec

import torch
from jaxtyping import Float, Float64, Int64
from torch import Generator, Tensor

from noisebound.bounds import symmetric_columns
from noisebound.errors import MissingExtraError
from noisebound.estimation.predictions import NUMBERS_AT_ONCE, Labels, Matrix, Probs

SUREST = 0.2  # chosen on the sixteen settings of `results/beyond`; not tried elsewhere
_FEWEST = 20  # per predicted class: the standard error of a share is then at most 0.11
_LEAST = 1e-12
_SURE_PART = 0.3  # of a class of mean size; with ten classes, the usual quantile of 97 %
_MOST_NEIGHBORS = 15_000  # examples; all pairwise distances are computed
_ROWS_AT_ONCE = 1_000
_ROUNDS = 300
_TOLERANCE = 1e-7

# For the probabilities of the true class
_STEPS = 50
_LIKELIHOOD_GAP = 1e-3  # of the log-likelihood of a row
_LONGEST_STEP = 16.0  # rounds of EM that one extrapolated step may replace
_START = 1e-3  # EM multiplies, so zeros would stay and tiny values would grow slowly


def agreement_transition(
    sureness: Float[Tensor, " n"], predicted: Labels, labels: Labels, num_classes: int
) -> Matrix:
    """Return the label shares where the model is surest, with less sampling error.

    The error is reduced by empirical Bayes. A class has a few hundred sure examples, and under
    symmetric noise about ten for each wrong label. The classes' noise rates are shrunk to their
    mean, and the wrong labels of a class to an even spread, as far as chance explains the
    differences. Structured noise makes much larger differences, which remain.
    """
    counts = _counts(sureness, predicted, labels, num_classes, SUREST)
    rates = _shrunk_to_mean(1 - _shares(counts).diagonal(), counts.sum(0))
    return rates * _among_wrong(counts) + torch.diag(1 - rates)


def _counts(
    sureness: Float[Tensor, " n"], predicted: Labels, labels: Labels, num_classes: int, share: float
) -> Float64[Tensor, "observed predicted"]:
    chosen = surest_of_each_class(sureness, predicted, num_classes, share)
    cells = labels[chosen] * num_classes + predicted[chosen]
    return torch.bincount(cells, minlength=num_classes**2).view(num_classes, num_classes).double()


def surest_of_each_class(
    sureness: Float[Tensor, " n"], predicted: Labels, num_classes: int, share: float
) -> Int64[Tensor, " m"]:
    """Return the positions of the surest examples of each predicted class, at least a few."""
    order = sureness.argsort(descending=True, stable=True)
    order = order[predicted[order].argsort(stable=True)]  # class after class, the surest first
    counts = predicted.bincount(minlength=num_classes)
    wanted = torch.maximum((share * counts).round().long(), counts.clamp(max=_FEWEST))
    starts = counts.cumsum(0) - counts
    place = torch.arange(len(order)) - starts[predicted[order]]
    return order[place < wanted[predicted[order]]]


def _shares(counts: Float64[Tensor, "observed predicted"]) -> Matrix:
    totals = counts.sum(0)
    # For a class that is never predicted, assume no noise.
    unknown = torch.eye(len(counts), dtype=torch.float64)
    return torch.where(totals > 0, counts / totals.clamp(min=1), unknown)


def _shrunk_to_mean(
    rates: Float64[Tensor, " classes"], totals: Float64[Tensor, " classes"]
) -> Float64[Tensor, " classes"]:
    """Shrink the rates to their mean; the variance is from DerSimonian and Laird (1986)."""
    known = totals > 0
    mean = (rates * totals).sum() / totals.sum()
    precision = totals[known] / (mean * (1 - mean)).clamp(min=_LEAST)
    excess = (precision * (rates[known] - mean) ** 2).sum() - (known.sum() - 1)
    scale = precision.sum() - (precision**2).sum() / precision.sum()
    between = (excess / scale.clamp(min=_LEAST)).clamp(min=0)
    kept = between / (between + 1 / precision)
    drawn = rates.clone()
    drawn[known] = mean + kept * (rates[known] - mean)
    return drawn


def _among_wrong(counts: Float64[Tensor, "observed predicted"]) -> Matrix:
    """Return the distribution of each class's wrong labels, shrunk to an even one (James-Stein)."""
    num_classes = len(counts)
    even = 1 / (num_classes - 1)
    wrong = counts.clone().fill_diagonal_(0)
    totals = wrong.sum(0)
    shares = wrong / totals.clamp(min=1)
    is_wrong = ~torch.eye(num_classes, dtype=torch.bool)
    # Pearson's statistic; by chance alone it is about its degrees of freedom.
    statistic = torch.where(is_wrong, (shares - even) ** 2, 0.0).sum(0) * totals / even
    chance = (num_classes - 2) / statistic.clamp(min=_LEAST)
    chance = torch.where(totals > 0, chance.clamp(max=1), 1.0)
    return torch.where(is_wrong, chance * even + (1 - chance) * shares, 0.0)


def anchor_transition(probs: Probs) -> Matrix:
    """Return the matrix whose column ``k`` is the prediction at a sure example of class ``k``.

    The surest example may be an outlier, so the one at a high quantile is used (Liu and Tao, 2016;
    Patrini et al., 2017).
    """
    quantile = 1 - _SURE_PART / probs.shape[1]
    anchors = probs.argsort(0)[round(quantile * (len(probs) - 1))]
    return probs[anchors].T.clone()


def dual_transition(probs: Probs, labels: Labels) -> Matrix:
    """Return the matrix by Dual-T (Yao et al., 2020).

    It is a product of two matrices: from the true class to the predicted one, by anchor points, and
    from there to the observed label, by counting. It is meant for predictions on training labels
    that a network has memorized. With out-of-fold predictions, both factors contain the noise.
    """
    sureness, predicted = probs.max(1)
    counts = _counts(sureness, predicted, labels, probs.shape[1], share=1.0)
    transition = _shares(counts) @ anchor_transition(probs)
    return transition / transition.sum(0)


def confident_transition(probs: Probs, labels: Labels) -> Matrix:
    """Return the matrix by confident learning."""
    require_cleanlab()
    from cleanlab.count import compute_confident_joint, estimate_latent

    joint = compute_confident_joint(labels.numpy(), probs.numpy())
    _, noise_matrix, _ = estimate_latent(joint, labels.numpy())
    matrix = torch.as_tensor(noise_matrix, dtype=torch.float64)
    # A class without labels has a column of zeros; assume no noise.
    return torch.where(matrix.sum(0) > 0, matrix, torch.eye(len(matrix), dtype=torch.float64))


def require_cleanlab() -> None:
    """Raise an error if cleanlab is not installed."""
    if find_spec("cleanlab") is None:
        raise MissingExtraError("confident learning", "cleanlab", "cleanlab")


def neighbor_triples(features: Float[Tensor, "n dim"], labels: Labels) -> Int64[Tensor, "m three"]:
    """Return the labels of up to 15,000 examples and of their two nearest neighbors."""
    if len(labels) > _MOST_NEIGHBORS:
        chosen = torch.randperm(len(labels), generator=Generator().manual_seed(0))[:_MOST_NEIGHBORS]
        features, labels = features[chosen], labels[chosen]
    nearest = []
    for start in range(0, len(features), _ROWS_AT_ONCE):
        rows = features[start : start + _ROWS_AT_ONCE]
        distances = torch.cdist(rows, features)
        centers = torch.arange(start, start + len(rows))
        distances[torch.arange(len(rows)), centers] = torch.inf
        nearest.append(
            torch.cat([centers[:, None], distances.topk(2, largest=False).indices], dim=1)
        )
    return labels[torch.cat(nearest)]


def transition_of_triples(triples: Int64[Tensor, "m three"], num_classes: int) -> Matrix:
    """Return the matrix with the highest likelihood of the triples, by EM."""
    distinct, counts = torch.unique(triples, dim=0, return_counts=True)
    weights = counts.double() / counts.sum()
    # This start keeps the order of the classes: each is observed as itself most often.
    transition = torch.full((num_classes, num_classes), 0.4 / (num_classes - 1)).double()
    transition.fill_diagonal_(0.6)
    prior = torch.full((num_classes,), 1 / num_classes, dtype=torch.float64)
    before = -torch.inf
    for _ in range(_ROUNDS):
        joint = transition[distinct].prod(1) * prior  # [triple, true class]
        totals = joint.sum(1, keepdim=True).clamp(min=1e-300)
        likelihood = (weights @ totals.log()).item()
        if likelihood - before < _TOLERANCE:
            break
        before = likelihood
        responsibility = weights[:, None] * joint / totals
        prior = responsibility.sum(0)
        expected = torch.full((num_classes, num_classes), 1e-12, dtype=torch.float64)
        for labels in distinct.T:
            expected.index_add_(0, labels, responsibility)
        transition = expected / expected.sum(0)
    return transition


def with_rate(transition: Matrix, prior: Float64[Tensor, " classes"], rate: float) -> Matrix:
    """Return the matrix scaled to this rate, or less, so that the true class stays likeliest."""
    identity = torch.eye(len(transition), dtype=transition.dtype)
    before = float((prior * (1 - transition.diagonal())).sum())
    if before <= 0:  # the structure is unknown
        transition, before = symmetric_columns(torch.tensor(0.5).to(identity), len(identity)), 0.5
    wrong = (transition - identity) * (rate / before)
    off_diagonal = wrong.clone().fill_diagonal_(0).max(0).values
    # (1 - a·missing) ≥ a·greatest keeps the true class likeliest.
    most = 1 / (off_diagonal - wrong.diagonal()).clamp(min=1)
    return identity + wrong * most


def true_class_probabilities(noisy_probs: Float[Tensor, "n classes"], transition: Matrix) -> Probs:
    """Return ``q`` with ``T q ≈ p``: ``T⁻¹ p``, or if that is negative, the likeliest by EM."""
    inverse: Tensor = torch.linalg.pinv(transition)
    found = torch.empty(noisy_probs.shape, dtype=torch.float64)
    rows = max(1, NUMBERS_AT_ONCE // noisy_probs.shape[1])
    for part, into in zip(torch.split(noisy_probs, rows), torch.split(found, rows), strict=True):
        into.copy_(_likeliest_causes(part.double(), transition, inverse))
    return found


def _likeliest_causes(noisy_probs: Probs, transition: Matrix, inverse: Matrix) -> Probs:
    """Return true-class probabilities; each row is updated until it converges.

    EM multiplies each probability by a ``gain``. The log-likelihood of a row is at most
    ``max(gain) - 1`` below its maximum, so the row has converged once that is small.
    """
    exact = noisy_probs @ inverse.mT
    is_distribution = exact.amin(1, keepdim=True) >= 0
    probs = torch.where(is_distribution, exact, exact.clamp(min=_START))
    probs /= probs.sum(1, keepdim=True)
    moving = torch.arange(len(probs))
    now, observed = probs, noisy_probs
    for _ in range(_STEPS):
        gain = _gain(now, observed, transition)
        unsettled = gain.amax(1) > 1 + _LIKELIHOOD_GAP
        probs[moving[~unsettled]] = now[~unsettled]
        moving, observed = moving[unsettled], observed[unsettled]
        if not len(moving):
            return probs
        now = _stretched(now[unsettled], gain[unsettled], observed, transition)
    probs[moving] = now
    return probs


def _gain(probs: Tensor, noisy_probs: Tensor, transition: Tensor) -> Tensor:
    """Return the factors by which one round of EM multiplies the probabilities."""
    return (noisy_probs / (probs @ transition.mT).clamp_(min=_LEAST)) @ transition


def _stretched(probs: Tensor, gain: Tensor, noisy_probs: Tensor, transition: Tensor) -> Tensor:
    """Return the probabilities after two rounds of EM, extrapolated in the logarithms (SQUAREM).

    EM needs thousands of rounds to approach an edge of the simplex; SQUAREM (Varadhan and Roland,
    2008) extrapolates. Where that does not raise a row's likelihood, EM's two rounds are kept.
    """
    once = probs * gain
    second_gain = _gain(once, noisy_probs, transition)
    twice = once * second_gain
    step = gain.clamp(min=_LEAST).log()
    bend = second_gain.clamp(min=_LEAST).log() - step
    length = (once * step**2).sum(1, keepdim=True) / (once * bend**2).sum(1, keepdim=True)
    length = length.sqrt().clamp(1.0, _LONGEST_STEP)
    # With a length of one, this is EM's second round.
    log_further = 2 * (length - 1) * step + (length**2 - 1) * bend
    further = (twice.clamp(min=_LEAST).log() + log_further).softmax(1)

    def log_likelihood(q: Tensor) -> Tensor:
        expected = (q @ transition.mT).clamp_(min=_LEAST)
        return (noisy_probs * expected.log_()).sum(1, keepdim=True)

    return torch.where(log_likelihood(further) > log_likelihood(twice), further, twice)
