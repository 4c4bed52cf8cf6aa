"""CEP: cross-entropy with a prior on the sorted prediction, computed without sorting."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from noisebound.losses.cross_entropy import shannon_entropy
from noisebound.losses.loss import Loss, Pick, Reduction
from noisebound.losses.tracing import is_traced
from noisebound.noise_models import Symmetric


def prior_cross_entropy(
    log_q: Float[Tensor, "batch classes *positions"], at: Pick, contrast: float, off_diagonal: float
) -> Float[Tensor, "batch one_or_all *positions"]:
    """Return ``-log q_y - Σ_i p_i log q_σ(i)`` with ``p = (1-η, r, …, r)``, ``r = η/(c-1)``.

    Here σ sorts ``q`` in descending order. As ``p`` has only two values, only the maximum of ``q``
    is needed: the prior term is ``-r Σ_k log q_k - (1-η-r) max_k log q_k``.
    """
    spread = off_diagonal * log_q.sum(1, keepdim=True)
    return -at(log_q) - spread - contrast * log_q.amax(1, keepdim=True)


class _FromOneSoftmax(torch.autograd.Function):
    """The loss at class indices, whose value and gradient are computed from one softmax.

    With the largest logit ``m`` and its probability ``q_m``, ``log q_k`` is ``z_k - m + log q_m``:
    the value needs only the largest ``q``, whose logarithm is safe. The gradient is
    ``2q - 1[y] - r - (1-η-r) 1[argmax]``; autograd would add one full-size tensor per term.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, index: Tensor, contrast: float, off_diagonal: float
    ) -> Tensor:
        q = torch.softmax(logits, dim=1)
        top = logits.amax(1, keepdim=True)
        ctx.save_for_backward(logits, index, q, top)
        ctx.prior = contrast, off_diagonal
        log_q_top = q.amax(1, keepdim=True).log()
        below_top = logits.sum(1, keepdim=True) - logits.shape[1] * top
        # log q has a total weight of two: one from the label and one from the prior.
        losses = torch.sub(top - logits.gather(1, index), log_q_top, alpha=2)
        return losses.sub_(below_top, alpha=off_diagonal).squeeze(1)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor, None, None, None]:
        logits, index, q, top = ctx.saved_tensors
        contrast, off_diagonal = ctx.prior
        if torch.is_grad_enabled():  # for a second derivative, which rules out in-place work
            log_q = F.log_softmax(logits, dim=1)
            value = prior_cross_entropy(
                log_q, lambda v: v.gather(1, index), contrast, off_diagonal
            ).squeeze(1)
            (gradient,) = torch.autograd.grad(value, logits, outer[0], create_graph=True)
            return gradient, None, None, None
        scale = outer[0].unsqueeze(1)
        # One at each maximum; ties share the gradient. Floats are summed faster than booleans.
        gradient = torch.eq(logits, top, out=torch.empty_like(logits))
        share = contrast / gradient.sum(1, keepdim=True)
        gradient.mul_(-share * scale).sub_(off_diagonal * scale)
        gradient.addcmul_(q, scale, value=2)
        return gradient.scatter_add_(1, index, -scale), None, None, None


class PriorCrossEntropy(Loss):
    """CE with a prior (CEP): ``-log q_y - Σ_i p_i log q_σ(i)`` (paper, "CE with Prior").

    The prior pulls each prediction towards the noise vector of symmetric noise: one class at
    ``1-η``, the others at ``η/(c-1)``. The paper's bound is that of the whole loss: at ``u_sym(η)``
    it is twice Shannon's entropy. Class weights are not available, as the prior does not depend on
    the label.

    Args:
        noise_rate: η, the probability that a label changes, in ``[0, 1]``.
        num_classes: c, at least two.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        ignore_index: class index whose examples are left out.
        check_finite: True to refuse NaN and infinite logits.

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
        self.prior = Symmetric(noise_rate, num_classes)
        self.require_num_classes(self.prior.num_classes)

    def formula(
        self, log_q: Float[Tensor, "batch classes *positions"], at: Pick
    ) -> Float[Tensor, "batch one_or_all *positions"]:
        """Return ``-log q_y - r Σ_k log q_k - (1-η-r) max_k log q_k``."""
        return prior_cross_entropy(log_q, at, self.prior.contrast, self.prior.off_diagonal)

    def losses_at_labels(
        self,
        logits: Float[Tensor, "batch classes *positions"],
        labels: Int[Tensor, "batch *positions"],
    ) -> Float[Tensor, "batch *positions"]:
        """Return the losses from one softmax, or by the formula if a compiler will fuse it."""
        if is_traced():
            return super().losses_at_labels(logits, labels)
        losses: Tensor = _FromOneSoftmax.apply(  # type: ignore[no-untyped-call]
            logits, labels.unsqueeze(1), self.prior.contrast, self.prior.off_diagonal
        )
        return losses

    def entropy(self, p: Float[Tensor, "batch classes"]) -> Float[Tensor, " batch"]:
        """Return twice Shannon's entropy of the mean of ``p`` and the prior, sorted like ``p``.

        The loss is twice the CE against that mean, so it is least there. The number of classes is
        that of ``p``: noise between two classes out of many is bounded with ``c = 2``. For a noise
        rate above ``(c-1)/c`` the prior favors predictions without a likeliest class, and the loss
        is always higher than this.
        """
        right = 1 - self.prior.noise_rate
        wrong = self.prior.noise_rate / (p.shape[1] - 1)
        extreme = p.argmax(1, keepdim=True) if right >= wrong else p.argmin(1, keepdim=True)
        prior = torch.full_like(p, wrong).scatter(1, extreme, right)
        return 2 * shannon_entropy((p + prior) / 2)

    def hyperparameters(self) -> list[str]:
        """Return η and c as the repr shows them."""
        return [f"noise_rate={self.prior.noise_rate:g}", f"num_classes={self.num_classes}"]
