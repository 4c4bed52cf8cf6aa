"""Train with ``|mean loss - B|`` (paper, Definition "Bounded Loss" and Algorithm 1).

:class:`BoundedLoss` takes the absolute value for one batch. If a step spans micro-batches or ranks,
use :mod:`noisebound.step_bound`, which flips the accumulated gradients instead.
"""

import warnings
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from noisebound.bounds import AnyLoss, label_entropies, label_transitions, noise_bound
from noisebound.checks import ArrayLike, check_number, check_per_label, frames_to_caller
from noisebound.errors import InvalidTypeError, InvalidValueError
from noisebound.losses import Loss, PerLabel, RememberingLoss


class ClassCountWarning(UserWarning):
    """The noise-bound was computed for fewer classes than there are logits."""


def step_sign(mean: Float[Tensor, ""], bound: float | Tensor) -> Float[Tensor, ""]:
    """Return +1 to descend above the bound, -1 to ascend below it, and 0 at it.

    The mean of no examples is NaN; its step stays as it is.
    """
    return torch.sign((mean.detach() - bound).nan_to_num(nan=1.0))


class BoundMonitor:
    """Counts how often the mean loss is below its bound. Recording does not wait for the device."""

    def __init__(self) -> None:
        self.last_mean = torch.tensor(float("nan"))
        self.last_below = torch.tensor(False)
        self.batches = torch.tensor(0)  # a Python number would make a compiled loss recompile
        self.batches_below = torch.tensor(0)

    def record(self, mean: Float[Tensor, ""], bound: float | Tensor) -> Float[Tensor, ""]:
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
        self.batches, self.batches_below = state.cpu().clone()


class Monitored:
    """Shows the counts of its ``monitor``; reading one waits for the device."""

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
        bound: the level that the mean loss is held at.

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
                f"`loss` must be a module or a function, such as CrossEntropy(); got {loss!r}"
            )
        if getattr(loss, "reduction", "mean") == "sum":
            raise InvalidValueError(
                "the bound applies to the mean loss, and this loss gives the sum: create it with "
                "`reduction` 'mean' or 'none'"
            )
        self.loss = loss
        self.bound = bound
        self.monitor = BoundMonitor()

    @property
    def bound(self) -> float:
        """The level that the mean loss is held at."""
        return float(self._bound)

    @bound.setter
    def bound(self, bound: float) -> None:
        if getattr(self, "floors", None) is not None:
            raise InvalidValueError(
                "each label is held at its own floor, and `bound` is their mean: to hold all at "
                "one level, use BoundedLoss(loss, bound)"
            )
        self._bound: float | Tensor = check_number("bound", bound)

    def forward(
        self, logits: Tensor, labels: Tensor, indices: Tensor | None = None
    ) -> Float[Tensor, ""]:
        """Return ``|mean loss - bound|``, in evaluation mode the mean loss.

        Args:
            logits: as the loss takes them.
            labels: as the loss takes them.
            indices: the examples' positions in the training set, for a loss that remembers them.
        """
        self.check_batch(logits, labels)
        arguments = (logits, labels) if indices is None else (logits, labels, indices)
        if isinstance(self.loss, Loss):
            if indices is not None and not isinstance(self.loss, RememberingLoss):
                name = type(self.loss).__name__
                raise InvalidValueError(f"{name} does not remember its examples: omit `indices`")
            mean = self.loss.reduced("mean", *arguments)
        else:
            mean = _mean(self.loss(*arguments), labels, getattr(self.loss, "ignore_index", None))
        if not self.training:
            return mean
        return self.monitor.record(mean, self._bound) * (mean - self._bound)

    def check_batch(self, logits: Tensor, labels: Tensor) -> None:
        """Refuse a batch that does not fit the bound; any batch fits a bound that is given."""

    def get_extra_state(self) -> Int[Tensor, " two"]:  # for state_dict
        return self.monitor.state()

    def set_extra_state(self, state: Int[Tensor, " two"]) -> None:
        self.monitor.load_state(state)

    def extra_repr(self) -> str:
        return f"bound={self.bound:.6g}"


def _mean(losses: Tensor, labels: Tensor, ignore_index: int | None) -> Tensor:
    """Return the mean of a foreign loss, without the zeros that it gives to ignored labels."""
    if ignore_index is None or losses.ndim == 0 or labels.is_floating_point():
        return losses.mean()
    return losses.sum() / (labels != ignore_index).sum()


class NoiseBoundedLoss(BoundedLoss):
    """A :class:`BoundedLoss` whose bound is the noise-bound ``B(η, c)``: the "+B" of the paper.

    For multi-label data, pass a loss per label, such as `BinaryCrossEntropy`, and the rates
    ``(missed, added)`` of its labels. Each label is held at its own floor, and `bound` is their
    mean. A floor depends on the share of examples to which the label truly belongs; by default that
    share follows from the labels of all batches so far.

    Args:
        loss: a noisebound loss, or any function or module of ``(logits, labels)`` that returns one
            loss per example, or their mean.
        noise_rate: η, the probability that a label changes, in ``[0, 1]``; for a loss per label the
            rates ``(missed, added)``, each one number or one per label.
        num_classes: c in the bound, usually the number of logits. A smaller c, for noise that
            confuses each class with ``c - 1`` others only, causes a :class:`ClassCountWarning`. For
            a loss per label, the number of labels.
        class_prior: the share of each true class, summing to one; needed only with class weights.
            For a loss per label, the share of examples to which each label truly belongs.

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
        noise_rate: float | tuple[ArrayLike, ArrayLike],
        num_classes: int,
        class_prior: ArrayLike | None = None,
    ) -> None:
        rates: Any = noise_rate
        rates = rates.tolist() if hasattr(rates, "tolist") else rates
        floors = None
        if isinstance(loss, PerLabel):
            rates = tuple(rates) if isinstance(rates, list) else rates
            floors = _LabelFloors(loss, rates, num_classes, class_prior)
            bound = floors.of_shares().mean()
        else:
            bound = noise_bound(loss, rates, num_classes, class_prior)
        super().__init__(loss, float(bound))
        self.floors = floors
        self.noise_rate = rates if isinstance(rates, tuple) else float(rates)
        self.num_classes = int(num_classes)
        self._has_warned = False

    def forward(
        self, logits: Tensor, labels: Tensor, indices: Tensor | None = None
    ) -> Float[Tensor, ""]:
        """Return ``|mean loss - bound|``, in evaluation mode the mean loss.

        For a loss per label it is the mean of these over the labels.
        """
        loss = self.loss
        if self.floors is None or not isinstance(loss, PerLabel) or not self.training:
            return super().forward(logits, labels, indices)
        self.check_batch(logits, labels)
        losses, weights = loss.weighted_losses(logits, labels)
        axes = [0, *range(2, losses.ndim)]
        sums = losses.sum(axes)
        counts = (torch.ones_like(losses) if weights is None else weights).sum(axes)
        floors, total = self.floors(labels).to(sums) * counts, counts.sum()
        self._bound = floors.sum() / total
        self.monitor.record(sums.sum() / total, self._bound)
        bounded: Tensor = (sums - floors).abs().sum() / total
        return bounded

    def check_batch(self, logits: Tensor, labels: Tensor) -> None:
        """Refuse fewer logits than classes in the bound, and class weights for probabilities."""
        if isinstance(self.loss, PerLabel):
            if logits.shape[1:2] != (self.num_classes,):
                raise InvalidValueError(
                    f"the bound was computed for {self.num_classes} labels (`num_classes`), got "
                    f"logits of shape {tuple(logits.shape)}"
                )
            return
        self.check_number_of_logits(logits)
        if labels.is_floating_point() and getattr(self.loss, "weight", None) is not None:
            raise InvalidValueError(
                "with class weights the noise-bound holds only for class indices: the mean over "
                "class probabilities does not divide by the weights"
            )

    def check_number_of_logits(self, logits: Tensor) -> None:
        """Refuse logits ``[N, C, …]`` of fewer classes than the bound has; warn once about more."""
        if logits.ndim < 2 or logits.shape[1] == self.num_classes:
            return
        if logits.shape[1] < self.num_classes:
            raise InvalidValueError(
                f"the bound was computed for `num_classes` {self.num_classes}, and these are "
                f"logits of {logits.shape[1]} classes: pass at most num_classes={logits.shape[1]}"
            )
        if not self._has_warned:
            self._has_warned = True
            _warn_of_classes(logits.shape[1], self.num_classes)

    def extra_repr(self) -> str:
        rate = self.noise_rate if isinstance(self.noise_rate, tuple) else f"{self.noise_rate:g}"
        origin = f"noise_rate={rate}, num_classes={self.num_classes}"
        return f"{super().extra_repr()}, {origin}"


class _LabelFloors(nn.Module):
    """The floor of each label, by the share of examples to which it truly belongs.

    That share ``π`` is given, or it follows from the share ``s`` of observed labels in all batches
    so far, as ``(s - ρ⁺) / (1 - ρ⁻ - ρ⁺)``. Their share in one batch is too noisy for rare labels.
    """

    added: Tensor
    kept: Tensor
    entropies: Tensor
    prior: Tensor | None
    share: Tensor
    given: Tensor

    def __init__(
        self, loss: PerLabel, noise_rate: Any, num_labels: int, class_prior: ArrayLike | None
    ) -> None:
        super().__init__()
        transitions = label_transitions(noise_rate, num_labels)
        added, kept = transitions[:, 1].unbind(1)
        prior = None
        if class_prior is not None:
            prior = check_per_label("class_prior", class_prior, num_labels).float()
        elif bool((added >= kept).any()):
            label = int((added >= kept).nonzero()[0])
            raise InvalidValueError(
                f"label {label} is missed and added at rates that sum to one or more, so that the "
                "observed labels do not show how often it belongs: pass `class_prior`"
            )
        entropies = label_entropies(loss, transitions)
        for name, values in (("added", added), ("kept", kept), ("entropies", entropies)):
            self.register_buffer(name, values.float(), persistent=False)
        self.register_buffer("prior", prior, persistent=False)
        self.register_buffer("share", torch.zeros(num_labels))
        self.register_buffer("given", torch.zeros(num_labels, dtype=torch.long))

    @torch.no_grad()
    def forward(self, labels: Tensor) -> Float[Tensor, " labels"]:
        """Count the labels ``[N, K]`` or ``[N, K, d1, …]``, and return the floors."""
        by_label = labels.movedim(1, -1).flatten(0, -2)
        is_given = by_label >= 0
        count = is_given.sum(0)
        self.given.add_(count)
        # A mean is updated, as sums of many batches would lose digits.
        present = (by_label * is_given).sum(0)
        self.share.add_((present - count * self.share) / self.given.clamp(min=1))
        return self.of_shares()

    def of_shares(self) -> Float[Tensor, " labels"]:
        prior = self.prior
        if prior is None:
            prior = ((self.share - self.added) / (self.kept - self.added)).clamp(0, 1)
        return torch.lerp(self.entropies[:, 0], self.entropies[:, 1], prior)


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
