r"""The least expected loss $\min_q p \cdot L(q)$ of a loss whose noise model nobody has derived.

By Savage's theorem a proper loss has the entropy $H(p) = \min_q p \cdot L(q)$. For any other loss
the same minimum is still a floor under the noisy risk, so *every* loss has a noise-bound. It is
found numerically: logits, L-BFGS, several starts, and a walk outwards from the best point, because
many losses (MAE, for one) are least at a vertex of the simplex, which logits only approach.

Classes with equal probability share one logit (all but one of them, so that a vertex among them
stays in reach) as long as the loss treats classes alike. The noise vector ``u_sym`` of a thousand
classes then takes three logits.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from noisebound.errors import InvalidValueError

ClassLosses: TypeAlias = Callable[
    [Float[Tensor, " classes"], Int[Tensor, " chosen"]], Float[Tensor, " chosen"]
]
"""``(logits, classes) -> L(q, k)`` for each chosen class ``k``."""

_STARTS = (1.0, 0.25, 4.0)  # multiples of log p: near p, flatter, sharper
_VERTEX_LOGIT = 30.0
_BASIN_LOGIT = 2.0  # a loss may have a minimum for each class that is predicted
_DOUBLINGS = 24
_SMALLEST_PROBABILITY = 1e-12  # stands in for zero where a start needs log p
_PROBE_CLASSES = 16
_BOTTOMLESS = -1e9  # no expected loss of any use lies below


def bayes_risk(
    class_losses: ClassLosses, p: Float[Tensor, "batch classes"]
) -> Float[Tensor, " batch"]:
    """``min_q p · L(q)`` for each distribution.

    Args:
        class_losses: the loss of a prediction, given as logits, on chosen classes.
        p: distributions, one a row, float64.

    Raises:
        ValueError: the loss has no minimum, or is not finite on any prediction.
    """
    with torch.inference_mode(False), torch.enable_grad(), torch.device("cpu"):
        alike = treats_classes_alike(class_losses, p.shape[1])
        rows = p.detach().cpu().clone()
        risks = torch.stack([_risk_of_one(class_losses, row, alike) for row in rows])
    return risks.to(p.device)


def treats_classes_alike(class_losses: ClassLosses, num_classes: int) -> bool:
    """Whether renaming the classes renames the losses, tried on one prediction."""
    generator = torch.Generator("cpu").manual_seed(0)
    logits = torch.randn(num_classes, generator=generator, dtype=torch.float64)
    renaming = torch.randperm(num_classes, generator=generator)
    chosen = torch.randperm(num_classes, generator=generator)[:_PROBE_CLASSES]
    with torch.no_grad():
        original = class_losses(logits, renaming[chosen])
        renamed = class_losses(logits[renaming], chosen)
    return torch.allclose(original, renamed, rtol=1e-5, atol=1e-7, equal_nan=True)


def _risk_of_one(class_losses: ClassLosses, p: Float[Tensor, " classes"], alike: bool) -> Tensor:
    risk = _Risk(class_losses, p, alike)
    candidates = [_descend(risk, start) for start in risk.starts()]
    value, logits = min(candidates, key=lambda candidate: candidate[0])
    if not np.isfinite(value):
        raise InvalidValueError(
            "the loss is not finite on any prediction that was tried, so its noise-bound cannot be "
            "found; it must take float64 logits [N, C] and class indices [N]"
        )
    return torch.tensor(_limit_along(risk, logits, value), dtype=torch.float64)


class _Risk:
    """The expected loss as a function of one logit a group of classes."""

    def __init__(self, class_losses: ClassLosses, p: Tensor, alike: bool) -> None:
        self.class_losses = class_losses
        self.group_of_class = _group_equal(p) if alike else torch.arange(len(p))
        groups = int(self.group_of_class.max()) + 1
        self.mass = torch.zeros(groups, dtype=p.dtype).index_add_(0, self.group_of_class, p)
        members = torch.arange(len(p))
        self.member = torch.zeros(groups, dtype=torch.long).index_copy_(
            0, self.group_of_class, members
        )
        self.member_probability = p[self.member]
        self.present = self.mass > 0

    def __call__(self, logits: Tensor) -> Tensor:
        losses = self.class_losses(logits[self.group_of_class], self.member[self.present])
        return (self.mass[self.present] * losses).sum()

    def starts(self) -> list[NDArray[np.float64]]:
        log_p = self.member_probability.clamp(min=_SMALLEST_PROBABILITY).log()
        near_p = [(factor * log_p).numpy() for factor in _STARTS]
        likeliest = self.member_probability.topk(min(3, len(log_p))).indices
        towards = [np.eye(len(log_p))[k] for k in likeliest]
        basins = [log_p.numpy() + _BASIN_LOGIT * vertex for vertex in towards]
        vertices = [_VERTEX_LOGIT * vertex for vertex in towards]
        return [*near_p, np.zeros(len(log_p)), *basins, *vertices]


def _group_equal(p: Tensor) -> Int[Tensor, " classes"]:
    """Number the classes by their probability, the first of each value apart from its peers."""
    _, by_value = torch.unique(p, return_inverse=True)
    seen: set[int] = set()
    split = []
    for value in by_value.tolist():
        split.append(2 * value + (value in seen))
        seen.add(value)
    groups: Tensor = torch.unique(torch.tensor(split), return_inverse=True)[1]
    return groups


def _descend(risk: _Risk, start: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """The risk and the logits where L-BFGS comes to rest; infinity where the risk is not finite."""

    def value_and_gradient(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logits = torch.tensor(flat, requires_grad=True)
        value = risk(logits)
        (gradient,) = torch.autograd.grad(value, logits)
        if not bool(torch.isfinite(value)) or not bool(torch.isfinite(gradient).all()):
            return np.inf, np.zeros_like(flat)
        if value < _BOTTOMLESS:
            raise _no_minimum(value.item())
        return value.item(), gradient.numpy()

    from scipy.optimize import minimize  # takes longer to import than all of noisebound

    found = minimize(
        value_and_gradient,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 500, "ftol": 1e-15, "gtol": 1e-11},
    )
    return float(found.fun), np.asarray(found.x)


def _limit_along(risk: _Risk, logits: NDArray[np.float64], value: float) -> float:
    """Follow the ray through the best point: a floor is approached ever more slowly, no floor not.

    Raises:
        ValueError: the risk still falls at a constant pace, however far out.
    """
    direction = torch.from_numpy(logits)
    least, last_fall = value, 0.0
    with torch.no_grad():
        for doubling in range(1, _DOUBLINGS + 1):
            further = risk(2.0**doubling * direction).item()
            if not np.isfinite(further):
                if further == -np.inf:
                    raise _no_minimum(least)
                break
            last_fall = least - further
            if last_fall <= 0:
                break
            least = further
    if last_fall > 1e-3 * (1 + abs(value)):
        raise _no_minimum(least)
    return least


def _no_minimum(reached: float) -> InvalidValueError:
    return InvalidValueError(
        f"the loss has no minimum: the expected loss was still falling at {reached:.3g}. A loss "
        "that is not bounded below has no floor; pass a bound of your own to BoundedLoss"
    )
