"""Bound a whole optimizer step, exactly also over micro-batches and ranks.

The gradient of the bounded loss is the gradient of the mean loss times a sign. So the accumulated
gradients are flipped just before the optimizer uses them: by :class:`StepBound` at every step of an
optimizer, or by :class:`GradientBound`, which the hooks of a framework call.
"""

from collections import defaultdict
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor
from torch.optim import Optimizer

from noisebound.bounded import BoundMonitor, Monitored
from noisebound.checks import best_precision, check_mean_loss, check_number
from noisebound.errors import InvalidTypeError, InvalidValueError, MisuseError


class GradientBound(Monitored):
    """Bounds one step of a training loop that calls it from its own hooks.

    Call :meth:`observe` for every micro-batch, then :meth:`apply` when all gradients are computed
    and before the optimizer uses them. The mean over all micro-batches and ranks is compared with
    the bound, and the gradients are flipped if it is below. Signs per micro-batch or per rank would
    disagree near the bound, where training stays. A step takes one all-reduce of two numbers.

    Args:
        bound: the level that the mean loss is held at; it may be changed at any time.
        process_group: the ranks that share a step; all ranks if not given.
        alone: True if this rank trains a model of its own; its mean loss is then not reduced.
    """

    def __init__(
        self, bound: float, process_group: dist.ProcessGroup | None = None, *, alone: bool = False
    ) -> None:
        self.bound = bound
        self.process_group, self.alone = process_group, alone
        self.monitor = BoundMonitor()
        self._observations: list[_Observation] = []

    @property
    def bound(self) -> float:
        """The level that the mean loss is held at."""
        return self._bound

    @bound.setter
    def bound(self, bound: float) -> None:
        self._bound = check_number("bound", bound)

    def observe(self, loss: Tensor, count: float | Tensor) -> None:
        """Add one micro-batch to the step.

        Args:
            loss: its mean loss, one number, neither divided nor scaled.
            count: the number of examples, or the sum of their weights.
        """
        check_mean_loss(loss)
        if not isinstance(count, Tensor) and not count >= 0:
            raise InvalidValueError(f"`count` must be a number of examples, got {count!r}")
        self._observations.append(_Observation(loss, count))

    @property
    def has_observed(self) -> bool:
        """True if a loss was observed for the next step and its gradients are computed."""
        return any(not seen.is_pending for seen in self._observations)

    def forget(self) -> None:
        """Drop the observed losses, because the step is not taken."""
        self._observations.clear()

    def sign(self, mean: Float[Tensor, ""]) -> Float[Tensor, ""]:
        """Count a step with this mean loss, and return +1 to descend or -1 to ascend."""
        return self.monitor.record(mean, self.bound)

    def apply(self, optimizer: Optimizer) -> None:
        """Flip the gradients of the optimizer's parameters if the mean loss is below the bound."""
        totals = torch.stack([seen.totals for seen in self._observations if not seen.is_pending])
        self.forget()
        total, count = self._over_ranks(totals.sum(0))
        multiply_gradients(optimizer, self.sign(total / count))

    def state_dict(self) -> dict[str, Any]:
        return {"bound": self.bound, "counts": self.monitor.state()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.bound = state_dict["bound"]
        self.monitor.load_state(state_dict["counts"])
        self.forget()

    def _over_ranks(self, totals: Float[Tensor, " two"]) -> Float[Tensor, " two"]:
        if not self.alone and dist.is_available() and dist.is_initialized():
            dist.all_reduce(totals, group=self.process_group)
        return totals


class StepBound(GradientBound):
    """Bounds every step of an optimizer, exactly also over micro-batches and ranks.

    Backpropagate the *plain* mean loss and pass it to :meth:`observe`. At ``optimizer.step()`` the
    mean of all losses observed since the last step, on all ranks, is compared with the bound, and
    the gradients are flipped if it is below. Clipping, ``DistributedDataParallel`` and
    ``GradScaler`` work as usual. Other terms of the objective, such as a penalty, are flipped as
    well; the optimizer's own weight decay is not.

    Args:
        optimizer: the optimizer whose ``step()`` and ``zero_grad()`` are hooked.
        bound: the level that the mean loss is held at; it may be changed at any time.
        process_group: the ranks that share a step; all ranks if not given.

    Example:
        >>> import noisebound as nb, torch
        >>> weight = torch.ones(1, requires_grad=True)
        >>> optimizer = torch.optim.SGD([weight], lr=0.1)
        >>> step_bound = nb.StepBound(optimizer, bound=2.0)
        >>> loss = weight.sum()  # 1 is below the bound, so the step raises it
        >>> step_bound.observe(loss, count=1)
        >>> loss.backward()
        >>> optimizer.step()
        >>> weight
        tensor([1.1000], requires_grad=True)
    """

    def __init__(
        self, optimizer: Optimizer, bound: float, process_group: dist.ProcessGroup | None = None
    ) -> None:
        super().__init__(bound, process_group)
        if not hasattr(optimizer, "_optimizer_step_pre_hooks"):  # Optimizer.__init__ sets it
            raise InvalidTypeError(
                f"{type(optimizer).__name__} has no hooks for its steps: pass the "
                "torch.optim.Optimizer that it wraps"
            )
        if isinstance(getattr(optimizer.zero_grad, "__self__", None), StepBound):
            raise InvalidValueError(
                "this optimizer already has a StepBound: remove() it, or change its bound"
            )
        self.optimizer = optimizer
        self._step_hook = optimizer.register_step_pre_hook(self._before_step)
        self._plain_zero_grad = optimizer.zero_grad
        optimizer.zero_grad = self._zero_grad  # type: ignore[method-assign]

    def observe(self, loss: float | Tensor, count: float | Tensor) -> None:
        """Add one micro-batch to the step.

        Pass the tensor that you backpropagate. It counts once its gradients are computed, until the
        optimizer's ``zero_grad`` zeroes them, as after a step that ``GradScaler`` skips. The
        model's ``zero_grad`` has the same effect only if it comes before ``observe``. A number or a
        detached tensor counts until the optimizer's next ``step`` or ``zero_grad``.

        Args:
            loss: its mean loss, neither divided by the number of micro-batches nor scaled.
            count: the number of examples, or the sum of their weights.
        """
        if self._observations and not has_gradients(self.optimizer):
            self._observations = [seen for seen in self._observations if not seen.was_used]
        if not isinstance(loss, Tensor):
            device = self.optimizer.param_groups[0]["params"][0].device
            loss = torch.tensor(loss, dtype=best_precision(device), device=device)
        super().observe(loss, count)

    def remove(self) -> None:
        """Remove the hooks from the optimizer."""
        self._step_hook.remove()
        del self.optimizer.zero_grad

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if any(callable(argument) for argument in (*args, *kwargs.values())):
            raise MisuseError(
                "StepBound cannot bound step(closure), which computes gradients after the bound "
                "was applied: call backward() before step(), or use BoundedLoss"
            )
        if not self.has_observed:
            raise MisuseError(
                "optimizer.step() was called without an observed loss that was backpropagated: "
                "call step_bound.observe(loss, count) for every micro-batch between zero_grad() "
                "and step(), or step_bound.remove() to train without the bound"
            )
        self.apply(optimizer)

    def _zero_grad(self, set_to_none: bool = True) -> None:
        self._plain_zero_grad(set_to_none)
        self._observations = [seen for seen in self._observations if seen.is_pending]


def has_gradients(optimizer: Optimizer) -> bool:
    """True if any of the optimizer's parameters has a gradient."""
    groups = optimizer.param_groups
    return any(parameter.grad is not None for group in groups for parameter in group["params"])


def multiply_gradients(optimizer: Optimizer, sign: Float[Tensor, ""]) -> None:
    """Multiply the gradients of all parameters by the sign of the step."""
    # On the CPU reading the sign is free and often saves the product; elsewhere it would stall.
    if sign.device.type == "cpu" and sign > 0:
        return
    by_device: dict[torch.device, list[Tensor]] = defaultdict(list)
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None:
                by_device[parameter.grad.device].append(parameter.grad)
    for device, gradients in by_device.items():
        torch._foreach_mul_(gradients, sign.to(device, torch.float32))


class _Observation:
    """One micro-batch: its loss, its count, and whether its gradients are computed."""

    def __init__(self, loss: Tensor, count: float | Tensor) -> None:
        precision = best_precision(loss.device)
        with torch.no_grad():
            mean = loss.to(precision)
            weight = torch.as_tensor(count, dtype=precision, device=loss.device)
            # The mean of no examples is NaN, and so is its product with zero.
            self.totals = torch.stack([torch.where(weight > 0, mean * weight, 0.0), weight])
        self.is_pending = loss.requires_grad  # until it is backpropagated
        self.was_used = False
        if loss.requires_grad:
            loss.register_hook(self._mark)  # type: ignore[no-untyped-call]

    def _mark(self, gradient: Tensor) -> None:
        self.is_pending, self.was_used = False, True
