"""Losses that correct the noise: FCE, backward-corrected CE, and label smoothing of either sign."""

import math
from typing import Unpack

import torch
from torch import Tensor
from torch.nn import functional as F

from noisebound.checks import ArrayLike, check_invertible, check_number
from noisebound.errors import InvalidValueError
from noisebound.losses.likelihood import CrossEntropy, shannon_entropy
from noisebound.losses.loss import (
    AtLabels,
    ClassScores,
    Distributions,
    Entropies,
    Labels,
    LikelihoodLoss,
    Loss,
    LossOptions,
    PerExample,
    Pick,
    Surprisal,
)
from noisebound.noise_models import Linear, Symmetric

_ROUNDING = 1e-6  # smaller negative entries of a distribution count as zero; heuristic


class _ForwardCorrection(Loss):
    """Forward corrections share their base loss, CE, and so Shannon's entropy."""

    predicts_true_class = True

    def entropy(self, p: Distributions) -> Entropies:
        return shannon_entropy(p)

    def on_observed_labels(self) -> CrossEntropy:
        return CrossEntropy(
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            weight=self.weight,
            label_smoothing=self.label_smoothing,
        )


class SymmetricForwardCrossEntropy(_ForwardCorrection, LikelihoodLoss):
    """FCE under symmetric noise, ``-log((1-η-r) q_y + r)`` with ``r = η/(c-1)``.

    It is the row "FCE" of the paper, and as fast as cross-entropy. Create it as
    ``ForwardCrossEntropy.symmetric``.

    Args:
        noise_rate: η, the probability that a label changes, in ``[0, 1]``.
        num_classes: c, at least two.

    Example:
        >>> ForwardCrossEntropy.symmetric(noise_rate=0.4, num_classes=10)
        SymmetricForwardCrossEntropy(noise_rate=0.4, num_classes=10)
    """

    noise_model: Symmetric

    def __init__(self, noise_rate: float, num_classes: int, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.noise_model = Symmetric(noise_rate, num_classes)
        self.noise_rate = self.noise_model.noise_rate
        self.require_num_classes(self.noise_model.num_classes)

    def of_surprisal(self, surprisal: Surprisal) -> Surprisal:
        contrast, off_diagonal = self.noise_model.contrast, self.noise_model.off_diagonal
        if off_diagonal == 0:
            return surprisal
        if contrast <= 0:  # the rate is (c-1)/c or more; the sum is still at least 1-η
            return -torch.log(off_diagonal + contrast * torch.exp(-surprisal))
        # -log(k q + r) = logsigmoid(-log q - log(k/r)) - log r is finite however small q is
        log_odds = math.log(contrast / off_diagonal)
        return F.logsigmoid(surprisal - log_odds) - math.log(off_diagonal)


class ForwardCrossEntropy(_ForwardCorrection):
    """Forward-corrected cross-entropy ``-log (T q)_y`` (Patrini et al., 2017).

    The noise model is ``f(q) = T q`` and the base loss is CE, so the entropy is Shannon's.

    It is computed in log space, so that with zeros in ``T`` and extreme logits the loss is finite
    and has a gradient. Class probabilities as labels take memory for ``N C²`` numbers. A label that
    ``T`` rules out for every true class costs about 708, and has no gradient.

    Args:
        transition: ``T[noisy, true]``, columns summing to one.

    Example:
        >>> confident = torch.tensor([[100.0, -100.0]])
        >>> ForwardCrossEntropy([[0.6, 0.4], [0.4, 0.6]])(confident, torch.tensor([0]))
        tensor(0.5108)
    """

    symmetric = SymmetricForwardCrossEntropy
    """The loss for symmetric noise: ``ForwardCrossEntropy.symmetric(noise_rate, num_classes)``."""

    noise_model: Linear
    log_transition: Tensor

    def __init__(self, transition: ArrayLike, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.noise_model = Linear(transition)
        matrix = self.noise_model.transition
        self.require_num_classes(len(matrix))
        # A label that is impossible becomes very unlikely, as 0 · inf would be NaN.
        is_impossible = (matrix == 0).all(1, keepdim=True)
        possible = torch.where(is_impossible, torch.finfo(matrix.dtype).tiny, matrix)
        self.register_buffer("log_transition", possible.log())

    def losses_at_labels(self, logits: ClassScores, labels: Labels) -> PerExample:
        """Return ``-log (T q)_y`` from the rows of ``T`` that the labels name."""
        rows = F.embedding(labels, self.log_transition.to(logits)).movedim(-1, 1)
        return -torch.logsumexp(rows + F.log_softmax(logits, dim=1), dim=1)

    def class_losses(self, log_q: ClassScores) -> ClassScores:
        by_row = log_q.movedim(1, -1).unsqueeze(-2) + self.log_transition.to(log_q)
        return -torch.logsumexp(by_row, dim=-1).movedim(-1, 1)


class BackwardCrossEntropy(Loss):
    """Backward-corrected cross-entropy ``Σ_k T⁻¹[k, y] (-log q_k)`` (Patrini et al., 2017).

    Its mean over the noise is the clean cross-entropy. So its floor is the entropy of the clean
    labels, ``H(p) = Shannon(T⁻¹ p)``, which is 0 for separable data. If no clean posterior gives
    ``p``, then ``T⁻¹ p`` has negative entries and the expected loss has no minimum.

    Args:
        transition: ``T[noisy, true]``, invertible, columns summing to one.

    Example:
        >>> import noisebound as nb
        >>> loss = nb.BackwardCrossEntropy([[0.9, 0.2], [0.1, 0.8]])
        >>> abs(nb.transition_bound(loss, [[0.9, 0.2], [0.1, 0.8]])) < 1e-9
        True
    """

    predicts_true_class = True
    treats_classes_alike = False  # the clean entropy depends on which class is the true one
    refused_options = ("weight", "label_smoothing")  # they would undo the correction
    noise_model: Linear
    inverse_transition: Tensor

    def __init__(self, transition: ArrayLike, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.noise_model = Linear(transition)
        matrix = self.noise_model.transition
        check_invertible(matrix)
        self.require_num_classes(len(matrix))
        self.register_buffer("inverse_transition", torch.linalg.inv(matrix))

    @classmethod
    def symmetric(
        cls, noise_rate: float, num_classes: int, **options: Unpack[LossOptions]
    ) -> "BackwardCrossEntropy":
        """Return the loss for symmetric noise of a rate in ``[0, 1]`` but not ``(c-1)/c``."""
        loss = cls(Symmetric(noise_rate, num_classes).transition, **options)
        loss.treats_classes_alike = True
        return loss

    def losses_at_labels(self, logits: ClassScores, labels: Labels) -> PerExample:
        """Return ``Σ_k T⁻¹[k, y] (-log q_k)`` from the columns that the labels name."""
        columns = F.embedding(labels, self.inverse_transition.mT.to(logits)).movedim(-1, 1)
        return -(columns * F.log_softmax(logits, dim=1)).sum(1)

    def class_losses(self, log_q: ClassScores) -> ClassScores:
        with torch.autocast(log_q.device.type, enabled=False):  # no bf16 product under autocast
            return -(log_q.movedim(1, -1) @ self.inverse_transition.to(log_q)).movedim(-1, 1)

    def entropy(self, p: Distributions) -> Entropies:
        """Return Shannon's entropy of the clean posterior ``T⁻¹ p``."""
        if p.shape[1] != self.num_classes:
            raise InvalidValueError(
                f"this backward correction was made for {self.num_classes} classes, on which its "
                f"floor depends; got a distribution over {p.shape[1]}"
            )
        return _entropy_or_refusal(
            self.noise_model.inverse(p),
            "the backward-corrected loss has no minimum here: its transition matrix cannot have "
            "produced these noisy labels (T⁻¹p has an entry {least:.3g}). Create the loss with the "
            "matrix of this noise, or use transition_bound(loss, transition)",
        )

    def on_observed_labels(self) -> None:
        """Return None: for a model of the observed labels this loss is unbounded below."""


def _entropy_or_refusal(p: Tensor, refusal: str) -> Tensor:
    if bool((p < -_ROUNDING).any()):
        raise InvalidValueError(refusal.format(least=p.min().item()))
    return shannon_entropy(p.clamp(min=0))


class LabelSmoothing(Loss):
    """Cross-entropy of smoothed labels, ``-(1-s) log q_y - (s/c) Σ_k log q_k``.

    A positive rate ``s`` is label smoothing (Szegedy et al., 2016), and the same as
    ``CrossEntropy(label_smoothing=s)``. A negative one is negative label smoothing (Wei et al.,
    2022), which takes noise out of the labels. At ``s = 1 - 1/(1-η-r)``, ``r = η/(c-1)``, it is the
    backward correction of symmetric noise.

    Its entropy is Shannon's of the smoothed distribution ``(1-s) p + s/c``. If that has a negative
    entry, which takes a negative rate, the expected loss has no minimum.

    Args:
        smoothing: the rate ``s``, at most 1; Szegedy et al. use 0.1.

    Example:
        >>> import noisebound as nb
        >>> loss = nb.LabelSmoothing(-0.4)
        >>> nb.noise_bound(loss, 0.4, 10) < nb.noise_bound(nb.CrossEntropy(), 0.4, 10)
        True
    """

    refused_options = ("weight", "label_smoothing")

    def __init__(self, smoothing: float = 0.1, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.smoothing = check_number("smoothing", smoothing, "(-∞, 1]")

    def formula(self, log_q: ClassScores, at: Pick) -> AtLabels:
        return (self.smoothing - 1) * at(log_q) - self.smoothing * log_q.mean(1, keepdim=True)

    def entropy(self, p: Distributions) -> Entropies:
        return _entropy_or_refusal(
            (1 - self.smoothing) * p + self.smoothing / p.shape[1],
            f"negative label smoothing by {self.smoothing:g} has no minimum here: it takes more "
            "noise out of the labels than is in them (a smoothed label has the probability "
            "{least:.3g}). Use a `smoothing` nearer to zero",
        )
