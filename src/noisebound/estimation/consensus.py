r"""Several labels per example: the likeliest true classes and matrices, by EM.

This is the model of Dawid and Skene (1979) with two additions.

- **Shared mistakes.** Some examples mislead many people. So a label is either the annotator's own,
  drawn from ``T_a[·, k]``, or it repeats an earlier label of the same example (Pólya's urn). The
  labels of an example then have the correlation ``ρ``; with ``ρ = 0`` they are independent.
- **A model's predictions** ``q``. They give each example the prior ``softmax(β log q + b)``. The
  likelihood of the labels chooses ``β`` and ``b``, so predictions count only as far as they predict
  what annotators agree on.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from noisebound.estimation.predictions import Matrix, PerClass, Probs

Matrices = Float64[Tensor, "annotators classes classes"]

_ROUNDS = 100
_TOLERANCE = 1e-5  # of the log-likelihood per label
_POOLED_LABELS = 5.0  # weight of the pooled matrix in an annotator's, in labels per class
_EVEN_LABELS = 5.0  # weight of an even spread in the pooled matrix, in labels per class
_LEAST = 1e-12
_SHARPEST = 8.0  # the greatest β
_SHARPEST_POWER = 64.0
_HALVINGS = 40


class Votes(NamedTuple):
    """All labels in a long table, sorted by their place among the labels of an example."""

    example: Int64[Tensor, " labels"]
    annotator: Int64[Tensor, " labels"]
    label: Int64[Tensor, " labels"]
    earlier: Float64[Tensor, " labels"]  # labels of the example before this one
    repeated: Float64[Tensor, " labels"]  # how many of them are this label
    examples: int
    annotators: int
    classes: int

    @property
    def counts(self) -> Probs:
        counts = torch.zeros(self.examples, self.classes, dtype=torch.float64)
        ones = torch.ones((), dtype=torch.float64)
        return counts.index_put_((self.example, self.label), ones, accumulate=True)

    @property
    def shares(self) -> Float64[Tensor, " annotators"]:
        return self.annotator.bincount(minlength=self.annotators).double() / len(self.label)


@dataclass(frozen=True, eq=False)
class Fitted:
    """The fitted model for a given correlation ``ρ``."""

    correlation: float
    transitions: Matrices
    pooled: Matrix
    consensus: Probs
    class_prior: PerClass
    log_prior: Probs | PerClass
    log_likelihood: float

    @property
    def has_clear_classes(self) -> bool:
        """Whether most annotators recognize each class; EM may use a rare one for hard examples."""
        return torch.equal(self.pooled.argmax(0), torch.arange(len(self.pooled)))

    def rate(self, shares: Float64[Tensor, " annotators"]) -> float:
        """The noise rate, if the true class is the one that most annotators choose."""
        chosen = self.pooled.argmax(0)
        right = self.transitions[:, chosen, torch.arange(len(chosen))]
        return float(shares @ (1 - right) @ self.class_prior)


def as_votes(labels: Int64[Tensor, "n annotators"], num_classes: int, *, are_named: bool) -> Votes:
    """Return the labels as a long table; unknown annotators become one."""
    given = labels >= 0
    example, annotator = given.nonzero(as_tuple=True)
    place = (given.long().cumsum(1) - 1)[example, annotator]
    order = place.argsort(stable=True)
    example, annotator, place = example[order], annotator[order], place[order]
    label = labels[example, annotator]
    sizes = place.bincount().tolist()
    seen = torch.zeros(len(labels), num_classes, dtype=torch.float64)
    repeated = []
    for rows, found in zip(torch.split(example, sizes), torch.split(label, sizes), strict=True):
        repeated.append(seen[rows, found])
        seen[rows, found] += 1
    if not are_named:
        annotator = torch.zeros_like(annotator)
    annotators = labels.shape[1] if are_named else 1
    earlier, repeats = place.double(), torch.cat(repeated)
    return Votes(example, annotator, label, earlier, repeats, len(labels), annotators, num_classes)


def fit_votes(votes: Votes, log_probs: Probs | None, correlation: float) -> Fitted:
    """Return the likeliest matrices, prior and consensus for a correlation, by EM."""
    counts = votes.counts
    counts += 0.1 * counts.sum(0) / counts.sum()
    consensus = counts / counts.sum(1, keepdim=True)
    if log_probs is not None:
        consensus = (consensus + log_probs.exp()) / 2
    own = torch.ones(len(votes.label), votes.classes, dtype=torch.float64)
    prior = _Prior(log_probs, consensus)
    before = -math.inf
    for _ in range(_ROUNDS):
        transitions, pooled = matrices(votes, consensus, own)
        prior.fit(consensus)
        log_likelihoods, own = _log_likelihoods(votes, transitions, correlation)
        joint = log_likelihoods + prior.log
        total = float(joint.logsumexp(1).sum())
        consensus = joint.softmax(1)
        if total - before < _TOLERANCE * len(votes.label):
            break
        before = total
    return Fitted(correlation, transitions, pooled, consensus, consensus.mean(0), prior.log, total)


def consensus_of(votes: Votes, fitted: Fitted) -> Probs:
    """Return the probability of each class to be the one that most annotators would choose.

    It is the probability of the next label, sharpened until labels are wrong at the fitted rate.
    """
    logs = _next_label(votes, fitted).clamp(min=_LEAST).log()
    rate, low, high = fitted.rate(votes.shares), 0.0, _SHARPEST_POWER
    for _ in range(_HALVINGS):
        power = (low + high) / 2
        right = (power * logs).softmax(1)[votes.example, votes.label].mean()
        low, high = (power, high) if 1 - float(right) > rate else (low, power)
    return (low * logs).softmax(1)


def _next_label(votes: Votes, fitted: Fitted) -> Probs:
    """Return the probabilities of one more label of each example.

    The more labels an example has, the less the model's predictions count, because they repeat the
    mistakes that annotators share.
    """
    counts, correlation = votes.counts, fitted.correlation
    own = (1 - correlation) / (1 - correlation + correlation * counts.sum(1, keepdim=True))
    logs, _ = _log_likelihoods(votes, fitted.transitions, correlation)
    prior = own * fitted.log_prior + (1 - own) * fitted.class_prior.clamp(min=_LEAST).log()
    found = (logs + prior).softmax(1)
    if votes.annotators == 1 or not fitted.has_clear_classes:
        found = found @ fitted.pooled.T  # a named annotator may be a spammer, who would blur it
    return own * found + (1 - own) * counts / counts.sum(1, keepdim=True).clamp(min=1)


def matrices(
    votes: Votes, consensus: Probs, own: Float64[Tensor, "labels classes"] | None = None
) -> tuple[Matrices, Matrix]:
    """Return each annotator's matrix and that of all; few labels are shrunk to the latter.

    Only ``own`` labels count, which repeat no earlier one.
    """
    size = votes.classes
    rows = consensus[votes.example] if own is None else consensus[votes.example] * own
    counts = torch.zeros(votes.annotators * size, size, dtype=torch.float64)
    counts.index_add_(0, votes.annotator * size + votes.label, rows)
    counts = counts.view(votes.annotators, size, size)
    total = counts.sum(0)
    right = float(total.diagonal().sum() / total.sum())
    even = torch.full((size, size), (1 - right) / (size - 1), dtype=torch.float64)
    total = total + _EVEN_LABELS * even.fill_diagonal_(right)
    pooled = total / total.sum(0)
    counts = counts + _POOLED_LABELS * pooled
    return counts / counts.sum(1, keepdim=True), pooled


def _log_likelihoods(
    votes: Votes, transitions: Matrices, correlation: float
) -> tuple[Probs, Float64[Tensor, "labels classes"]]:
    """Return the log-likelihood of each example's labels, and the chance that each is its own."""
    mass = 1 - correlation + correlation * votes.earlier
    own = (1 - correlation) * transitions[votes.annotator, votes.label]
    chance = own + (correlation * votes.repeated)[:, None]
    logs = torch.zeros(votes.examples, votes.classes, dtype=torch.float64)
    logs.index_add_(0, votes.example, (chance / mass[:, None]).clamp(min=_LEAST).log())
    return logs, own / chance.clamp(min=_LEAST)


class _Prior:
    """The prior of each example: ``softmax(β log q + b)``, or the same for all."""

    def __init__(self, log_probs: Probs | None, consensus: Probs) -> None:
        self.log_probs = log_probs
        self.trust = 0.0 if log_probs is None else 1.0
        self.offsets = torch.zeros(consensus.shape[1], dtype=torch.float64)
        self.log = self.offsets

    def fit(self, consensus: Probs) -> None:
        shares = consensus.mean(0).clamp(min=_LEAST)
        if self.log_probs is None:
            self.log = shares.log()
            return
        for _ in range(3):
            self.log = (self.trust * self.log_probs + self.offsets).log_softmax(1)
            now = self.log.exp()
            self.offsets = self.offsets + shares.log() - now.mean(0).clamp(min=_LEAST).log()
            mean = (now * self.log_probs).sum(1, keepdim=True)
            slope = float(((consensus - now) * self.log_probs).sum())
            curve = float((now * (self.log_probs - mean).square()).sum())
            self.trust = min(max(self.trust + slope / max(curve, _LEAST), 0.0), _SHARPEST)
        self.log = (self.trust * self.log_probs + self.offsets).log_softmax(1)
