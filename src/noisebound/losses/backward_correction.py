"""Backward-corrected CE, which is unbiased, unbounded below, and has the clean entropy as floor."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from noisebound.checks import ArrayLike, check_invertible
from noisebound.errors import InvalidValueError
from noisebound.losses.cross_entropy import shannon_entropy
from noisebound.losses.loss import Loss, Pick, Reduction
from noisebound.noise_models import Linear, NoiseModel, Symmetric

_ROUNDING = 1e-6  # T⁻¹p may have entries as negative as this and count as a distribution: a choice


class SymmetricBackwardCrossEntropy(Loss):
    """Backward correction of symmetric noise: ``(-log q_y + r Σ_k log q_k) / (1-η-r)``.

    It is computed in closed form, with ``r = η/(c-1)``. The usual way to create it is
    ``BackwardCrossEntropy.symmetric``. For its floor see :class:`BackwardCrossEntropy`.

    Args:
        noise_rate: η, the probability that a label changes, in ``[0, 1]`` but not ``(c-1)/c``.
        num_classes: c, at least two.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        ignore_index: class index whose examples are left out.
        check_finite: True to refuse NaN and infinite logits.
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
        """Return ``(-log q_y + r Σ_k log q_k) / (1-η-r)``."""
        spread = self.noise_model.off_diagonal * log_q.sum(1, keepdim=True)
        return (spread - at(log_q)) / self.noise_model.contrast

    def entropy(self, p: Float[Tensor, "batch classes"]) -> Float[Tensor, " batch"]:
        """Return Shannon's entropy of the clean posterior ``T⁻¹ p``."""
        return _clean_entropy(self.noise_model, self.num_classes, p)

    def on_observed_labels(self) -> None:
        """Return None: for a model of the observed labels this loss is unbounded below."""

    def hyperparameters(self) -> list[str]:
        """Return η and c as the repr shows them."""
        return [f"noise_rate={self.noise_model.noise_rate:g}", f"num_classes={self.num_classes}"]


class BackwardCrossEntropy(Loss):
    """Backward-corrected cross-entropy ``Σ_k T⁻¹[k, y] (-log q_k)`` (Patrini et al., 2017).

    Its mean over the noise is the clean cross-entropy. So its floor is the entropy of the clean
    labels, not of the noisy ones: ``H(p) = Shannon(T⁻¹ p)``, which is 0 for separable data. If no
    clean posterior gives ``p``, then ``T⁻¹ p`` has negative entries and the expected loss has no
    minimum. Class weights and label smoothing are not available, as they would undo the correction.

    Args:
        transition: ``T[noisy, true]``, invertible, columns summing to one.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        ignore_index: class index whose examples are left out.
        check_finite: True to refuse NaN and infinite logits.

    Example:
        >>> import noisebound as nb
        >>> loss = nb.BackwardCrossEntropy([[0.9, 0.2], [0.1, 0.8]])
        >>> abs(nb.transition_bound(loss, [[0.9, 0.2], [0.1, 0.8]])) < 1e-9
        True
    """

    symmetric = SymmetricBackwardCrossEntropy
    """The loss for symmetric noise: ``BackwardCrossEntropy.symmetric(noise_rate, num_classes)``."""

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
        """Return ``Σ_k T⁻¹[k, y] (-log q_k)`` from the columns that the labels name."""
        columns = F.embedding(labels, self.inverse_transition.mT.to(logits)).movedim(-1, 1)
        return -(columns * F.log_softmax(logits, dim=1)).sum(1)

    def class_losses(
        self, log_q: Float[Tensor, "batch classes *positions"]
    ) -> Float[Tensor, "batch classes *positions"]:
        """Return ``-T⁻ᵀ log q``."""
        with torch.autocast(log_q.device.type, enabled=False):  # no bf16 product under autocast
            return -(log_q.movedim(1, -1) @ self.inverse_transition.to(log_q)).movedim(-1, 1)

    def entropy(self, p: Float[Tensor, "batch classes"]) -> Float[Tensor, " batch"]:
        """Return Shannon's entropy of the clean posterior ``T⁻¹ p``."""
        return _clean_entropy(self.noise_model, self.num_classes, p)

    def on_observed_labels(self) -> None:
        """Return None: for a model of the observed labels this loss is unbounded below."""

    def hyperparameters(self) -> list[str]:
        """Return the number of classes as the repr shows it."""
        return [f"num_classes={self.num_classes}"]


def _clean_entropy(noise_model: NoiseModel, num_classes: int | None, p: Tensor) -> Tensor:
    if p.shape[1] != num_classes:
        raise InvalidValueError(
            f"this backward correction was made for {num_classes} classes, on which its floor "
            f"depends; got a distribution over {p.shape[1]}"
        )
    clean = noise_model.inverse(p)
    if bool((clean < -_ROUNDING).any()):
        raise InvalidValueError(
            "the backward-corrected loss has no minimum here: its transition matrix cannot have "
            f"produced these noisy labels (T⁻¹p has an entry {clean.min():.3g}). Create the loss "
            "with the matrix of this noise, or use transition_bound(loss, transition)"
        )
    return shannon_entropy(clean.clamp(min=0))
