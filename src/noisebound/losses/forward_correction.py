"""FCE: cross-entropy of the noised prediction ``T q``."""

import math
from typing import Unpack

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from noisebound.checks import ArrayLike
from noisebound.losses.cross_entropy import CrossEntropy, shannon_entropy
from noisebound.losses.likelihood import LikelihoodLoss
from noisebound.losses.loss import Loss, LossOptions
from noisebound.noise_models import Linear, Symmetric


def symmetric_forward_cross_entropy(
    surprisal: Float[Tensor, "..."], contrast: float, off_diagonal: float
) -> Float[Tensor, "..."]:
    """Return ``-log(contrast · q_y + off_diagonal)`` of ``-log q_y``."""
    if off_diagonal == 0:
        return surprisal
    if contrast <= 0:  # the rate is (c-1)/c or more; the sum is still at least 1-η
        return -torch.log(off_diagonal + contrast * torch.exp(-surprisal))
    # -log(k q + r) = logsigmoid(-log q - log(k/r)) - log r is finite however small q is
    log_odds = math.log(contrast / off_diagonal)
    return F.logsigmoid(surprisal - log_odds) - math.log(off_diagonal)


class SymmetricForwardCrossEntropy(LikelihoodLoss):
    """FCE under symmetric noise, ``-log((1-η-r) q_y + r)`` with ``r = η/(c-1)``.

    It is computed in closed form, as fast as cross-entropy. The usual way to create it is
    ``ForwardCrossEntropy.symmetric``. It is the row "FCE" of the paper.

    Args:
        noise_rate: η, the probability that a label changes, in ``[0, 1]``.
        num_classes: c, at least two.
        **options: the options of :class:`~noisebound.losses.loss.Loss`.

    Example:
        >>> import noisebound as nb
        >>> nb.ForwardCrossEntropy.symmetric(noise_rate=0.4, num_classes=10)
        SymmetricForwardCrossEntropy(noise_rate=0.4, num_classes=10)
    """

    predicts_true_class = True
    noise_model: Symmetric

    def __init__(
        self,
        noise_rate: float,
        num_classes: int,
        **options: Unpack[LossOptions],
    ) -> None:
        super().__init__(**options)
        self.noise_model = Symmetric(noise_rate, num_classes)
        self.require_num_classes(self.noise_model.num_classes)

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return ``-log((1-η-r) q_y + r)``."""
        return symmetric_forward_cross_entropy(
            surprisal, self.noise_model.contrast, self.noise_model.off_diagonal
        )

    def entropy(self, p: Float[Tensor, "batch classes"]) -> Float[Tensor, " batch"]:
        """Return Shannon's entropy, as the base loss is CE."""
        return shannon_entropy(p)

    def on_observed_labels(self) -> CrossEntropy:
        """Return cross-entropy with the same options."""
        return _without_correction(self)

    def hyperparameters(self) -> list[str]:
        """Return η and c as the repr shows them."""
        return [f"noise_rate={self.noise_model.noise_rate:g}", f"num_classes={self.num_classes}"]


class ForwardCrossEntropy(Loss):
    """Forward-corrected cross-entropy ``-log (T q)_y`` (Patrini et al., 2017).

    It is computed in log space, as ``-logsumexp_k(log T[y, k] + log q_k)``, so that with zeros in
    ``T`` and extreme logits the loss is finite and has a gradient. If the labels are class
    probabilities, all rows of ``T`` are needed and the memory grows with ``N C²``. A label that
    ``T`` rules out for every true class costs about 708, the negative logarithm of the smallest
    normal float64, and has no gradient.

    The noise model is ``f(q) = T q`` and the base loss is CE, so the entropy is Shannon's.

    Args:
        transition: ``T[noisy, true]``, columns summing to one.
        **options: the options of :class:`~noisebound.losses.loss.Loss`.

    Example:
        >>> import noisebound as nb, torch
        >>> confident = torch.tensor([[100.0, -100.0]])
        >>> nb.ForwardCrossEntropy([[0.6, 0.4], [0.4, 0.6]])(confident, torch.tensor([0]))
        tensor(0.5108)
    """

    symmetric = SymmetricForwardCrossEntropy
    """The loss for symmetric noise: ``ForwardCrossEntropy.symmetric(noise_rate, num_classes)``."""

    predicts_true_class = True
    noise_model: Linear
    log_transition: Tensor

    def __init__(
        self,
        transition: ArrayLike,
        **options: Unpack[LossOptions],
    ) -> None:
        super().__init__(**options)
        self.noise_model = Linear(transition)
        self.require_num_classes(len(self.noise_model.transition))
        self.register_buffer("log_transition", _log_transition(self.noise_model.transition))

    def losses_at_labels(
        self,
        logits: Float[Tensor, "batch classes *positions"],
        labels: Int[Tensor, "batch *positions"],
    ) -> Float[Tensor, "batch *positions"]:
        """Return ``-log (T q)_y`` from the rows of ``T`` that the labels name."""
        rows = F.embedding(labels, self.log_transition.to(logits)).movedim(-1, 1)
        return -torch.logsumexp(rows + F.log_softmax(logits, dim=1), dim=1)

    def class_losses(
        self, log_q: Float[Tensor, "batch classes *positions"]
    ) -> Float[Tensor, "batch classes *positions"]:
        """Return ``-log T q``."""
        by_row = log_q.movedim(1, -1).unsqueeze(-2) + self.log_transition.to(log_q)
        return -torch.logsumexp(by_row, dim=-1).movedim(-1, 1)

    def entropy(self, p: Float[Tensor, "batch classes"]) -> Float[Tensor, " batch"]:
        """Return Shannon's entropy, as the base loss is CE, even if ``T`` has no inverse."""
        return shannon_entropy(p)

    def on_observed_labels(self) -> CrossEntropy:
        """Return cross-entropy with the same options."""
        return _without_correction(self)

    def hyperparameters(self) -> list[str]:
        """Return the number of classes as the repr shows it."""
        return [f"num_classes={self.num_classes}"]


def _without_correction(loss: Loss) -> CrossEntropy:
    """Return cross-entropy with the options of a forward correction."""
    return CrossEntropy(
        reduction=loss.reduction,
        ignore_index=loss.ignore_index,
        weight=loss.weight,
        label_smoothing=loss.label_smoothing,
        check_finite=loss.check_finite,
    )


def _log_transition(transition: Tensor) -> Tensor:
    """Return ``log T``, where an impossible label is very unlikely, as ``0 · inf`` would be NaN."""
    impossible = (transition == 0).all(1, keepdim=True)
    least = torch.finfo(transition.dtype).tiny
    return torch.where(impossible, least, transition).log()
