"""Normalized losses, and their sums with losses that also lower the other classes."""

from typing import TypeVar, Unpack

import torch

from noisebound.checks import check_number
from noisebound.errors import InvalidTypeError
from noisebound.losses.loss import (
    AtLabels,
    ClassScores,
    Distributions,
    Entropies,
    LikelihoodLoss,
    Loss,
    LossOptions,
    Pick,
)
from noisebound.losses.proper import CrossEntropy
from noisebound.losses.robust import MeanAbsoluteError, mean_absolute_error


class Normalized(Loss):
    """A loss divided by its sum over all classes, ``L(q, y) / Σ_k L(q, k)`` (Ma et al., 2020).

    ``Normalized(CrossEntropy())`` is NCE and ``Normalized(Focal(0.5))`` is NFL. Whatever the
    prediction, the losses of the classes sum to one, so the expected loss is a mean of the label's
    probabilities, and at least the smallest of them. If the loss grows without limit as ``q_y``
    goes to zero, ``min_k p_k`` is a limit that no prediction reaches.

    Args:
        loss: a function of ``q_y`` alone; only its formula is used, not its options.

    Example:
        >>> import noisebound as nb, torch
        >>> nb.Normalized(nb.CrossEntropy())(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.2500)
    """

    def __init__(self, loss: LikelihoodLoss, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.loss = _check_kind("loss", loss, LikelihoodLoss)

    def formula(self, log_q: ClassScores, at: Pick) -> AtLabels:
        """Return ``L(q, y) / Σ_k L(q, k)``."""
        losses = self.loss.of_surprisal(-log_q)
        return at(losses) / losses.sum(1, keepdim=True)

    def entropy(self, p: Distributions) -> Entropies:
        """Return ``min_k p_k`` for a loss without an upper limit; else search the Bayes risk."""
        return p.amin(1) if self.has_no_upper_limit else super().entropy(p)

    @property
    def has_no_upper_limit(self) -> bool:
        """True if the loss that is normalized goes to infinity as ``q_y`` goes to zero."""
        return bool(self.loss.of_surprisal(torch.tensor(torch.inf)).isinf())


class ActivePassive(Loss):
    """The sum ``alpha · active + beta · passive`` of two losses (Ma et al., 2020).

    The *active* loss, a normalized one, raises the probability of the label. The *passive* one also
    lowers those of the other classes, and so keeps the sum from learning too slowly. Ma et al. take
    MAE and RCE as passive losses, Zhou et al. (2021) the asymmetric losses.

    The entropy is ``alpha min_k p_k + beta H(p)``, with the passive loss's entropy H, if the
    passive loss is least where some least likely class has probability zero. Otherwise it is
    searched.

    Args:
        active: a normalized loss.
        passive: a function of ``q_y`` alone, such as MAE. Only the formulas of both losses are
            used, not their options.
        alpha: weight of the active loss, at least zero.
        beta: weight of the passive loss, at least zero.

    Example:
        >>> import noisebound as nb
        >>> loss = nb.ActivePassive(nb.Normalized(nb.CrossEntropy()), nb.ReverseCrossEntropy(A=4))
        >>> round(nb.noise_bound(loss, noise_rate=0.45, num_classes=10), 6)  # 0.05 + 4 · 0.45
        1.85
    """

    hyperparameters = ("alpha", "beta")

    def __init__(
        self,
        active: Normalized,
        passive: LikelihoodLoss,
        alpha: float = 1.0,
        beta: float = 1.0,
        **options: Unpack[LossOptions],
    ) -> None:
        super().__init__(**options)
        self.active = _check_kind("active", active, Normalized)
        self.passive = _check_kind("passive", passive, LikelihoodLoss)
        self.alpha = check_number("alpha", alpha, "[0, ∞)")
        self.beta = check_number("beta", beta, "[0, ∞)")

    def formula(self, log_q: ClassScores, at: Pick) -> AtLabels:
        """Return ``alpha · active + beta · passive``."""
        active, passive = self.active.formula(log_q, at), self.passive.formula(log_q, at)
        return self.alpha * active + self.beta * passive

    def entropy(self, p: Distributions) -> Entropies:
        """Return ``alpha min_k p_k + beta H(p)`` where both can be reached; else search."""
        best = self.passive.best_prediction(p)
        if best is None or not self.active.has_no_upper_limit:
            return super().entropy(p)
        floors = self.alpha * p.amin(1) + self.beta * self.passive.entropy(p)
        is_least_likely = p == p.amin(1, keepdim=True)
        # The active loss is the same for all predictions if all classes are equally likely.
        is_reached = (is_least_likely & (best == 0)).any(1) | is_least_likely.all(1)
        if not bool(is_reached.all()):
            floors[~is_reached] = super().entropy(p[~is_reached])
        return floors


class NormalizedCrossEntropyMAE(ActivePassive):
    """``alpha · log q_y / Σ_k log q_k + beta · (1 - q_y)`` (Ma et al., 2020).

    No noise model makes it a proper loss. Its Bayes risk ``alpha min_k p_k + beta (1 - max_k p_k)``
    is a limit that no prediction reaches: the likeliest class gets all of the probability, and that
    of the least likely class vanishes fastest.

    Args:
        alpha: weight of the normalized cross-entropy, at least zero.
        beta: weight of MAE, at least zero.

    Example:
        >>> import noisebound as nb, torch
        >>> nb.NormalizedCrossEntropyMAE()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(1.)
    """

    def __init__(
        self, alpha: float = 1.0, beta: float = 1.0, **options: Unpack[LossOptions]
    ) -> None:
        nce, mae = Normalized(CrossEntropy()), MeanAbsoluteError()
        super().__init__(nce, mae, alpha, beta, **options)

    def formula(self, log_q: ClassScores, at: Pick) -> AtLabels:
        """Return ``alpha log q_y / Σ_k log q_k + beta (1 - q_y)``."""
        normalized = at(log_q) / log_q.sum(1, keepdim=True)
        return self.alpha * normalized + self.beta * mean_absolute_error(-at(log_q))


_Kind = TypeVar("_Kind", bound=Loss)


def _check_kind(name: str, loss: _Kind, kind: type[_Kind]) -> _Kind:
    if not isinstance(loss, kind):
        raise InvalidTypeError(
            f"`{name}` must be a {kind.__name__}, such as "
            f"{'Normalized(CrossEntropy())' if kind is Normalized else 'CrossEntropy()'}, "
            f"got {loss!r}"
        )
    return loss
