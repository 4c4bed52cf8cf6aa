r"""Training on labels of which a person has checked some.

A checked label is right, so an honest model's loss on it can reach 0: its floor is 0. With weights
``w``, the floor of the weighted mean loss is ``B Σ_unchecked w / Σ w``, where ``B`` is the floor of
the other labels. A loss that corrects noise would correct checked labels too, so it is replaced by
plain cross-entropy there.
"""

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor
from torch.nn import functional as F

from noisebound.estimation import Checked, OutOfFold
from noisebound.training.config import TrainingConfig
from noisebound.training.objective import Objective

WEIGHTS = (1.0, 2.0, 5.0, 10.0)
"""The weights of a checked label to try; out-of-fold predictions of checked labels decide."""

FEWEST_CHECKED = 20  # with fewer checked labels, their weight stays 1; heuristic


def trusting(
    objective: Objective, checked: Checked, weights: Tensor | None, config: TrainingConfig
) -> Objective:
    """Return the objective if some labels are checked; its bound is the mean of all floors."""
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
    corrects = config.loss_name.plain.needs_noise_rate
    trusted = checked.is_trusted if corrects else None
    return replace(objective, chosen=chosen, floor=floor, trusted=trusted)


def best_weight(found: Mapping[float, OutOfFold]) -> float:
    """Return the weight with which training predicts checked labels best.

    Candidates have a mean loss on checked labels within a standard error of the least. The one that
    predicts most of these labels correctly wins; in a tie, the lowest.
    """
    losses, hits = {}, {}
    for weight, predictions in found.items():
        assert predictions.is_trusted is not None
        logits = predictions.logits[predictions.is_trusted].double()
        labels = predictions.labels[predictions.is_trusted]
        losses[weight] = F.cross_entropy(logits, labels, reduction="none")
        hits[weight] = int((logits.argmax(1) == labels).sum())
    least = min(losses.values(), key=lambda each: float(each.mean()))
    behind = {weight: each - least for weight, each in losses.items()}
    near = [
        weight
        for weight, each in behind.items()
        if float(each.mean()) <= float(each.std()) / len(each) ** 0.5
    ]
    return max(near, key=lambda weight: (hits[weight], -weight))
