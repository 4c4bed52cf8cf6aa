"""Train with ``|mean loss - B|`` (paper, Definition "Bounded Loss" and Algorithm 1).

The gradient of the bounded loss is the gradient of the mean loss times a sign, so there are two
ways to compute it. :class:`BoundedLoss` takes the absolute value for one batch.
:class:`GradientBound` flips the accumulated gradients just before the optimizer uses them; for one
batch this is the same, and it stays exact when a step spans micro-batches and ranks.
:class:`StepBound` does so whenever the optimizer steps. In a framework that owns the training loop,
the framework's hooks call :class:`GradientBound`.
"""

import warnings
from collections import defaultdict
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.optim import Optimizer

from noisebound.bounds import AnyLoss, noise_bound
from noisebound.checks import ArrayLike, check_finite_number, frames_to_caller
from noisebound.errors import InvalidTypeError, InvalidValueError, MisuseError
from noisebound.losses import Loss, RememberingLoss


class ClassCountWarning(UserWarning):
    """The noise-bound was computed for fewer classes than there are logits."""


def step_sign(mean: Float[Tensor, ""], bound: float) -> Float[Tensor, ""]:
    """Return the sign of a bounded step: +1 to descend above the bound, -1 to ascend below it.

    It is 0 exactly at the bound. The mean of no examples is NaN; its step stays as it is.
    """
    return torch.sign((mean.detach() - bound).nan_to_num(nan=1.0))


class BoundMonitor:
    """Counts how often the mean loss was below its bound. Recording never waits for the device."""

    def __init__(self) -> None:
        self.last_mean = torch.tensor(float("nan"))
        self.last_below = torch.tensor(False)
        self.batches = torch.tensor(0)  # a Python number would make a compiled loss recompile
        self.batches_below = torch.tensor(0)

    def record(self, mean: Float[Tensor, ""], bound: float) -> Float[Tensor, ""]:
        """Count one step with this mean loss, and return the sign of the step."""
        sign = step_sign(mean, bound)
        self.last_mean = mean.detach()
        self.last_below = sign < 0
        self.batches.add_(1)
        self.batches_below = self.batches_below + self.last_below  # moves to the loss's device
        return sign

    def state(self) -> Int[Tensor, " two"]:
        """Return the number of batches, and of those below the bound."""
        return torch.stack([self.batches, self.batches_below.cpu()])

    def load_state(self, state: Int[Tensor, " two"]) -> None:
        """Continue counting from a :meth:`state`."""
        self.batches, self.batches_below = state.cpu().clone()


class Monitored:
    """Has the counts of its ``monitor`` as attributes; reading one waits for the device."""

    monitor: BoundMonitor

    @property
    def raw_mean(self) -> float:
        """The mean loss of the last batch, without the bound; NaN before the first batch."""
        return self.monitor.last_mean.item()

    @property
    def is_below(self) -> bool:
        """True if the last batch was below the bound, so that its step raised the loss."""
        return bool(self.monitor.last_below)

    @property
    def share_below(self) -> float:
        """The share of batches that were below the bound; 0 before the first batch."""
        return self.monitor.batches_below.item() / max(1, int(self.monitor.batches))


class BoundedLoss(Monitored, nn.Module):
    """``|mean loss - bound|`` in training mode, the plain mean in evaluation mode.

    Below the bound the gradient changes its sign, and training raises the loss until it is above
    the bound again. This is for one batch per step; with micro-batches or several ranks use
    :class:`StepBound`.

    Args:
        loss: a noisebound loss, or any function or module of ``(logits, labels)`` that returns one
            loss per example, or their mean.
        bound: the level that the mean loss is held at, a finite number.

    Example:
        >>> import noisebound as nb, torch
        >>> criterion = nb.BoundedLoss(nb.CrossEntropy(), bound=1.55)
        >>> criterion(torch.zeros(1, 4), torch.tensor([0]))
        tensor(0.1637)
        >>> criterion.is_below
        True
        >>> criterion.eval()(torch.zeros(1, 4), torch.tensor([0]))
        tensor(1.3863)
    """

    def __init__(self, loss: AnyLoss, bound: float) -> None:
        super().__init__()
        if not callable(loss) or isinstance(loss, type):
            raise InvalidTypeError(
                "`loss` must be a module or a function of (logits, labels), such as "
                f"CrossEntropy(); got {loss!r}"
            )
        if getattr(loss, "reduction", "mean") == "sum":
            raise InvalidValueError(
                "the bound applies to the mean loss, and this loss gives the sum: create it with "
                "`reduction` 'mean' or 'none'"
            )
        self.loss = loss
        self.bound = check_finite_number("bound", bound)
        self.monitor = BoundMonitor()

    def forward(
        self, logits: Tensor, labels: Tensor, indices: Tensor | None = None
    ) -> Float[Tensor, ""]:
        """Return ``|mean loss - bound|``, in evaluation mode the mean loss.

        Args:
            logits: of shape ``[N, C]`` or ``[N, C, d1, …]``.
            labels: class indices of shape ``[N]`` or ``[N, d1, …]``, or class probabilities of the
                logits' shape.
            indices: the examples' positions in the training set, of shape ``[N]``, for a loss that
                remembers its examples.
        """
        self.check_batch(logits, labels)
        arguments = (logits, labels) if indices is None else (logits, labels, indices)
        if isinstance(self.loss, Loss):
            if indices is not None and not isinstance(self.loss, RememberingLoss):
                raise InvalidValueError(
                    f"{type(self.loss).__name__} does not remember its examples: leave out "
                    "`indices`"
                )
            mean = self.loss.reduced("mean", *arguments)
        else:
            mean = _mean(self.loss(*arguments), labels, getattr(self.loss, "ignore_index", None))
        if not self.training:
            return mean
        return self.monitor.record(mean, self.bound) * (mean - self.bound)

    def check_batch(self, logits: Tensor, labels: Tensor) -> None:
        """Refuse a batch that does not fit the bound; any batch fits a bound that is given."""

    def get_extra_state(self) -> Int[Tensor, " two"]:
        """Return the counts, which ``state_dict`` saves."""
        return self.monitor.state()

    def set_extra_state(self, state: Int[Tensor, " two"]) -> None:
        """Restore the counts, for ``load_state_dict``."""
        self.monitor.load_state(state)

    def extra_repr(self) -> str:
        """Return the bound, for the repr."""
        return f"bound={self.bound:.6g}"


def _mean(losses: Tensor, labels: Tensor, ignore_index: int | None) -> Tensor:
    """Return the mean of a foreign loss, without the zeros that it gives to ignored labels."""
    if ignore_index is None or losses.ndim == 0 or labels.is_floating_point():
        return losses.mean()
    return losses.sum() / (labels != ignore_index).sum()


class NoiseBoundedLoss(BoundedLoss):
    """A :class:`BoundedLoss` whose bound is the noise-bound ``B(η, c)``: the "+B" of the paper.

    Args:
        loss: a noisebound loss, or any function or module of ``(logits, labels)`` that returns one
            loss per example, or their mean.
        noise_rate: η, the probability that a label changes, in ``[0, 1]``.
        num_classes: c in the bound, usually the number of logits. A smaller c gives a lower bound,
            for noise that confuses each class with ``c - 1`` others only; the first call then warns
            with a :class:`ClassCountWarning`.
        class_prior: the share of each true class, summing to one; needed only with class weights.

    Example:
        >>> import noisebound as nb
        >>> nb.NoiseBoundedLoss(nb.SymmetricCrossEntropy(A=8.0), noise_rate=0.4, num_classes=10)
        NoiseBoundedLoss(
          bound=5.49469, noise_rate=0.4, num_classes=10
          (loss): SymmetricCrossEntropy(A=8)
        )
    """

    def __init__(
        self,
        loss: AnyLoss,
        noise_rate: float,
        num_classes: int,
        class_prior: ArrayLike | None = None,
    ) -> None:
        super().__init__(loss, float(noise_bound(loss, noise_rate, num_classes, class_prior)))
        self.noise_rate = float(noise_rate)
        self.num_classes = int(num_classes)
        self._has_warned = False

    def check_batch(self, logits: Tensor, labels: Tensor) -> None:
        """Refuse fewer logits than classes in the bound, and class weights for probabilities."""
        self.check_number_of_logits(logits)
        if labels.is_floating_point() and getattr(self.loss, "weight", None) is not None:
            raise InvalidValueError(
                "with class weights the noise-bound holds only if the labels are class indices: "
                "for probabilities torch's mean does not divide by the weights"
            )

    def check_number_of_logits(self, logits: Tensor) -> None:
        """Refuse logits ``[N, C, …]`` of fewer classes than the bound has; warn once about more."""
        if logits.ndim < 2 or logits.shape[1] == self.num_classes:
            return
        if logits.shape[1] < self.num_classes:
            raise InvalidValueError(
                f"the bound was computed for `num_classes` {self.num_classes}, and these are "
                f"logits of {logits.shape[1]} classes, for which it is too high: pass at most "
                f"num_classes={logits.shape[1]}"
            )
        if not self._has_warned:
            self._has_warned = True
            _warn_of_classes(logits.shape[1], self.num_classes)

    def extra_repr(self) -> str:
        """Return the bound and its origin, for the repr."""
        origin = f"noise_rate={self.noise_rate:g}, num_classes={self.num_classes}"
        return f"{super().extra_repr()}, {origin}"


def _warn_of_classes(logits: int, num_classes: int) -> None:
    warnings.warn(
        f"the bound was computed for num_classes={num_classes}, and there are {logits} logits: "
        f"pass num_classes={logits}, unless each class is confused with at most {num_classes - 1} "
        "others. To keep the bound and silence this, call warnings.filterwarnings('ignore', "
        "category=noisebound.ClassCountWarning)",
        ClassCountWarning,
        stacklevel=frames_to_caller(),
    )


# torch.compile then warns while it traces. The decorator, torch.compiler.assume_constant_result,
# sets the same mark but imports the compiler, which takes seconds.
_warn_of_classes._dynamo_marked_constant = True  # type: ignore[attr-defined]


class GradientBound(Monitored):
    """Bounds one step of a training loop that calls it from its own hooks.

    Call :meth:`observe` for every micro-batch, then :meth:`apply` when all gradients are computed
    and before the optimizer uses them. The mean over all micro-batches and ranks is compared with
    the bound, and the gradients are flipped if it is below. Signs per micro-batch or per rank would
    disagree near the bound, which is where training stays. A step takes one all-reduce of two
    numbers.

    Args:
        bound: the level that the mean loss is held at; it may be changed at any time.
        process_group: the ranks that share a step; all ranks if not given.
    """

    def __init__(self, bound: float, process_group: dist.ProcessGroup | None = None) -> None:
        self.bound = bound
        self.process_group = process_group
        self.monitor = BoundMonitor()
        self._observations: list[_Observation] = []

    @property
    def bound(self) -> float:
        """The level that the mean loss is held at; it may be changed at any time."""
        return self._bound

    @bound.setter
    def bound(self, bound: float) -> None:
        self._bound = check_finite_number("bound", bound)

    def observe(self, loss: Tensor, count: float | Tensor) -> None:
        """Add one micro-batch to the step.

        Args:
            loss: its mean loss, one number, neither divided nor scaled.
            count: the number of examples, or the sum of their weights.
        """
        if loss.ndim != 0:
            shape = tuple(loss.shape)
            raise InvalidValueError(
                f"observe takes the mean loss, one number, got a tensor of shape {shape}"
            )
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
        counted = [seen.totals for seen in self._observations if not seen.is_pending]
        self.forget()
        mean = self._global_mean(torch.stack(counted).sum(0))
        multiply_gradients(optimizer, self.sign(mean))

    def state_dict(self) -> dict[str, Any]:
        """Return the bound and the counts, for a checkpoint between two steps."""
        return {"bound": self.bound, "counts": self.monitor.state()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue with the bound and the counts of a :meth:`state_dict`."""
        self.bound = state_dict["bound"]
        self.monitor.load_state(state_dict["counts"])
        self.forget()

    def _global_mean(self, totals: Float[Tensor, " two"]) -> Float[Tensor, ""]:
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(totals, group=self.process_group)
        return totals[0] / totals[1]


class StepBound(GradientBound):
    """Bounds every step of an optimizer, exactly also over micro-batches and ranks.

    Backpropagate the *plain* mean loss and pass it to :meth:`observe`. When ``optimizer.step()``
    runs, the mean over everything observed since the last step, on all ranks, is compared with the
    bound, and the gradients are flipped if it is below. Clipping, ``DistributedDataParallel`` and
    ``GradScaler`` work as usual. Other terms of the objective, such as a penalty added to the loss,
    are flipped as well; the optimizer's own weight decay is not.

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
        _refuse_without_hooks(optimizer)
        if isinstance(getattr(optimizer.zero_grad, "__self__", None), StepBound):
            raise InvalidValueError(
                "this optimizer already has a StepBound, and two would undo each other: remove() "
                "the first one, or change its bound"
            )
        self.optimizer = optimizer
        self._step_hook = optimizer.register_step_pre_hook(self._before_step)
        self._plain_zero_grad = optimizer.zero_grad
        optimizer.zero_grad = self._zero_grad  # type: ignore[method-assign]

    def observe(self, loss: float | Tensor, count: float | Tensor) -> None:
        """Add one micro-batch to the step.

        Pass the tensor that you backpropagate. It counts once its gradients are computed, and is
        forgotten when the optimizer's ``zero_grad`` zeroes them, as after a step that
        ``GradScaler`` skips. The model's ``zero_grad`` has the same effect only if it comes before
        ``observe``. A number or a detached tensor counts until the optimizer's next ``step`` or
        ``zero_grad``.

        Args:
            loss: its mean loss, neither divided by the number of micro-batches nor scaled.
            count: the number of examples, or the sum of their weights.
        """
        if self._observations and not has_gradients(self.optimizer):
            self._observations = [seen for seen in self._observations if not seen.was_used]
        if not isinstance(loss, Tensor):
            device = self.optimizer.param_groups[0]["params"][0].device
            loss = torch.tensor(loss, dtype=_precision(device), device=device)
        super().observe(loss, count)

    def remove(self) -> None:
        """Remove the hooks from the optimizer."""
        self._step_hook.remove()
        del self.optimizer.zero_grad

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if any(callable(argument) for argument in (*args, *kwargs.values())):
            raise MisuseError(
                "StepBound cannot bound step(closure), as the closure computes new gradients after "
                "the bound was applied: call backward() before step(), or use BoundedLoss"
            )
        if not self.has_observed:
            raise MisuseError(
                "optimizer.step() was called without an observed loss that was backpropagated: "
                "between zero_grad() and step() call step_bound.observe(loss, count) for every "
                "micro-batch, or call step_bound.remove() to train without the bound"
            )
        self.apply(optimizer)

    def _zero_grad(self, set_to_none: bool = True) -> None:
        self._plain_zero_grad(set_to_none)
        self._observations = [seen for seen in self._observations if seen.is_pending]


def _refuse_without_hooks(optimizer: Any) -> None:
    """Refuse a wrapper without hooks; the error names the optimizer that it wraps."""
    if hasattr(optimizer, "_optimizer_step_pre_hooks"):  # torch.optim.Optimizer.__init__ sets it
        return
    name = type(optimizer).__name__
    wrapped = [
        f"optimizer.{attribute}, the {type(value).__name__} that it wraps"
        for attribute, value in getattr(optimizer, "__dict__", {}).items()
        if isinstance(value, Optimizer)
    ]
    remedy = wrapped[0] if wrapped else "the torch.optim.Optimizer that takes its steps"
    raise InvalidTypeError(
        f"StepBound hooks the steps of an optimizer, and {name} has no hooks: pass {remedy}"
    )


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


def _precision(device: torch.device) -> torch.dtype:
    """Return the most precise type that the device has."""
    return torch.float32 if device.type == "mps" else torch.float64


class _Observation:
    """One micro-batch: its loss, its count, and whether its gradients are computed."""

    def __init__(self, loss: Tensor, count: float | Tensor) -> None:
        precision = _precision(loss.device)
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
