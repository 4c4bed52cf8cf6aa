"""Several labels per example: how noisy they are, who errs, and the consensus.

Agreement shows what one label per example cannot: how many labels are wrong. Two labels that agree
by two independent annotators are both right, or both wrong in the same way, which is rare. People
also share mistakes, and agreement then hides some of the noise. `consensus` models this by a
correlation. Three labels of many examples identify it; with less, the prior decides.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from noisebound.bounds import AnyLoss, transition_bound
from noisebound.checks import ArrayLike, check_count
from noisebound.errors import InvalidTypeError, InvalidValueError
from noisebound.estimation.consensus import (
    Matrices,
    as_votes,
    consensus_of,
    fit_votes,
    matrices,
)
from noisebound.estimation.predictions import (
    CLEAR,
    FEWEST_JUDGED,
    Labels,
    Matrix,
    PerClass,
    Probs,
    check_predictions,
)
from noisebound.estimation.trusted import REACH, clopper_pearson

PerAnnotator = Float64[Tensor, " annotators"]
LabelTable = Int64[Tensor, "n annotators"]

# How much labels of an example correlate because people share mistakes. The mean is what pairs of
# ratings show on the two dev sets of `results/annotators` (0.170 and 0.178); the rest is heuristic.
_USUAL_CORRELATION = 0.17
_CORRELATION_SPREAD = 0.08
_CORRELATIONS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
_TRUSTED_EXAMPLES = 500  # the most that the likelihood counts as, since the model is simple
# Standard error of the rate relative to itself, because the model is simple: at no correlation, and
# its growth with the correlation. The errors on the dev sets are within two of them.
_MISFIT, _MISFIT_GROWTH = 0.05, 0.3
_MOST_COMPARED = 5_000  # examples on which the correlations are compared
_LEAST = 1e-6
_CHUNK = 2**22  # numbers
_FEW_SHARED = 100  # examples with two labels; below, the interval is wide
_FEWEST_EQUAL = 20  # labels of an annotator, all the same, before that is suspicious

UNLESS_SHARED = "if annotators err independently, apart from the usual share of common mistakes"


@dataclass(frozen=True, eq=False)
class AnnotatorEstimate:
    """The noise of labels by several annotators.

    Args:
        names: the annotators; of unknown ones ``"label 1"``, ``"label 2"``, …
        are_named: whether each column is one annotator. Otherwise all columns are alike
        counts: the number of labels of each annotator
        transitions: ``T[annotator, noisy, true]``; columns sum to one
        error_rates: the probability that a label of the annotator is wrong
        intervals: the 95 % interval of each error rate
        agreement: agreement with the other labels beyond chance, 1 at most (Cohen's kappa); NaN if
            the annotator shares no example with others
        pairwise_agreement: the share of common examples on which two annotators agree; NaN if none
        class_prior: the share of each true class
        consensus: the probability of each true class, given all labels and predictions
        noise_rate: the probability that a label drawn from all labels is wrong
        interval: the 95 % interval of the noise rate
        consensus_rate: the probability that a consensus label is wrong
        correlation: of the labels of an example, due to mistakes that annotators share
        words: the evidence and the assumptions behind the estimate
        warnings: the problems with the labels, one sentence each
        rejection: the problem that makes the estimate useless
    """

    names: tuple[str, ...]
    are_named: bool
    counts: Int64[Tensor, " annotators"]
    transitions: Matrices
    error_rates: PerAnnotator
    intervals: Float64[Tensor, "annotators 2"]
    agreement: PerAnnotator
    pairwise_agreement: Float64[Tensor, "annotators annotators"]
    class_prior: PerClass
    consensus: Probs
    noise_rate: float
    interval: tuple[float, float]
    consensus_rate: float
    correlation: float
    words: str
    warnings: tuple[str, ...] = ()
    rejection: str | None = None

    @property
    def consensus_labels(self) -> Labels:
        return self.consensus.argmax(1)

    @property
    def transition(self) -> Matrix:
        return torch.einsum("a,ajk->jk", self.counts.double() / self.counts.sum(), self.transitions)

    @property
    def consensus_transition(self) -> Matrix:
        counts = torch.diag(torch.full((len(self.class_prior),), _LEAST, dtype=torch.float64))
        counts.index_add_(0, self.consensus_labels, self.consensus)
        return counts / counts.sum(0)

    def next_to_label(self, count: int) -> Int64[Tensor, " count"]:
        """Return the positions of the examples that deserve another label first.

        These are the examples whose consensus is expected to gain most from one more label.
        """
        count = check_count("count", count)
        noisy, rows = self.transition, max(1, _CHUNK // len(self.class_prior) ** 2)
        gains = [
            (part[:, None, :] * noisy).amax(2).sum(1) - part.amax(1)
            for part in torch.split(self.consensus, rows)
        ]
        doubt = 1 - self.consensus.amax(1)
        order = (torch.cat(gains) + _LEAST * doubt).argsort(descending=True, stable=True)
        return order[:count]

    def bound(self, loss: AnyLoss, labels: Literal["given", "consensus"] = "given") -> float:
        """Return the floor of the mean loss on the given labels, or on the consensus labels.

        For the given labels it is the mean of ``Σ_k π_k H(T_a[·, k])`` over all labels.
        """
        if labels == "consensus":
            return transition_bound(loss, self.consensus_transition, self.class_prior)
        if not self.are_named:
            return transition_bound(loss, self.transition, self.class_prior)
        shares = self.counts / self.counts.sum()
        floors = [transition_bound(loss, each, self.class_prior) for each in self.transitions]
        return float(shares.double() @ torch.tensor(floors, dtype=torch.float64))


def estimate_annotators(
    labels: ArrayLike, probs: ArrayLike | None = None, *, names: Sequence[str] | None = None
) -> AnnotatorEstimate:
    """Estimate the noise of labels by several annotators, and the consensus.

    A second label of some examples is enough; a few hundred of them determine the noise rate. Draw
    these examples at random, and hide the first label from the second annotator.

    Args:
        labels: one row per example and one column per annotator, ``-1`` if there is no label
        probs: out-of-fold probabilities of the noisy label, by a model
        names: the annotators, one per column. Without names, the columns are the first, the second
            label and so on, each by anyone

    Example:
        >>> g = torch.Generator().manual_seed(0)
        >>> true = torch.arange(3).repeat(500)
        >>> rates = torch.tensor([0.1, 0.1, 0.2, 0.2, 0.4])
        >>> wrong = torch.rand(1500, 5, generator=g) < rates
        >>> labels = (true[:, None] + wrong * torch.randint(1, 3, (1500, 5), generator=g)) % 3
        >>> found = estimate_annotators(labels, names=["Ann", "Ben", "Cy", "Di", "Ed"])
        >>> [round(rate, 1) for rate in found.error_rates.tolist()]
        [0.1, 0.1, 0.2, 0.2, 0.4]
    """
    table, predictions = _check(labels, probs)
    columns = _check_names(names, table.shape[1])
    num_classes = int(table.max()) + 1 if predictions is None else predictions.shape[1]
    log_probs = None if predictions is None else predictions.double().clamp(min=_LEAST).log()
    are_named = names is not None
    evidence = _compare_correlations(table, log_probs, num_classes, are_named=are_named)
    votes = as_votes(table, num_classes, are_named=are_named)
    fitted = fit_votes(votes, log_probs, evidence.correlation)
    rate = fitted.rate(votes.shares)
    consensus = consensus_of(votes, fitted)
    transitions, prior = fitted.transitions, fitted.class_prior
    if not fitted.has_clear_classes:
        transitions, prior = matrices(votes, consensus)[0], consensus.mean(0)
    if not are_named:
        transitions = transitions.expand(len(columns), -1, -1)
    error_rates = 1 - transitions.diagonal(dim1=1, dim2=2) @ prior
    shared = int(((table >= 0).sum(1) >= 2).sum())
    interval = _interval(rate, evidence, shared, num_classes)
    pairwise, agreement, is_by_chance = _agreement(table, num_classes)
    rejection = "labels of the same example agree no more than by chance" if is_by_chance else None
    warnings = _warnings(table, columns, shared, are_named=are_named)
    return AnnotatorEstimate(
        names=columns,
        are_named=are_named,
        counts=(table >= 0).sum(0),
        transitions=transitions,
        error_rates=error_rates,
        intervals=_intervals(error_rates, table, consensus, rate, interval),
        agreement=agreement,
        pairwise_agreement=pairwise,
        class_prior=prior,
        consensus=consensus,
        noise_rate=rate,
        interval=interval,
        consensus_rate=1 - float(consensus.amax(1).mean()),
        correlation=evidence.correlation,
        words=_words(table, evidence.correlation, shared, rate),
        warnings=warnings if rejection is None else (rejection, *warnings),
        rejection=rejection,
    )


def _check(labels: ArrayLike, probs: ArrayLike | None) -> tuple[LabelTable, Tensor | None]:
    """Return the labels as a table and the predictions; refuse what cannot be compared."""
    given: Any = labels.detach().cpu() if isinstance(labels, Tensor) else np.asarray(labels)
    if given.ndim != 2 or given.shape[0] == 0 or given.shape[1] < 2:
        raise InvalidValueError(
            "`labels` must have one row per example and at least two columns of labels, got shape "
            f"{tuple(given.shape)}"
        )
    if not str(given.dtype).removeprefix("torch.").startswith(("int", "uint")):
        raise InvalidTypeError(
            f"`labels` must be whole numbers, -1 where a label is missing; got {given.dtype}"
        )
    table = given.long() if isinstance(given, Tensor) else torch.tensor(given.astype(np.int64))
    predictions = None if probs is None else check_predictions(probs)
    if predictions is not None and (predictions.ndim != 2 or len(predictions) != len(table)):
        raise InvalidValueError(
            f"`probs` must have shape [examples, classes] with one row per example, {len(table)}; "
            f"got {tuple(predictions.shape)}"
        )
    low, high = int(table.min()), int(table.max())
    most = None if predictions is None else predictions.shape[1] - 1
    if low < -1 or (most is not None and high > most):
        raise InvalidValueError(
            f"`labels` must lie in 0 … {'c - 1' if most is None else most}, or be -1 where a label "
            f"is missing; got {low} … {high}"
        )
    if high < 0:
        raise InvalidValueError("all `labels` are -1, so there is no label")
    if high == 0 and predictions is None:
        raise InvalidValueError("all `labels` are 0: at least two classes are needed")
    if int((table >= 0).sum(1).max()) < 2:
        raise InvalidValueError(
            "no example has two `labels`, so annotators cannot be compared: label some examples "
            "again, or pass one label per example as a vector"
        )
    return table, predictions


def _check_names(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"label {place + 1}" for place in range(count))
    given = tuple(names)
    if len(given) != count:
        raise InvalidValueError(f"`names` must be one per column, {count}; got {len(given)}")
    twice = sorted({name for name in given if given.count(name) > 1})
    if twice:
        raise InvalidValueError(
            f"`names` must differ, got {twice[0]!r} twice: give each annotator one column"
        )
    return given


class _Evidence(NamedTuple):
    """The correlation, by the labels and the prior."""

    correlation: float
    rate_error: float  # standard error of the noise rate due to the unknown correlation


def _compare_correlations(
    table: LabelTable, log_probs: Probs | None, num_classes: int, *, are_named: bool
) -> _Evidence:
    """Weigh the correlations by their prior and the likelihood of examples with several labels."""
    rows = ((table >= 0).sum(1) >= 2).nonzero().squeeze(1)
    if len(rows) > _MOST_COMPARED:
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
        rows = rows[order[:_MOST_COMPARED]]
    votes = as_votes(table[rows], num_classes, are_named=are_named)
    some = None if log_probs is None else log_probs[rows]
    # Errors of a model are no evidence: where labels cannot tell, they seem to show independence.
    fits = [fit_votes(votes, None, each) for each in _CORRELATIONS]
    rated = fits if some is None else [fit_votes(votes, some, each) for each in _CORRELATIONS]
    values = torch.tensor(_CORRELATIONS, dtype=torch.float64)
    likelihoods = torch.tensor([each.log_likelihood for each in fits], dtype=torch.float64)
    surprise = ((values - _USUAL_CORRELATION) / _CORRELATION_SPREAD).square() / 2
    surprise[values == 0] = 0.0  # independence is as plausible as the usual correlation; heuristic
    counted = min(1.0, _TRUSTED_EXAMPLES / len(rows))
    weights = (counted * likelihoods - surprise).softmax(0)
    rates = torch.tensor([each.rate(votes.shares) for each in rated], dtype=torch.float64)
    error = (weights @ (rates - weights @ rates).square()).sqrt()
    return _Evidence(float(weights @ values), float(error))


def _interval(
    rate: float, evidence: _Evidence, shared: int, num_classes: int
) -> tuple[float, float]:
    """Return the interval of the rate: sampling, the unknown correlation, and a simple model."""
    alike = (1 - rate) ** 2 + rate**2 / (num_classes - 1)
    disagree = (1 - evidence.correlation) * (1 - alike)
    slope = 2 * (1 - evidence.correlation) * max(0.1, 1 - rate - rate / (num_classes - 1))
    cautious = (disagree * shared + 1) / (shared + 2)
    sampling = math.sqrt(cautious * (1 - cautious) / shared) / slope
    misfit = (_MISFIT + _MISFIT_GROWTH * evidence.correlation) * rate
    reach = REACH * math.hypot(sampling, evidence.rate_error, misfit)
    return max(0.0, rate - reach), min(1.0, rate + reach)


def _intervals(
    rates: PerAnnotator,
    table: LabelTable,
    consensus: Probs,
    rate: float,
    interval: tuple[float, float],
) -> Float64[Tensor, "annotators 2"]:
    """Return an interval per annotator; a label counts as far as the consensus is sure."""
    chance = 1 / consensus.shape[1]
    sureness = (consensus.amax(1) - chance) / (1 - chance)
    known = sureness @ (table >= 0).double()
    pairs = zip(rates.tolist(), known.tolist(), strict=True)
    sampling = [
        clopper_pearson(each * count, count) if count else (0.0, 1.0) for each, count in pairs
    ]
    relative = (torch.tensor(interval) - rate) / max(rate, _LEAST)
    reach = torch.hypot(torch.tensor(sampling).double() - rates[:, None], relative * rates[:, None])
    return (rates[:, None] + reach * torch.tensor([-1.0, 1.0])).clamp(0, 1)


def _agreement(
    table: LabelTable, num_classes: int
) -> tuple[Float64[Tensor, "annotators annotators"], PerAnnotator, bool]:
    """Return how often two annotators agree, how much more than by chance, and if all is chance."""
    given = (table >= 0).double()
    common = (given.T @ given).fill_diagonal_(0)
    agreed, expected = torch.zeros_like(common), torch.zeros_like(common)
    for label in range(num_classes):
        chosen = (table == label).double()
        share = chosen.sum(0) / given.sum(0).clamp(min=1)
        agreed += chosen.T @ chosen
        expected += share[:, None] * share
    agreed.fill_diagonal_(0)
    by_chance = (common * expected).sum(1)
    beyond = (agreed.sum(1) - by_chance) / (common.sum(1) - by_chance)
    beyond[common.sum(1) <= by_chance] = math.nan
    pairs = float(common.sum()) / 2
    chance = float(by_chance.sum()) / 2 / pairs
    excess = float(agreed.sum()) / 2 / pairs - chance
    is_by_chance = excess < CLEAR * math.sqrt(chance * (1 - chance) / pairs)
    return agreed / common, beyond, is_by_chance


def _words(table: LabelTable, correlation: float, shared: int, rate: float) -> str:
    source = "by the labels and by other data"
    if int((table >= 0).sum(1).max()) == 2:
        source = "assumed from other data, because two labels per example cannot show it"
    return (
        f"{rate:.1%} of the labels are wrong, by how often labels agree in the {shared:,} examples "
        "with two or more. This assumes that annotators err independently, except that hard "
        "examples mislead many of them: labels of the same example have a correlation of "
        f"{correlation:.2f}, {source}. If all annotators make the same mistake, only checked "
        "labels can show it."
    )


def _warnings(
    table: LabelTable, names: tuple[str, ...], shared: int, *, are_named: bool
) -> tuple[str, ...]:
    found = []
    who = "annotator " if are_named else ""
    for place, name in enumerate(names):
        labels = table[:, place][table[:, place] >= 0]
        if not len(labels):
            found.append(f"{who}{name} has no labels")
        elif len(labels) >= _FEWEST_EQUAL and bool((labels == labels[0]).all()):
            found.append(f"{who}{name} has the same label for all {len(labels):,} examples")
    if shared < FEWEST_JUDGED:
        found.append(
            f"only {shared} examples have two labels: label some {_FEW_SHARED} more examples twice"
        )
    return tuple(found)
