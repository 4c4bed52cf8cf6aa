"""The paper's robust losses: MAE, GCE and SCE between CE and MAE, bootstrapping, and CEP."""

from typing import Any, Literal, Unpack

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from noisebound.checks import check_number
from noisebound.errors import InvalidValueError
from noisebound.losses.labels import is_traced
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
)
from noisebound.losses.proper import shannon_entropy
from noisebound.noise_models import Power, Saturating, Symmetric

_DEFAULT_BETA = {"soft": 0.95, "hard": 0.8}  # the values of Reed et al.


def mean_absolute_error(surprisal: Tensor) -> Tensor:
    """Return ``1 - q_y`` of ``-log q_y``."""
    return -torch.expm1(-surprisal)


def least_mean_absolute_error(p: Float[Tensor, "*batch classes"]) -> Float[Tensor, "*batch"]:
    """Return ``min_q p · (1 - q) = 1 - max_k p_k``, reached by predicting the likeliest class."""
    return 1 - p.amax(-1)


def generalized_cross_entropy(surprisal: Tensor, a: float) -> Tensor:
    """Return ``(1 - q_y^a) / a`` of ``-log q_y``, accurate even if ``q_y`` is near one.

    For ``x ≤ 0``, this ELU is ``expm1(a x) / a`` in one kernel instead of three. It is what
    ``torch.celu(x, 1/a)`` calls, whose derivative rounds ``1/a`` to float32 on the way.
    """
    scaled: Tensor = torch.ops.aten.elu(-surprisal, 1 / a, 1.0, a)
    return -scaled


class MeanAbsoluteError(LikelihoodLoss):
    """Mean absolute error ``1 - q_y``, half the L1 distance between ``q`` and the label.

    Whatever the noise, it is least at a vertex of the simplex, so no noise model makes it a proper
    loss. Its entropy is the Bayes risk ``1 - max_k p_k``, and its noise-bound is the noise rate.

    Example:
        >>> import noisebound as nb
        >>> nb.noise_bound(nb.MeanAbsoluteError(), noise_rate=0.4, num_classes=10)
        0.4
    """

    curvature = "concave"

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return ``1 - q_y``."""
        return mean_absolute_error(surprisal)

    def entropy(self, p: Distributions) -> Entropies:
        """Return ``1 - max_k p_k``."""
        return least_mean_absolute_error(p)


class GeneralizedCrossEntropy(LikelihoodLoss):
    """Generalized cross-entropy ``(1 - q_y^a) / a`` (Zhang & Sabuncu, 2018).

    It is a proper loss seen through the noise model :class:`~noisebound.noise_models.Power`.

    Args:
        a: exponent in ``(0, 1]``; the paper uses 0.4. At 1 the loss is MAE and has no noise model.

    Example:
        >>> import noisebound as nb, torch
        >>> nb.GeneralizedCrossEntropy(a=1.0)(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.7500)
    """

    hyperparameters = ("a",)

    def __init__(self, a: float = 0.4, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.a = check_number("a", a, "(0, 1]")
        self.noise_model = Power(self.a) if self.a < 1 else None

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return ``(1 - q_y^a) / a``."""
        return generalized_cross_entropy(surprisal, self.a)

    def entropy(self, p: Distributions) -> Entropies:
        """Return ``p · L(f⁻¹(p))``, or the entropy of MAE if ``a`` is 1."""
        return least_mean_absolute_error(p) if self.noise_model is None else super().entropy(p)


class SymmetricCrossEntropy(LikelihoodLoss):
    """Symmetric cross-entropy ``-log q_y + A (1 - q_y)`` (Wang et al., 2019).

    It is a proper loss seen through the noise model :class:`~noisebound.noise_models.Saturating`.

    Args:
        A: weight of the MAE term, at least zero; the paper uses 8.

    Example:
        >>> import noisebound as nb, torch
        >>> nb.SymmetricCrossEntropy(A=8.0)(torch.zeros(1, 2), torch.tensor([0]))
        tensor(4.6931)
    """

    hyperparameters = ("A",)

    def __init__(self, A: float = 8.0, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.A = check_number("A", A, "[0, ∞)")
        self.noise_model = Saturating(self.A)

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return ``-log q_y + A (1 - q_y)``."""
        return torch.sub(surprisal, torch.expm1(-surprisal), alpha=self.A)


class Bootstrapping(Loss):
    """Cross-entropy against ``beta`` times the label plus ``1-beta`` times the prediction.

    See Reed et al. (2015). The gradient also flows through the prediction in the target.

    Args:
        mode: ``"soft"`` mixes in the predicted probabilities, ``"hard"`` the predicted class.
        beta: the share of the label, in ``[0, 1]``; if not given, 0.95 for soft and 0.8 for hard.

    Example:
        >>> import noisebound as nb, torch
        >>> nb.Bootstrapping(mode="hard")(torch.zeros(1, 2), torch.tensor([0]))
        tensor(0.6931)
    """

    hyperparameters = ("mode", "beta")

    def __init__(
        self,
        mode: Literal["soft", "hard"] = "soft",
        beta: float | None = None,
        **options: Unpack[LossOptions],
    ) -> None:
        super().__init__(**options)
        if mode not in _DEFAULT_BETA:
            raise InvalidValueError(f"`mode` must be 'soft' or 'hard', got {mode!r}")
        self.mode = mode
        self.beta = check_number("beta", _DEFAULT_BETA[mode] if beta is None else beta, "[0, 1]")

    def formula(self, log_q: ClassScores, at: Pick) -> AtLabels:
        """Return ``-β log q_y`` minus ``1-β`` times ``Σ_k q_k log q_k`` or ``max_k log q_k``."""
        if self.mode == "hard":
            certainty = log_q.amax(1, keepdim=True)
        else:  # with 0 log 0 = 0: a masked class has the logit -inf
            finite = log_q.clamp(min=torch.finfo(log_q.dtype).min)
            certainty = (finite.exp() * finite).sum(1, keepdim=True)
        return -self.beta * at(log_q) - (1 - self.beta) * certainty

    def entropy(self, p: Distributions) -> Entropies:
        """Return the Bayes risk.

        In hard mode it is Shannon's entropy of ``beta p + (1-beta) 1[argmax p]``.
        """
        if self.mode == "soft":
            return super().entropy(p)
        likeliest = F.one_hot(p.argmax(1), p.shape[1])
        return shannon_entropy(torch.lerp(likeliest.to(p), p, self.beta))


def prior_cross_entropy(
    log_q: ClassScores, at: Pick, contrast: float, off_diagonal: float
) -> AtLabels:
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
    it is twice Shannon's entropy.

    Args:
        noise_rate: η, the probability that a label changes, in ``[0, 1]``.
        num_classes: c, at least two.

    Example:
        >>> import noisebound as nb
        >>> cep = nb.PriorCrossEntropy(noise_rate=0.4, num_classes=10)
        >>> ce = nb.CrossEntropy()
        >>> nb.noise_bound(cep, 0.4, 10) / nb.noise_bound(ce, 0.4, 10)
        2.0
    """

    hyperparameters = ("noise_rate", "num_classes")
    refused_options = ("weight", "label_smoothing")  # the prior does not depend on the label

    def __init__(self, noise_rate: float, num_classes: int, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.prior = Symmetric(noise_rate, num_classes)
        self.noise_rate = self.prior.noise_rate
        self.require_num_classes(self.prior.num_classes)

    def formula(self, log_q: ClassScores, at: Pick) -> AtLabels:
        """Return ``-log q_y - r Σ_k log q_k - (1-η-r) max_k log q_k``."""
        return prior_cross_entropy(log_q, at, self.prior.contrast, self.prior.off_diagonal)

    def losses_at_labels(self, logits: ClassScores, labels: Labels) -> PerExample:
        """Return the losses from one softmax, or by the formula if a compiler will fuse it."""
        if is_traced():
            return super().losses_at_labels(logits, labels)
        losses: Tensor = _FromOneSoftmax.apply(  # type: ignore[no-untyped-call]
            logits, labels.unsqueeze(1), self.prior.contrast, self.prior.off_diagonal
        )
        return losses

    def entropy(self, p: Distributions) -> Entropies:
        """Return twice Shannon's entropy of the mean of ``p`` and the prior, sorted like ``p``.

        The loss is twice the CE against that mean, so it is least there. The number of classes is
        that of ``p``: noise between two classes out of many is bounded with ``c = 2``. For a noise
        rate above ``(c-1)/c`` the prior favors predictions without a likeliest class, and the loss
        is always higher than this.
        """
        right, wrong = 1 - self.noise_rate, self.noise_rate / (p.shape[1] - 1)
        extreme = p.argmax(1, keepdim=True) if right >= wrong else p.argmin(1, keepdim=True)
        prior = torch.full_like(p, wrong).scatter(1, extreme, right)
        return 2 * shannon_entropy((p + prior) / 2)
