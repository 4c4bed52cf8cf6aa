r"""The least expected loss $\min_q p \cdot L(q)$, for a loss whose noise model is not known.

By Savage's theorem a proper loss has the entropy $H(p) = \min_q p \cdot L(q)$. For any other loss
that minimum is still a floor under the noisy risk, so every loss that is bounded below has a
noise-bound. L-BFGS searches it over the logits, from the best of several starts. From the best
point the search continues outwards, because finite logits only approach a vertex of the simplex,
where losses such as MAE are least.

If the loss treats all classes alike, classes of equal probability share one logit, except for one
of them, so that its vertex can still be reached. The noise vector ``u_sym`` of a thousand classes
then takes three logits. For up to three logits, a grid over their differences finds all local
minima. For more, a warning says if the searches disagree.
"""

import itertools
import warnings
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from noisebound.checks import frames_to_caller
from noisebound.errors import InvalidValueError

ClassLosses: TypeAlias = Callable[
    [Float[Tensor, "rows classes"], Int[Tensor, " rows"]], Float[Tensor, " rows"]
]
"""A function ``(logits, labels)`` that returns ``L(q, y)`` for each row of logits and its label."""

# Heuristic numbers; with them the search finds every closed form in the tests.
_STARTS = (1.0, 0.25, 4.0)  # multiples of log p: p itself, a flatter and a sharper prediction
_VERTEX_LOGIT = 30.0  # the other classes then have a probability of about 1e-13
_BASIN_LOGIT = 2.0  # raises one class: a loss may have one local minimum per predicted class
_DOUBLINGS = 24  # how often the best logits are doubled on the way to a vertex
_SMALLEST_PROBABILITY = 1e-12  # replaces zero, which has no logarithm to start from
_SEARCHES = 4  # at most, from the best of the starts
_SCANNED_GROUPS = 3  # as many logits as a scan takes
_SCANNED_LOGITS = np.linspace(-4.0, 4.0, 25)  # a third of a unit apart
_SCANNED_AT_ONCE = 2**20  # logits per call of the loss: 8 MB
_AGREEMENT = 1e-3  # relative difference of two searches that found the same minimum
_PROBE_CLASSES = 16  # how many classes are compared to see if all are treated alike
_BOTTOMLESS = -1e9  # a risk below this is taken as unbounded
_STILL_FALLING = 1e-3  # with a larger relative fall by the last doubling, there is no minimum


class BoundSearchWarning(UserWarning):
    """The least expected loss was found by one search only, so there may be a lower one."""


def bayes_risk(
    class_losses: ClassLosses, p: Float[Tensor, "batch classes"]
) -> Float[Tensor, " batch"]:
    """Return ``min_q p · L(q)`` of distributions in float64; refuse a loss without a minimum."""
    with torch.inference_mode(False), torch.enable_grad(), torch.device("cpu"):
        alike = treats_classes_alike(class_losses, p.shape[1])
        rows = p.detach().cpu().clone()
        risks = torch.stack([_risk_of_one(class_losses, row, alike) for row in rows])
    return risks.to(p.device)


def treats_classes_alike(class_losses: ClassLosses, num_classes: int) -> bool:
    """True if renaming the classes only renames the losses, judged by one prediction."""
    generator = torch.Generator("cpu").manual_seed(0)
    logits = torch.randn(num_classes, generator=generator, dtype=torch.float64)
    renaming = torch.randperm(num_classes, generator=generator)
    chosen = torch.randperm(num_classes, generator=generator)[:_PROBE_CLASSES]
    with torch.no_grad():
        original = class_losses(logits.expand(len(chosen), -1), renaming[chosen])
        renamed = class_losses(logits[renaming].expand(len(chosen), -1), chosen)
    return torch.allclose(original, renamed, rtol=1e-5, atol=1e-7, equal_nan=True)


def _risk_of_one(class_losses: ClassLosses, p: Float[Tensor, " classes"], alike: bool) -> Tensor:
    """Return the least risk: from all minima of a scan, or else until two searches agree."""
    risk = _Risk(class_losses, p, alike)
    found: list[tuple[float, NDArray[np.float64]]] = []
    is_confirmed = False
    for start in risk.best_starts():
        found.append(_descend(risk, start))
        least = min(value for value, _ in found)
        is_confirmed = sum(v <= least + _AGREEMENT * (1 + abs(least)) for v, _ in found) > 1
        if is_confirmed and not risk.is_scanned:
            break
    value, logits = min(found, key=lambda each: each[0])
    if not np.isfinite(value):
        raise InvalidValueError(
            "the loss is not finite on any prediction that was tried, so it has no noise-bound: it "
            "must accept float64 logits [N, C] and class indices [N]"
        )
    if not is_confirmed:
        warnings.warn(
            f"only one of the searches for the least expected loss found {value:.4g}: there may be "
            "a lower minimum. Compare the bound with your losses, or pass `bound` to BoundedLoss",
            BoundSearchWarning,
            stacklevel=frames_to_caller(),
        )
    return torch.tensor(_limit_along(risk, logits, value), dtype=torch.float64)


class _Risk:
    """The expected loss as a function of the logits, one per group of classes."""

    def __init__(self, class_losses: ClassLosses, p: Tensor, alike: bool) -> None:
        self.class_losses = class_losses
        self.group_of_class = _group_equal(p) if alike else torch.arange(len(p))
        groups = int(self.group_of_class.max()) + 1
        self.mass = torch.zeros(groups, dtype=p.dtype).index_add_(0, self.group_of_class, p)
        self.member = torch.zeros(groups, dtype=torch.long)
        self.member.index_copy_(0, self.group_of_class, torch.arange(len(p)))
        self.member_probability = p[self.member]
        self.present = self.mass > 0
        self.is_scanned = groups <= _SCANNED_GROUPS

    def __call__(self, logits: Float[Tensor, "points groups"]) -> Float[Tensor, " points"]:
        """Return the risk of each of these logits."""
        labels = self.member[self.present]
        rows = logits[:, self.group_of_class].repeat_interleave(len(labels), 0)
        losses = self.class_losses(rows, labels.repeat(len(logits)))
        return losses.view(len(logits), -1) @ self.mass[self.present]

    def at_points(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the risk of many logits; it is infinite where it is not finite."""
        at_once = max(1, _SCANNED_AT_ONCE // (len(self.group_of_class) * len(self.mass)))
        risks = [self(chunk) for chunk in torch.split(torch.from_numpy(points), at_once)]
        return torch.cat(risks).nan_to_num(np.inf, np.inf, np.inf).numpy()

    def best_starts(self) -> list[NDArray[np.float64]]:
        """Return the starts with the least risk, and all minima of a scan if that is possible."""
        with torch.no_grad():
            starts = self._starts()
            order = self.at_points(np.array(starts)).argsort(kind="stable")
            starts = [starts[k] for k in order[:_SEARCHES]]
            if self.is_scanned:
                starts += self._minima_of_scan()
        return starts

    def _minima_of_scan(self) -> list[NDArray[np.float64]]:
        """Return the lowest points of a grid that lie below their neighbors on it."""
        from scipy.ndimage import minimum_filter  # slower to import than all of noisebound

        free = len(self.mass) - 1
        points = np.array(
            [(*logits, 0.0) for logits in itertools.product(_SCANNED_LOGITS, repeat=free)]
        )
        shape = (len(_SCANNED_LOGITS),) * free
        risks = self.at_points(points).reshape(shape)
        is_lowest = (risks == minimum_filter(risks, size=3)) & np.isfinite(risks)
        minima = np.flatnonzero(is_lowest)
        best = minima[risks.flat[minima].argsort(kind="stable")][: 2 * _SEARCHES]
        return list(points[best])

    def _starts(self) -> list[NDArray[np.float64]]:
        log_p = self.member_probability.clamp(min=_SMALLEST_PROBABILITY).log()
        near_p = [(factor * log_p).numpy() for factor in _STARTS]
        likeliest = self.member_probability.topk(min(3, len(log_p))).indices
        towards = [np.eye(len(log_p))[k] for k in likeliest]
        basins = [log_p.numpy() + _BASIN_LOGIT * vertex for vertex in towards]
        vertices = [_VERTEX_LOGIT * vertex for vertex in towards]
        return [*near_p, np.zeros(len(log_p)), *basins, *vertices]


def _group_equal(p: Tensor) -> Int[Tensor, " classes"]:
    """Return each class's group: one per probability, and one for its first class alone."""
    _, by_value = torch.unique(p, return_inverse=True)
    seen: set[int] = set()
    split = []
    for value in by_value.tolist():
        split.append(2 * value + (value in seen))
        seen.add(value)
    groups: Tensor = torch.unique(torch.tensor(split), return_inverse=True)[1]
    return groups


def _descend(risk: _Risk, start: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """Return the risk and the logits where L-BFGS stops; infinity stands for NaN."""

    def value_and_gradient(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logits = torch.tensor(flat, requires_grad=True)
        value = risk(logits[None])[0]
        (gradient,) = torch.autograd.grad(value, logits)
        if not bool(torch.isfinite(value)) or not bool(torch.isfinite(gradient).all()):
            return np.inf, np.zeros_like(flat)
        if value < _BOTTOMLESS:
            raise _no_minimum(value.item())
        return value.item(), gradient.numpy()

    from scipy.optimize import minimize  # slower to import than all of noisebound

    found = minimize(
        value_and_gradient,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 200, "ftol": 1e-10, "gtol": 1e-7},
    )
    return float(found.fun), np.asarray(found.x)


def _limit_along(risk: _Risk, logits: NDArray[np.float64], value: float) -> float:
    """Return the least risk on the ray from the origin through the best logits.

    Near a floor, the risk falls more and more slowly; if it keeps falling, there is no floor.
    """
    direction = torch.from_numpy(logits)
    least, last_fall = value, 0.0
    with torch.no_grad():
        for doubling in range(1, _DOUBLINGS + 1):
            further = risk(2.0**doubling * direction[None]).item()
            if not np.isfinite(further):
                if further == -np.inf:
                    raise _no_minimum(least)
                break
            last_fall = least - further
            if last_fall <= 0:
                break
            least = further
    if last_fall > _STILL_FALLING * (1 + abs(value)):
        raise _no_minimum(least)
    return least


def _no_minimum(reached: float) -> InvalidValueError:
    return InvalidValueError(
        f"the loss has no minimum: its expected value was still falling at {reached:.3g}. So it "
        "has no floor; pass `bound` to BoundedLoss instead"
    )
