"""CEP: cross-entropy with a prior on the sorted prediction, without a sort."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from noisebound.checks import check_noise_rate, check_num_classes
from noisebound.losses.cross_entropy import shannon_entropy
from noisebound.losses.loss import Loss, Pick, Reduction


def prior_cross_entropy(
    log_q: Float[Tensor, "batch classes *positions"], at: Pick, contrast: float, off_diagonal: float
) -> Float[Tensor, "batch one_or_all *positions"]:
    """``-log q_y - Σ_i p_i log q_σ(i)``, σ sorting downwards, ``p = (1-η, r, …, r)``.

    ``p`` has two values, so of the sort only the maximum matters: the prior term is
    ``-r Σ_k log q_k - (1-η-r) max_k log q_k``.
    """
    spread = off_diagonal * log_q.sum(1, keepdim=True)
    return -at(log_q) - spread - contrast * log_q.amax(1, keepdim=True)


class _PriorCrossEntropyAtLabels(torch.autograd.Function):
    """The formula at class indices, with its gradient ``2q - 1[y] - r - (1-η-r) 1[argmax]``.

    Autograd would store and add up one full-size gradient for each of the three terms. The
    backward pass is made of differentiable operations on the logits, so it can be differentiated
    again.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(logits: Tensor, index: Tensor, contrast: float, off_diagonal: float) -> Tensor:
        log_q = F.log_softmax(logits, dim=1)
        return prior_cross_entropy(
            log_q, lambda v: v.gather(1, index), contrast, off_diagonal
        ).squeeze(1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        logits, index, ctx.contrast, ctx.off_diagonal = inputs
        ctx.save_for_backward(logits, index)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor, None, None, None]:
        logits, index = ctx.saved_tensors
        outer_gradient = outer[0].unsqueeze(1)
        likeliest = logits == logits.amax(1, keepdim=True)
        share = ctx.contrast / likeliest.sum(1, keepdim=True)  # ties share the maximum's gradient
        gradient = (2 * outer_gradient) * torch.softmax(logits, dim=1)
        gradient = gradient - outer_gradient * torch.where(
            likeliest, share + ctx.off_diagonal, ctx.off_diagonal
        )
        return gradient.scatter_add(1, index, -outer_gradient), None, None, None


class PriorCrossEntropy(Loss):
    """CE with a prior (CEP): ``-log q_y - Σ_i p_i log q_σ(i)`` (paper, "CE with Prior").

    The prior pulls each prediction towards the shape that symmetric noise on separable data must
    have: one class at ``1-η``, the others at ``η/(c-1)``. The bound of the paper counts the whole
    loss: at ``u_sym(η)`` it is twice Shannon's entropy. For other noise vectors the entropy is the
    Bayes risk; class weights have no meaning for the prior, which looks at no label.

    Args:
        noise_rate: η, the probability that a label changes.
        num_classes: c.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        ignore_index: class index whose examples count for nothing.
        check_finite: refuse NaN and infinite logits.

    Example:
        >>> import noisebound as nb
        >>> cep = nb.PriorCrossEntropy(noise_rate=0.4, num_classes=10)
        >>> ce = nb.CrossEntropy()
        >>> nb.noise_bound(cep, 0.4, 10) / nb.noise_bound(ce, 0.4, 10)
        2.0
    """

    def __init__(
        self,
        noise_rate: float,
        num_classes: int,
        *,
        reduction: Reduction = "mean",
        ignore_index: int = -100,
        check_finite: bool = False,
    ) -> None:
        super().__init__(reduction=reduction, ignore_index=ignore_index, check_finite=check_finite)
        self.require_num_classes(check_num_classes(num_classes))
        self.noise_rate = float(check_noise_rate(noise_rate, num_classes))
        self.off_diagonal = self.noise_rate / (num_classes - 1)
        self.contrast = 1 - self.noise_rate - self.off_diagonal

    def formula(
        self, log_q: Float[Tensor, "batch classes *positions"], at: Pick
    ) -> Float[Tensor, "batch one_or_all *positions"]:
        """``-log q_y - r Σ_k log q_k - (1-η-r) max_k log q_k``."""
        return prior_cross_entropy(log_q, at, self.contrast, self.off_diagonal)

    def losses_at_labels(
        self,
        logits: Float[Tensor, "batch classes *positions"],
        labels: Int[Tensor, "batch *positions"],
    ) -> Float[Tensor, "batch *positions"]:
        """The formula with its closed gradient."""
        losses: Tensor = _PriorCrossEntropyAtLabels.apply(  # type: ignore[no-untyped-call]
            logits, labels.unsqueeze(1), self.contrast, self.off_diagonal
        )
        return losses

    def entropy(self, p: Float[Tensor, "batch classes"]) -> Float[Tensor, " batch"]:
        """The loss is twice a CE against the mean of ``p`` and the prior, so least at that mean."""
        if self.contrast < 0:  # then the prior favours predictions without a likeliest class
            return super().entropy(p)
        prior = torch.full_like(p, self.off_diagonal)
        prior.scatter_(1, p.argmax(1, keepdim=True), 1 - self.noise_rate)
        return 2 * shannon_entropy((p + prior) / 2)

    def hyperparameters(self) -> list[str]:
        """η and c."""
        return [f"noise_rate={self.noise_rate:g}", f"num_classes={self.num_classes}"]
