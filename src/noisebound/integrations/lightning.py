"""Lightning: bound any module's training, or watch it, with a callback.

The module's ``training_step`` returns its plain mean loss. In one step Lightning calls, in this
order, ``training_step``, ``on_before_zero_grad`` (at the first micro-batch), ``on_before_backward``
(with the loss, divided and scaled), and after the last micro-batch ``on_before_optimizer_step``,
with the gradients unscaled and not yet clipped. So hooks of a callback are enough.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.optim import LBFGS, Optimizer

from noisebound.bounded import BoundedLoss
from noisebound.errors import InvalidValueError, needed_for
from noisebound.integrations.bounded_training import BoundedTraining
from noisebound.monitor import MemorizationMonitor

with needed_for(__name__, "Lightning", "lightning"):
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.callbacks import Callback
    from lightning.pytorch.utilities.data import extract_batch_size
    from lightning.pytorch.utilities.exceptions import MisconfigurationException


_LAST_WEIGHTS = "noisebound_last_weights"


class NoiseBoundCallback(BoundedTraining, Callback):
    """Keeps the training of a ``LightningModule`` above a bound: ``|mean loss - bound|``.

    The mean is taken over the whole optimizer step: all micro-batches of
    ``accumulate_grad_batches``, on all ranks. Lightning computes the gradient of this mean, in
    which all micro-batches and ranks have the same weight, even with different numbers of examples.
    Gradient clipping, mixed precision and DDP work as usual (FSDP was not tried). Every epoch
    logs ``raw_mean``, the mean loss before the bound, and ``share_below``, the share of its steps
    that went uphill.

    Weights at a bound jitter, so they are averaged. Validation and checkpoints see the averaged
    weights, and the module has them when training ends. A checkpoint also holds the last weights,
    from which a resumed training continues.

    The module must return the plain loss, not a ``BoundedLoss``, and optimize automatically.

    Args:
        bound: the level that the mean loss is held at, such as
            ``nb.noise_bound(loss, noise_rate, num_classes)``; may be changed at any time.
        average_epochs: number of epochs that the weights are averaged over, at most a tenth of the
            training; 0 to keep the last weights.

    Example:
        >>> import noisebound as nb
        >>> bound = nb.noise_bound(nb.CrossEntropy(), noise_rate=0.4, num_classes=10)
        >>> callback = NoiseBoundCallback(bound)  # Trainer(callbacks=[callback])
        >>> round(callback.bound, 3)
        1.552
    """

    def __init__(self, bound: float, average_epochs: float = 5.0) -> None:
        super().__init__(bound, average_epochs)
        self._averaged_step = 0
        self._last_weights: dict[str, Any] | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Refuse trainings that a callback cannot bound, and start the average."""
        if not pl_module.automatic_optimization:
            raise InvalidValueError(
                f"{type(pl_module).__name__} optimizes manually, and the callback does not see its "
                "steps: create an nb.StepBound for each optimizer instead of NoiseBoundCallback"
            )
        if any(isinstance(part, BoundedLoss) for part in pl_module.modules()):
            raise InvalidValueError(
                f"{type(pl_module).__name__} has a BoundedLoss, and its value would be bounded "
                "twice: let training_step return the plain loss"
            )
        if trainer.strategy.handles_gradient_accumulation:
            raise InvalidValueError(
                f"{type(trainer.strategy).__name__} hides the gradients, so that they cannot be "
                "flipped: use strategy='ddp'"
            )
        if any(isinstance(optimizer, LBFGS) for optimizer in trainer.optimizers):
            raise InvalidValueError(
                "LBFGS searches along a line by the values of the loss, which are not bounded: use "
                "another optimizer, or nb.BoundedLoss in training_step"
            )
        self.forget()
        self._averaged_step = trainer.global_step
        epoch_steps = trainer.num_training_batches / trainer.accumulate_grad_batches
        self._start_averaging(pl_module, epoch_steps, trainer.estimated_stepping_batches)
        if self._average is not None and self._last_weights is not None:
            self._average.n_averaged.fill_(1)  # the checkpoint's weights are the average
            pl_module.load_state_dict(self._last_weights)
        self._last_weights = None

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        self._show_average(pl_module, show=False)

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        if trainer.global_step != self._averaged_step:
            self._averaged_step = trainer.global_step
            self._update_average(pl_module)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._show_average(pl_module)

    on_validation_start = on_train_end = on_train_epoch_end

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Save the averaged weights as the module's, and the last ones beside them."""
        if self._average is None or not self._average.has_averaged:
            return
        weights = [checkpoint["state_dict"], self._average.module.state_dict()]
        averaged, last = weights if self._is_shown else reversed(weights)
        checkpoint["state_dict"], checkpoint[_LAST_WEIGHTS] = averaged, last

    def on_load_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        if trainer.state.fn == "fit":
            self._last_weights = checkpoint.get(_LAST_WEIGHTS)

    def on_before_zero_grad(
        self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer
    ) -> None:
        """Forget the losses of an abandoned step, whose gradients are zeroed here."""
        self.forget()

    def on_before_backward(
        self, trainer: Trainer, pl_module: LightningModule, loss: Float[Tensor, ""]
    ) -> None:
        self.observe(_plain_loss(loss, trainer), count=1)

    def on_before_optimizer_step(
        self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer
    ) -> None:
        if not self.has_observed:  # training_step returned None
            return
        self.apply(optimizer)
        below = self.monitor.last_below.float()
        readings = {"raw_mean": self.monitor.last_mean, "share_below": below}
        # All ranks have the same values; without sync_dist Lightning warns.
        pl_module.log_dict(readings, on_step=False, on_epoch=True, sync_dist=True, batch_size=1)

    def state_dict(self) -> dict[str, Any]:
        return {"counts": self.monitor.state()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.monitor.load_state(state_dict["counts"])


def _plain_loss(loss: Tensor, trainer: Trainer) -> Float[Tensor, ""]:
    """Return the loss of ``training_step``, before Lightning divided and a scaler scaled it."""
    plain: Tensor = loss.detach() * trainer.accumulate_grad_batches
    scaler = getattr(trainer.precision_plugin, "scaler", None)
    if scaler is not None:  # scaling a one gives the scale without waiting for the device
        plain = plain / scaler.scale(torch.ones_like(plain))
    return plain


class MemorizationCallback(Callback):
    """Warns when a ``LightningModule`` begins to memorize wrong labels, without changing anything.

    After every epoch the mean training loss, over all examples and ranks, is compared with the
    floor; a ``MemorizationWarning`` says when it is first below. The callback logs
    ``mean_training_loss`` and ``memorizing_since``, the first epoch below the floor, or 0.

    ``training_step`` must return the plain mean loss, or a dictionary with it as ``"loss"``.

    Args:
        floor: the least mean loss of an honest model: ``nb.noise_bound`` of a known noise rate, or
            ``nb.measured_floor``

    Example:
        >>> callback = MemorizationCallback(floor=1.55)  # Trainer(callbacks=[callback])
        >>> callback.monitor.memorizing_since is None
        True
    """

    def __init__(self, floor: float) -> None:
        self.monitor = MemorizationMonitor(floor)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Forget an epoch that an earlier training left unfinished."""
        self.monitor.forget()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Observe the loss of one batch; after the last, compare the mean with the floor."""
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if loss is not None:  # in Lightning, None skips a batch
            plain = loss * trainer.accumulate_grad_batches
            self.monitor.observe(plain, count=_size_of(batch))
        # Not at the end of the epoch, because the checkpoints of its validation come before.
        if trainer.is_last_batch and self.monitor.has_observed:
            self.monitor.end_epoch()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.monitor.epoch_losses:  # empty if training stopped within the first epoch
            since = self.monitor.memorizing_since
            readings = {
                "mean_training_loss": self.monitor.epoch_losses[-1],
                "memorizing_since": float(since or 0),
            }
            pl_module.log_dict(readings, sync_dist=True)

    def state_dict(self) -> dict[str, Any]:
        return {"epoch_losses": list(self.monitor.epoch_losses)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.monitor.epoch_losses = list(state_dict["epoch_losses"])


def _size_of(batch: Any) -> int:
    """Return the number of examples in a batch; 1 if Lightning cannot find it."""
    try:
        size: int = extract_batch_size(batch)
    except MisconfigurationException:
        return 1
    return size
