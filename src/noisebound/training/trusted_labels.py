r"""Training on labels of which some were checked by a person.

An honest model's loss on a checked label can come down to 0, so its floor is 0. With weights ``w``,
the floor of the weighted mean loss is the untrusted share's part of the floor ``B`` of the others:
``B Σ_untrusted w / Σ w``. A loss that corrects noise would correct labels that are right, and its
least value on a right label is above 0: checked labels are trained by plain cross-entropy there.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int64, Num
from torch import Tensor
from torch.nn import functional as F

from noisebound.estimation import Checked, OutOfFold
from noisebound.losses import Loss
from noisebound.training.config import TrainingConfig
from noisebound.training.objective import Objective

WEIGHTS = (1.0, 2.0, 5.0, 10.0)
"""How much a checked label may count; out-of-fold predictions of checked labels decide."""

FEWEST_CHECKED = 20  # labels: fewer decide nothing, and count one


@dataclass(frozen=True, eq=False)
class TrustingObjective(Objective):
    """An objective that takes checked labels as they are.

    Args:
        is_trusted: which of the training examples have a label that a person has checked
        assumes_noise: True if the criterion would correct noise in them
    """

    is_trusted: Bool[Tensor, " n"] | None = None
    assumes_noise: bool = False

    def mean(
        self,
        logits: Float[Tensor, "batch classes"],
        labels: Num[Tensor, "batch ..."],
        weights: Float[Tensor, " batch"] | None,
        indices: Int64[Tensor, " batch"],
    ) -> Float[Tensor, ""]:
        """Return the mean loss of some examples, each counted by its weight."""
        assert self.is_trusted is not None
        trusted = self.is_trusted[indices.cpu()].to(logits.device)
        if not (self.assumes_noise and isinstance(self.criterion, Loss) and bool(trusted.any())):
            return super().mean(logits, labels, weights, indices)
        losses, counted = self.criterion.weighted_losses(logits, labels)
        plain = F.cross_entropy(logits, labels, reduction="none").to(losses)
        losses = torch.where(trusted, plain, losses)
        weights = torch.ones_like(losses) if weights is None else weights.to(losses)
        total = weights if counted is None else weights * torch.where(trusted, 1.0, counted)
        return losses @ weights / total.sum().clamp(min=torch.finfo(losses.dtype).tiny)


def trusting(
    objective: Objective, checked: Checked, weights: Tensor | None, config: TrainingConfig
) -> Objective:
    """Return the objective for examples of which some are checked; its bound is their mean's floor.

    Args:
        objective: for labels that nobody has checked
        checked: the checked labels
        weights: of the examples; 1 by default
        config: names the loss
    """
    share = checked.untrusted_share(weights)
    chosen, floor = objective.chosen, objective.floor
    if chosen is not None and chosen.origin != "given":
        count = int(checked.is_trusted.sum())
        reason = (
            f"{share:.1%} of {chosen.level:.3f}, as {count} checked labels have the floor 0 and "
            f"the others have {chosen.reason}"
        )
        chosen = replace(chosen, level=share * chosen.level, reason=reason)
        floor = chosen.level
    elif floor is not None and chosen is None:
        floor = share * floor
    return TrustingObjective(
        objective.criterion,
        chosen,
        objective.mixes,
        floor,
        checked.is_trusted,
        config.loss_name.plain.needs_noise_rate,
    )


@dataclass(frozen=True)
class WeightEvidence:
    """How well checked labels are predicted, out of fold, when they count so much.

    Args:
        weight: how much a checked label counts
        loss: the mean cross-entropy of the checked labels
        behind: the difference to the loss with the best weight
        standard_error: the standard error of that difference
        predicted: the share of the checked labels that was predicted
    """

    weight: float
    loss: float
    behind: float
    standard_error: float
    predicted: float


def judged_weights(found: dict[float, OutOfFold]) -> list[WeightEvidence]:
    """Return the evidence for each weight, from out-of-fold predictions by trainings with it."""
    judged = {weight: _judged(predictions) for weight, predictions in found.items()}
    best = min((losses for losses, _ in judged.values()), key=lambda losses: float(losses.mean()))
    evidence = []
    for weight, (losses, hits) in judged.items():
        behind = losses - best
        error = float(behind.std()) / len(behind) ** 0.5
        predicted = float(hits.double().mean())
        evidence.append(
            WeightEvidence(weight, float(losses.mean()), float(behind.mean()), error, predicted)
        )
    return evidence


def best_weight(evidence: list[WeightEvidence]) -> float:
    """Return the weight that predicts most checked labels, of those whose loss is near the least.

    Near is within a standard error. If two predict as many, the lower one is taken.
    """
    near = [each for each in evidence if each.behind <= each.standard_error]
    return max(near, key=lambda each: (each.predicted, -each.weight)).weight


def _judged(found: OutOfFold) -> tuple[Float[Tensor, " m"], Bool[Tensor, " m"]]:
    """Return the loss of each checked label, and whether it was predicted."""
    assert found.is_trusted is not None
    logits, labels = found.logits[found.is_trusted].double(), found.labels[found.is_trusted]
    return F.cross_entropy(logits, labels, reduction="none"), logits.argmax(1) == labels
