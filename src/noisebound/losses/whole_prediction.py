"""Losses of the whole prediction: proper scores, bootstrapping, normalized losses, and CEP."""

from typing import Any, Literal, TypeVar, Unpack

import torch
from torch import Tensor
from torch.nn import functional as F

from noisebound.checks import check_number
from noisebound.errors import InvalidTypeError, InvalidValueError
from noisebound.losses.likelihood import CrossEntropy, MeanAbsoluteError, shannon_entropy
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
    is_traced,
)
from noisebound.noise_models import Identity, Symmetric

_DEFAULT_BETA = {"soft": 0.95, "hard": 0.8}  # the values of Reed et al.


class MeanSquaredError(Loss):
    """Mean squared error ``Σ_k (q_k - 1[k=y])²``, the Brier score.

    Its noise model is the identity, its entropy ``1 - Σ_k p_k²``. For class probabilities ``t`` it
    is the expected loss, ``Σ_k (q_k - t_k)²`` plus a constant.

    Example:
        >>> MeanSquaredError()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.7500)
    """

    noise_model = Identity()

    def formula(self, log_q: ClassScores, at: Pick) -> AtLabels:
        q = log_q.exp()
        return q.square().sum(1, keepdim=True) - 2 * at(q) + 1


class Spherical(Loss):
    """Spherical score ``-q_y / ‖q‖₂``. Its noise model is the identity, its entropy ``-‖p‖₂``.

    Example:
        >>> Spherical()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(-0.5000)
    """

    noise_model = Identity()

    def formula(self, log_q: ClassScores, at: Pick) -> AtLabels:
        q = log_q.exp()
        return -at(q) / q.square().sum(1, keepdim=True).sqrt()


class Bootstrapping(Loss):
    """``-Σ_k (β 1[k=y] + (1-β) q_k) log q_k``, soft bootstrapping (Reed et al., 2015).

    The target mixes the label with the prediction, in hard mode with ``1[k=argmax q]`` instead of
    ``q_k``. The gradient also flows through the prediction in the target.

    Args:
        mode: ``"soft"`` or ``"hard"``.
        beta: β, the share of the label, in ``[0, 1]``; by default 0.95 for soft, 0.8 for hard.

    Example:
        >>> Bootstrapping(mode="hard")(torch.zeros(1, 2), torch.tensor([0]))
        tensor(0.6931)
    """

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
        if self.mode == "hard":
            certainty = log_q.amax(1, keepdim=True)
        else:  # with 0 log 0 = 0: a masked class has the logit -inf
            finite = log_q.clamp(min=torch.finfo(log_q.dtype).min)
            certainty = (finite.exp() * finite).sum(1, keepdim=True)
        return -self.beta * at(log_q) - (1 - self.beta) * certainty

    def entropy(self, p: Distributions) -> Entropies:
        """Return the Bayes risk; in hard mode Shannon's of ``beta p + (1-beta) 1[argmax p]``."""
        if self.mode == "soft":
            return super().entropy(p)
        likeliest = F.one_hot(p.argmax(1), p.shape[1])
        return shannon_entropy(torch.lerp(likeliest.to(p), p, self.beta))


class Normalized(Loss):
    """A loss divided by its sum over all classes, ``L(q, y) / Σ_k L(q, k)`` (Ma et al., 2020).

    ``Normalized(CrossEntropy())`` is NCE and ``Normalized(Focal(0.5))`` is NFL. The losses of the
    classes sum to one, so the expected loss is a mean of the label's probabilities. If the loss
    grows without limit as ``q_y`` goes to zero, its limit is ``min_k p_k``, which is never reached.

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
    passive loss is least where a least likely class has probability zero; else it is searched.

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

    Its Bayes risk ``alpha min_k p_k + beta (1 - max_k p_k)`` is a limit that no prediction reaches:
    the likeliest class gets all of the probability, and the least likely one vanishes fastest.

    Args:
        alpha: weight of the normalized cross-entropy, at least zero.
        beta: weight of MAE, at least zero.

    Example:
        >>> NormalizedCrossEntropyMAE()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(1.)
    """

    def __init__(
        self, alpha: float = 1.0, beta: float = 1.0, **options: Unpack[LossOptions]
    ) -> None:
        nce, mae = Normalized(CrossEntropy()), MeanAbsoluteError()
        super().__init__(nce, mae, alpha, beta, **options)


_Kind = TypeVar("_Kind", bound=Loss)


def _check_kind(name: str, loss: _Kind, kind: type[_Kind]) -> _Kind:
    if not isinstance(loss, kind):
        example = "Normalized(CrossEntropy())" if kind is Normalized else "CrossEntropy()"
        raise InvalidTypeError(
            f"`{name}` must be a {kind.__name__}, such as {example}, got {loss!r}"
        )
    return loss


def prior_cross_entropy(
    log_q: ClassScores, at: Pick, contrast: float, off_diagonal: float
) -> AtLabels:
    """Return ``-log q_y - Σ_i p_i log q_σ(i)`` with ``p = (1-η, r, …, r)``, ``r = η/(c-1)``.

    Here σ sorts ``q`` in descending order. As ``p`` has only two values, no sort is needed: the
    prior term is ``-r Σ_k log q_k - (1-η-r) max_k log q_k``.
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

    The prior pulls each prediction towards symmetric noise: one class at ``1-η``, the others at
    ``η/(c-1)``. The paper bounds the whole loss, at twice Shannon's entropy of ``u_sym(η)``.

    Args:
        noise_rate: η, the probability that a label changes, in ``[0, 1]``.
        num_classes: c, at least two.

    Example:
        >>> import noisebound as nb
        >>> cep, ce = nb.PriorCrossEntropy(noise_rate=0.4, num_classes=10), nb.CrossEntropy()
        >>> nb.noise_bound(cep, 0.4, 10) / nb.noise_bound(ce, 0.4, 10)
        2.0
    """

    refused_options = ("weight", "label_smoothing")  # the prior does not depend on the label

    def __init__(self, noise_rate: float, num_classes: int, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.prior = Symmetric(noise_rate, num_classes)
        self.noise_rate = self.prior.noise_rate
        self.require_num_classes(self.prior.num_classes)

    def formula(self, log_q: ClassScores, at: Pick) -> AtLabels:
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

        The loss is twice the CE against that mean. The number of classes is that of ``p``: noise
        between two classes out of many is bounded with ``c = 2``. For a noise rate above
        ``(c-1)/c`` the loss is always higher than this.
        """
        right, wrong = 1 - self.noise_rate, self.noise_rate / (p.shape[1] - 1)
        extreme = p.argmax(1, keepdim=True) if right >= wrong else p.argmin(1, keepdim=True)
        prior = torch.full_like(p, wrong).scatter(1, extreme, right)
        return 2 * shannon_entropy((p + prior) / 2)
