"""Backward-corrected CE: unbiased, unbounded below, and with the *clean* entropy as its floor."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from noisebound.checks import ArrayLike, check_invertible
from noisebound.errors import InvalidValueError
from noisebound.losses.cross_entropy import shannon_entropy
from noisebound.losses.loss import Loss, Pick, Reduction
from noisebound.noise_models import Linear, NoiseModel, Symmetric

_ROUNDING = 1e-6  # T⁻¹p may leave the simplex by this much and still be a distribution


class SymmetricBackwardCrossEntropy(Loss):
    """Backward correction of symmetric noise: ``(-log q_y + r Σ_k log q_k) / (1-η-r)``.

    In closed form. Better known as ``BackwardCrossEntropy.symmetric``; see there for its floor.

    Args:
        noise_rate: η, the probability that a label changes; not ``(c-1)/c``.
        num_classes: c.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        ignore_index: class index whose examples count for nothing.
        check_finite: refuse NaN and infinite logits.
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
        check_finite: bool = False,
    ) -> None:
        super().__init__(reduction=reduction, ignore_index=ignore_index, check_finite=check_finite)
        self.noise_model = Symmetric(noise_rate, num_classes)
        self.noise_model.check_invertible()
        self.require_num_classes(self.noise_model.num_classes)

    def formula(
        self, log_q: Float[Tensor, "batch classes *positions"], at: Pick
    ) -> Float[Tensor, "batch one_or_all *positions"]:
        """``(-log q_y + r Σ_k log q_k) / (1-η-r)``."""
        spread = self.noise_model.off_diagonal * log_q.sum(1, keepdim=True)
        return (spread - at(log_q)) / self.noise_model.contrast

    def entropy(self, p: Float[Tensor, "batch classes"]) -> Float[Tensor, " batch"]:
        """Shannon's entropy of the clean ``T⁻¹ p``."""
        return _clean_entropy(self.noise_model, self.num_classes, p)

    def on_observed_labels(self) -> None:
        """Return None: on a model of the observed labels this loss is unbounded below."""

    def hyperparameters(self) -> list[str]:
        """η and c."""
        return [f"noise_rate={self.noise_model.noise_rate:g}", f"num_classes={self.num_classes}"]


class BackwardCrossEntropy(Loss):
    """Backward-corrected cross-entropy ``Σ_k T⁻¹[k, y] (-log q_k)`` (Patrini et al., 2017).

    Averaged over the noise it *is* the clean cross-entropy. So its floor is not the entropy of the
    noisy labels but that of the clean ones, ``H(p) = Shannon(T⁻¹ p)``: 0 for separable data. For a
    ``p`` that ``T`` cannot have produced, ``T⁻¹ p`` has negative entries and the expected loss no
    minimum. Class weights and label smoothing would undo the correction and are not offered.

    Args:
        transition: ``T[noisy, true]``, invertible, columns summing to one.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        ignore_index: class index whose examples count for nothing.
        check_finite: refuse NaN and infinite logits.

    Example:
        >>> import noisebound as nb
        >>> loss = nb.BackwardCrossEntropy([[0.9, 0.2], [0.1, 0.8]])
        >>> abs(nb.transition_bound(loss, [[0.9, 0.2], [0.1, 0.8]])) < 1e-9
        True
    """

    symmetric = SymmetricBackwardCrossEntropy
    """For symmetric noise: ``BackwardCrossEntropy.symmetric(noise_rate, num_classes)``."""

    treats_classes_alike = False  # the clean entropy depends on which class is the true one
    predicts_true_class = True
    noise_model: Linear
    inverse_transition: Tensor

    def __init__(
        self,
        transition: ArrayLike,
        *,
        reduction: Reduction = "mean",
        ignore_index: int = -100,
        check_finite: bool = False,
    ) -> None:
        super().__init__(reduction=reduction, ignore_index=ignore_index, check_finite=check_finite)
        self.noise_model = Linear(transition)
        true_transition = self.noise_model.transition
        check_invertible(true_transition)
        self.require_num_classes(len(true_transition))
        self.register_buffer("inverse_transition", torch.linalg.inv(true_transition))

    def losses_at_labels(
        self,
        logits: Float[Tensor, "batch classes *positions"],
        labels: Int[Tensor, "batch *positions"],
    ) -> Float[Tensor, "batch *positions"]:
        """``Σ_k T⁻¹[k, y] (-log q_k)`` from the columns that the labels name."""
        columns = F.embedding(labels, self.inverse_transition.mT.to(logits)).movedim(-1, 1)
        return -(columns * F.log_softmax(logits, dim=1)).sum(1)

    def class_losses(
        self, log_q: Float[Tensor, "batch classes *positions"]
    ) -> Float[Tensor, "batch classes *positions"]:
        """``-T⁻ᵀ log q``."""
        with torch.autocast(log_q.device.type, enabled=False):  # no bf16 product under autocast
            return -(log_q.movedim(1, -1) @ self.inverse_transition.to(log_q)).movedim(-1, 1)

    def entropy(self, p: Float[Tensor, "batch classes"]) -> Float[Tensor, " batch"]:
        """Shannon's entropy of the clean ``T⁻¹ p``."""
        return _clean_entropy(self.noise_model, self.num_classes, p)

    def on_observed_labels(self) -> None:
        """Return None: on a model of the observed labels this loss is unbounded below."""

    def hyperparameters(self) -> list[str]:
        """The number of classes."""
        return [f"num_classes={self.num_classes}"]


def _clean_entropy(noise_model: NoiseModel, num_classes: int | None, p: Tensor) -> Tensor:
    if p.shape[1] != num_classes:
        raise InvalidValueError(
            f"the backward correction was made for {num_classes} classes, and its floor depends on "
            f"them: got a distribution over {p.shape[1]}"
        )
    clean = noise_model.inverse(p)
    if bool((clean < -_ROUNDING).any()):
        raise InvalidValueError(
            "the backward-corrected loss has no minimum here: its transition matrix cannot have "
            f"produced these noisy labels (T⁻¹p has an entry {clean.min():.3g}). Use the matrix of "
            "the noise at hand, or bound it with transition_bound(loss, transition)"
        )
    return shannon_entropy(clean.clamp(min=0))
