"""An experiment with a negative result: bounds on the means of other groups than the batch.

The loss is ``Σ_g W_g |mean_g - B| / Σ_g W_g`` over groups ``g`` of a batch's examples with weights
``W_g``; one group of all examples gives the bounded loss. The bound is a statement about the
average of noisy labels and not about any single one, so smaller groups are worse; `results/beyond`
has the measurements.
"""

from dataclasses import dataclass
from typing import get_args

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor, nn

from noisebound.checks import check_finite_number
from noisebound.errors import InvalidTypeError, InvalidValueError
from noisebound.estimation import Noise
from noisebound.losses import Loss, RememberingLoss
from noisebound.paper.protocol.contenders import Granularity
from noisebound.training.config import TrainingConfig
from noisebound.training.objective import Objective, ObjectiveFactory, make_objective

_KEPT = 0.9  # the share of a running mean that each batch keeps: about ten batches enter it


class GranularBoundedLoss(nn.Module):
    """A bounded loss whose means are taken over groups; in evaluation mode the plain mean.

    Args:
        loss: one of noisebound's losses
        bound: the level at which the mean loss of each group is held
        granularity: the groups: ``"batch"``, ``"example"`` or ``"class"``; with ``"running"`` a
            running mean over about ten batches decides whether the step goes up or down

    Example:
        >>> import noisebound as nb
        >>> logits, labels = torch.tensor([[2.0, 0.0], [0.0, 0.0]]), torch.tensor([0, 1])
        >>> for granularity in ("batch", "example"):
        ...     GranularBoundedLoss(nb.CrossEntropy(), 0.4, granularity)(logits, labels)
        tensor(0.0100)
        tensor(0.2831)
    """

    last_mean: Tensor
    running_mean: Tensor

    def __init__(self, loss: Loss, bound: float, granularity: Granularity) -> None:
        super().__init__()
        if not isinstance(loss, Loss):
            raise InvalidTypeError(f"`loss` must be one of noisebound's, got {loss!r}")
        if granularity not in get_args(Granularity):
            choices = ", ".join(get_args(Granularity))
            raise InvalidValueError(f"`granularity` must be one of {choices}; got {granularity!r}")
        self.loss = loss
        self.bound = check_finite_number("bound", bound)
        self.granularity = granularity
        self.last_mean = torch.tensor(torch.nan)  # of the last batch, before the bound
        self.register_buffer("running_mean", torch.tensor(torch.nan))

    def forward(
        self,
        logits: Float[Tensor, "batch classes *positions"],
        labels: Num[Tensor, "..."],
        indices: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, ""]:
        """Return the bounded mean.

        Args:
            logits: the outputs of the network
            labels: class indices, or probabilities
            indices: the positions of the examples, for a loss that remembers them
        """
        losses, weights = self._losses_and_weights(logits, labels, indices)
        mean = losses.sum() / weights.sum()
        if not self.training:
            return mean
        self.last_mean = mean.detach()
        match self.granularity:
            case "batch":
                return (mean - self.bound).abs()
            case "running":
                return (mean - self.bound) * (self._running(self.last_mean) - self.bound).sign()
            case "example":
                return (losses - weights * self.bound).abs().sum() / weights.sum()
            case _:
                return self._of_classes(losses, weights, labels)

    def _of_classes(self, losses: Tensor, weights: Tensor, labels: Tensor) -> Tensor:
        if labels.is_floating_point():
            raise InvalidValueError("`granularity` 'class' needs class indices as labels")
        classes, group = torch.unique(labels, return_inverse=True)
        zeros = losses.new_zeros(len(classes))
        sums = zeros.index_add(0, group.flatten(), losses.flatten())
        sizes = zeros.index_add(0, group.flatten(), weights.flatten())
        return (sums - sizes * self.bound).abs().sum() / sizes.sum()

    def _losses_and_weights(
        self, logits: Tensor, labels: Tensor, indices: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        if isinstance(self.loss, RememberingLoss):
            losses, weights = self.loss.reduced("none", logits, labels, indices), None
        else:
            losses, weights = self.loss.weighted_losses(logits, labels)
        return losses, torch.ones_like(losses) if weights is None else weights

    @torch.no_grad()
    def _running(self, mean: Float[Tensor, ""]) -> Float[Tensor, ""]:
        before = torch.where(self.running_mean.isnan(), mean, self.running_mean)
        self.running_mean = _KEPT * before + (1 - _KEPT) * mean
        return self.running_mean

    def extra_repr(self) -> str:
        """Return the bound and its granularity."""
        return f"bound={self.bound:.6g}, granularity={self.granularity!r}"


@dataclass(frozen=True, eq=False)
class GranularObjective(Objective):
    """An objective whose criterion applies the bound itself, so that steps have no sign."""

    @property
    def granular(self) -> GranularBoundedLoss:
        """The criterion."""
        assert isinstance(self.criterion, GranularBoundedLoss)
        return self.criterion

    @property
    def step_bound(self) -> None:
        """None, because the criterion applies the bound."""
        return None

    @property
    def loss(self) -> nn.Module:
        """The loss inside the criterion."""
        return self.granular.loss

    def raw(self, mean: Float[Tensor, ""]) -> Float[Tensor, ""]:
        """Return the mean loss of the last batch, before the bound."""
        return self.granular.last_mean


def objective_factory(granularity: Granularity) -> ObjectiveFactory:
    """Return a function that makes the objective of a method.

    Args:
        granularity: over what the mean loss is taken that is held at the bound
    """

    def granular_objective(
        config: TrainingConfig, num_classes: int, num_samples: int, noise: Noise
    ) -> Objective:
        plain = make_objective(config, num_classes, num_samples, noise)
        if granularity == "batch":
            return plain
        if plain.chosen is None or not isinstance(plain.criterion, Loss):
            raise InvalidValueError(
                f"`granularity` is a property of the bound, and {config.loss!r} has none"
            )
        criterion = GranularBoundedLoss(plain.criterion, plain.chosen.level, granularity)
        return GranularObjective(criterion, plain.chosen, plain.mixes, plain.floor)

    return granular_objective
