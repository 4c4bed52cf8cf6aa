"""FCE: cross-entropy of the noised prediction ``T q``."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from noisebound.checks import ArrayLike
from noisebound.losses.cross_entropy import CrossEntropy, shannon_entropy
from noisebound.losses.likelihood import LikelihoodLoss
from noisebound.losses.loss import Loss, Reduction
from noisebound.noise_models import Linear, Symmetric


def symmetric_forward_cross_entropy(
    surprisal: Float[Tensor, "..."], contrast: float, off_diagonal: float
) -> Float[Tensor, "..."]:
    """``-log(contrast · q_y + off_diagonal)`` of ``-log q_y``."""
    if off_diagonal == 0:
        return surprisal
    if contrast <= 0:  # as much noise as (c-1)/c or more: the sum is still at least 1-η
        return -torch.log(off_diagonal + contrast * torch.exp(-surprisal))
    # -log(k q + r) = logsigmoid(-log q - log(k/r)) - log r, finite however small q is
    log_odds = math.log(contrast / off_diagonal)
    return F.logsigmoid(surprisal - log_odds) - math.log(off_diagonal)


class SymmetricForwardCrossEntropy(LikelihoodLoss):
    """FCE under symmetric noise, ``-log((1-η-r) q_y + r)`` with ``r = η/(c-1)``.

    In closed form, so that it costs what cross-entropy costs. Better known as
    ``ForwardCrossEntropy.symmetric``; the row "FCE" of the paper.

    Args:
        noise_rate: η, the probability that a label changes.
        num_classes: c.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        ignore_index: class index whose examples count for nothing.
        weight: one weight a class.
        label_smoothing: how much of each label is spread evenly over all classes.
        check_finite: refuse NaN and infinite logits.

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
        *,
        reduction: Reduction = "mean",
        ignore_index: int = -100,
        weight: ArrayLike | None = None,
        label_smoothing: float = 0.0,
        check_finite: bool = False,
    ) -> None:
        super().__init__(
            reduction=reduction,
            ignore_index=ignore_index,
            weight=weight,
            label_smoothing=label_smoothing,
            check_finite=check_finite,
        )
        self.noise_model = Symmetric(noise_rate, num_classes)
        self.require_num_classes(self.noise_model.num_classes)

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """``-log((1-η-r) q_y + r)``."""
        return symmetric_forward_cross_entropy(
            surprisal, self.noise_model.contrast, self.noise_model.off_diagonal
        )

    def entropy(self, p: Float[Tensor, "batch classes"]) -> Float[Tensor, " batch"]:
        """Shannon's: the base loss is CE."""
        return shannon_entropy(p)

    def on_observed_labels(self) -> CrossEntropy:
        """Return cross-entropy with the same options."""
        return _without_correction(self)

    def hyperparameters(self) -> list[str]:
        """η and c."""
        return [f"noise_rate={self.noise_model.noise_rate:g}", f"num_classes={self.num_classes}"]


class ForwardCrossEntropy(Loss):
    """Forward-corrected cross-entropy ``-log (T q)_y`` (Patrini et al., 2017).

    Computed in log space, as ``-logsumexp_k(log T[y, k] + log q_k)``, so zeros in ``T`` and extreme
    logits stay finite and keep their gradients. With class probabilities as labels all rows of
    ``T`` are needed, and memory grows with ``N C²``. A label that ``T`` rules out whatever the true
    class costs some 708, the logarithm of the least float64, and moves nothing.

    Its noise model is ``f(q) = T q``; its base loss is CE, so its entropy is Shannon's.

    Args:
        transition: ``T[noisy, true]``, columns summing to one.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        ignore_index: class index whose examples count for nothing.
        weight: one weight a class.
        label_smoothing: how much of each label is spread evenly over all classes.
        check_finite: refuse NaN and infinite logits.

    Example:
        >>> import noisebound as nb, torch
        >>> confident = torch.tensor([[100.0, -100.0]])
        >>> nb.ForwardCrossEntropy([[0.6, 0.4], [0.4, 0.6]])(confident, torch.tensor([0]))
        tensor(0.5108)
    """

    symmetric = SymmetricForwardCrossEntropy
    """FCE for symmetric noise: ``ForwardCrossEntropy.symmetric(noise_rate, num_classes)``."""

    predicts_true_class = True
    noise_model: Linear
    log_transition: Tensor

    def __init__(
        self,
        transition: ArrayLike,
        *,
        reduction: Reduction = "mean",
        ignore_index: int = -100,
        weight: ArrayLike | None = None,
        label_smoothing: float = 0.0,
        check_finite: bool = False,
    ) -> None:
        super().__init__(
            reduction=reduction,
            ignore_index=ignore_index,
            weight=weight,
            label_smoothing=label_smoothing,
            check_finite=check_finite,
        )
        self.noise_model = Linear(transition)
        self.require_num_classes(len(self.noise_model.transition))
        self.register_buffer("log_transition", _log_transition(self.noise_model.transition))

    def losses_at_labels(
        self,
        logits: Float[Tensor, "batch classes *positions"],
        labels: Int[Tensor, "batch *positions"],
    ) -> Float[Tensor, "batch *positions"]:
        """``-log (T q)_y`` from the rows of ``T`` that the labels name."""
        rows = F.embedding(labels, self.log_transition.to(logits)).movedim(-1, 1)
        return -torch.logsumexp(rows + F.log_softmax(logits, dim=1), dim=1)

    def class_losses(
        self, log_q: Float[Tensor, "batch classes *positions"]
    ) -> Float[Tensor, "batch classes *positions"]:
        """``-log T q``."""
        by_row = log_q.movedim(1, -1).unsqueeze(-2) + self.log_transition.to(log_q)
        return -torch.logsumexp(by_row, dim=-1).movedim(-1, 1)

    def entropy(self, p: Float[Tensor, "batch classes"]) -> Float[Tensor, " batch"]:
        """Shannon's: the base loss is CE, also where ``T`` has no inverse."""
        return shannon_entropy(p)

    def on_observed_labels(self) -> CrossEntropy:
        """Return cross-entropy with the same options."""
        return _without_correction(self)

    def hyperparameters(self) -> list[str]:
        """The number of classes."""
        return [f"num_classes={self.num_classes}"]


def _without_correction(loss: Loss) -> CrossEntropy:
    """Return the base loss of the forward correction, which judges ``T q`` as it judges ``q``."""
    return CrossEntropy(
        reduction=loss.reduction,
        ignore_index=loss.ignore_index,
        weight=loss.weight,
        label_smoothing=loss.label_smoothing,
        check_finite=loss.check_finite,
    )


def _log_transition(transition: Tensor) -> Tensor:
    """``log T``; an impossible label is very unlikely instead, as ``0 · inf`` would poison sums."""
    impossible = (transition == 0).all(1, keepdim=True)
    least = torch.finfo(transition.dtype).tiny
    return torch.where(impossible, least, transition).log()
