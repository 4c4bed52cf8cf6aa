"""Losses that remember each training example, and so need the positions of the examples."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from noisebound.checks import check_count
from noisebound.errors import InvalidTypeError, InvalidValueError
from noisebound.losses.likelihood import LikelihoodLoss
from noisebound.losses.loss import Reduction, reduce_losses
from noisebound.losses.tracing import is_traced


class RememberingLoss(LikelihoodLoss):
    """A loss that remembers something of each of ``num_samples`` training examples.

    In training mode ``indices`` is required: the position of each example of the batch in the
    training set. In evaluation mode it may be left out, for examples that are not in the memory.

    Args:
        num_samples: number of examples in the training set.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        check_finite: True to refuse NaN and infinite logits.
    """

    def __init__(
        self, num_samples: int, *, reduction: Reduction = "mean", check_finite: bool = False
    ) -> None:
        super().__init__(reduction=reduction, check_finite=check_finite)
        self.num_samples = check_count("num_samples", num_samples)

    def with_memory(
        self,
        losses: Float[Tensor, " batch"],
        logits: Float[Tensor, "batch classes"],
        indices: Int[Tensor, " batch"],
    ) -> Float[Tensor, " batch"]:
        """Return the losses as changed by the memory of these examples."""
        raise InvalidTypeError(
            f"{type(self).__name__} must define with_memory(losses, logits, indices)"
        )

    def forward(
        self, logits: Tensor, labels: Tensor, indices: Tensor | None = None
    ) -> Float[Tensor, "..."]:
        """Return the reduced loss.

        Args:
            logits: of shape ``[N, C]``.
            labels: class indices of shape ``[N]``, or class probabilities of shape ``[N, C]``.
            indices: the positions of the batch's examples in the training set, of shape ``[N]``.
        """
        return self.reduced(self.reduction, logits, labels, indices)

    def reduced(
        self, reduction: Reduction, logits: Tensor, labels: Tensor, indices: Tensor | None = None
    ) -> Float[Tensor, "..."]:
        """Return the loss with this reduction instead of its own."""
        return reduce_losses(*self.weighted_losses(logits, labels, indices), reduction)

    def weighted_losses(
        self, logits: Tensor, labels: Tensor, indices: Tensor | None = None
    ) -> tuple[Float[Tensor, " batch"], Float[Tensor, " batch"] | None]:
        """Return the loss of each example, changed by the memory, and its weight in the mean."""
        losses, weights = super().weighted_losses(logits, labels)
        if indices is None and not self.training:
            return losses, weights
        losses = self.with_memory(losses, logits, self.check_indices(logits, indices))
        return losses if weights is None else torch.where(weights > 0, losses, 0.0), weights

    def check_indices(self, logits: Tensor, indices: Tensor | None) -> Int[Tensor, " batch"]:
        """Return the positions in the training set, one per row of the logits."""
        name = type(self).__name__
        if indices is None:
            raise InvalidValueError(
                f"{name} remembers every example: call it as loss(logits, labels, indices), where "
                "`indices` are the positions of the batch's examples in the training set"
            )
        if indices.is_floating_point() or logits.ndim != 2 or indices.shape != logits.shape[:1]:
            raise InvalidValueError(
                f"{name} takes logits [N, C] and integer indices [N], got logits "
                f"{tuple(logits.shape)} and {indices.dtype} indices {tuple(indices.shape)}"
            )
        if indices.device.type == "cpu" and indices.numel() and not is_traced():
            least, most = (int(extreme) for extreme in indices.aminmax())
            if least < 0 or most >= self.num_samples:
                raise InvalidValueError(
                    f"`indices` must lie in 0 … {self.num_samples - 1} (num_samples="
                    f"{self.num_samples}), got {least if least < 0 else most}"
                )
        return indices.to(logits.device, torch.int64)

    def entropy(self, p: Float[Tensor, "batch classes"]) -> Float[Tensor, " batch"]:
        """Raise an error: the loss of an example depends on what is remembered of it."""
        raise InvalidValueError(
            f"{type(self).__name__} has no noise-bound, because the loss of an example depends on "
            "what is remembered of it; pass `bound` to BoundedLoss instead"
        )
