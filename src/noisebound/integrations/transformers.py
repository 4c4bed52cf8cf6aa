"""Hugging Face: a loss function for its ``Trainer`` that bounds whole steps.

The Trainer splits a batch into parts and divides the *sum* of each part by the number of labels in
the whole batch. Such a fraction is almost always below the bound. So the Trainer gets the plain
loss, and ``on_pre_optimizer_step`` flips the gradients when all parts are done. Gradient clipping
comes before that and treats both signs alike.
"""

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from noisebound.bounded import BoundedLoss, NoiseBoundedLoss
from noisebound.errors import InvalidTypeError, InvalidValueError, MisuseError, needed_for
from noisebound.integrations.bounded_training import BoundedTraining
from noisebound.losses import Loss, PerLabel, RememberingLoss
from noisebound.step_bound import has_gradients

with needed_for(__name__, "transformers and accelerate", "transformers"):
    from accelerate.utils.deepspeed import DeepSpeedOptimizerWrapper
    from transformers import TrainerCallback
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    from transformers.trainer_callback import CallbackHandler

IGNORED = -100
"""The label that the Trainer does not count."""


class BoundedLossFunction(BoundedTraining, TrainerCallback):
    """Keeps the training of a ``Trainer`` above a bound: ``|mean loss - bound|``.

    It is a loss function and a callback in one, and the Trainer needs it as both: if one is
    missing, training stops with an error. The mean is taken over all labels of an optimizer step:
    all parts of ``gradient_accumulation_steps``, all ranks and all positions, except labels of
    -100. The Trainer computes the gradient of this mean; with
    ``average_tokens_across_devices=False`` it is the mean of the ranks' means. The evaluation loss
    is the plain mean. The logs get ``raw_mean`` of the last step, and ``share_below``, the share of
    the steps since the last entry that went uphill.

    The model predicts per sequence or per token, with logits ``[N, C]`` or ``[N, L, C]``. With
    class weights the mean is weighted; the Trainer divides by the number of labels instead of the
    weights, which changes the length of the step.

    Weights at a bound jitter, so they are averaged. Evaluations and checkpoints see the averaged
    weights, and the model has them when training ends. The last weights, from which a resumed
    training continues, are saved with the optimizer's state.

    Args:
        criterion: a ``NoiseBoundedLoss`` or ``BoundedLoss`` of one of noisebound's losses.
        average_epochs: number of epochs that the weights are averaged over, at most a tenth of the
            training; 0 to keep the last weights.

    Example:
        >>> import noisebound as nb
        >>> sce = nb.SymmetricCrossEntropy()
        >>> bounded = BoundedLossFunction(nb.NoiseBoundedLoss(sce, noise_rate=0.4, num_classes=10))
        >>> # Trainer(model, args, compute_loss_func=bounded, callbacks=[bounded], …)
        >>> round(bounded.bound, 3)
        5.495
    """

    def __init__(self, criterion: BoundedLoss, average_epochs: float = 5.0) -> None:
        self.loss = _check_criterion(criterion)
        self._criterion = criterion
        super().__init__(criterion.bound, average_epochs)
        self._is_in_step = False
        self._logged = self.monitor.state()

    def __call__(
        self, outputs: Any, labels: Tensor | None, num_items_in_batch: int | Tensor | None = None
    ) -> Float[Tensor, ""]:
        """Return the plain loss of one part, and observe it in training.

        Args:
            outputs: of the model, with ``"logits"`` or with the logits first
            labels: class indices; -100 is ignored
            num_items_in_batch: number of labels in the whole batch (default: those of this part)
        """
        logits = outputs["logits"] if isinstance(outputs, dict) else outputs[0]
        if labels is None or labels.is_floating_point():
            raise InvalidValueError(
                "BoundedLossFunction takes class indices: add them to the data set as a column "
                f"'labels'; got {'none' if labels is None else labels.dtype}"
            )
        logits = logits.movedim(-1, 1)
        if isinstance(self._criterion, NoiseBoundedLoss):
            self._criterion.check_number_of_logits(logits)
        losses, weights = self.loss.weighted_losses(logits, labels)
        weight = torch.ones_like(losses).sum() if weights is None else weights.sum()
        # DataParallel repeats the number for each device.
        whole = weight if num_items_in_batch is None else torch.as_tensor(num_items_in_batch).max()
        if losses.requires_grad:  # else it is an evaluation
            if not self._is_in_step:
                raise MisuseError(
                    "BoundedLossFunction is the loss of this Trainer, but not its callback, so "
                    "that nothing would be bounded: pass callbacks=[bounded] too"
                )
            self.observe((losses.sum() / weight).detach(), count=weight / whole)
        return losses.sum() / whole

    def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Refuse trainings that a callback cannot bound, and start the average."""
        if args.label_smoothing_factor:
            raise InvalidValueError(
                f"label_smoothing_factor={args.label_smoothing_factor:g} belongs to the Trainer's "
                "own loss: use CrossEntropy(label_smoothing=…) instead"
            )
        if isinstance(others["optimizer"], DeepSpeedOptimizerWrapper):
            raise InvalidValueError(
                "DeepSpeed steps by itself, before the gradients can be flipped: use DDP instead"
            )
        if type(others["model"]).__name__ in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values():
            raise InvalidValueError(
                f"{type(others['model']).__name__} predicts the next token, with shifted labels; "
                "BoundedLossFunction is for sequence and token classification"
            )
        _log_first(self)
        epoch_steps = state.max_steps / state.num_train_epochs
        self._start_averaging(others["model"], epoch_steps, state.max_steps)
        last_weights = _take_last_weights(others["optimizer"])
        if self._average is not None and last_weights:
            self._average.n_averaged.fill_(1)  # the checkpoint's weights are the average
            with torch.no_grad():
                for weight, last in last_weights.items():
                    weight.copy_(last)

    def on_step_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Start a new step with the last weights, even if the step before was abandoned."""
        self.forget()
        if self._is_shown:
            self._show_average(others["model"], show=False)
            _take_last_weights(others["optimizer"])
        self._is_in_step = True

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        if not self.has_observed:
            raise MisuseError(
                "BoundedLossFunction is a callback of this Trainer, but not its loss: pass "
                "compute_loss_func=bounded too; an overridden compute_loss must call it"
            )
        if not has_gradients(others["optimizer"]):
            raise MisuseError(
                f"the optimizer {args.optim!r} steps within the backward pass and leaves no "
                "gradients to flip: choose another one"
            )
        self.apply(others["optimizer"])
        self._is_in_step = False

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self._update_average(others["model"])
        self.on_epoch_end(args, state, control, **others)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Evaluate and save the averaged weights."""
        if self._average is None or not (control.should_evaluate or control.should_save):
            return
        if not self._is_shown:
            for parameter, of_optimizer in _states(others["optimizer"]):
                of_optimizer[_LAST_WEIGHT] = parameter.detach().clone()
        self._show_average(others["model"])

    def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Leave the averaged weights in the model, or those of the best checkpoint."""
        if not (args.load_best_model_at_end and state.best_model_checkpoint):
            self._show_average(others["model"])
        _take_last_weights(others["optimizer"])

    def on_log(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Add the counts to the log entry of a training loss."""
        counts = self.monitor.state()
        steps, below = (counts - self._logged).tolist()
        if "loss" not in others["logs"] or not steps:
            return
        self._logged = counts
        readings = {"raw_mean": self.raw_mean, "share_below": below / steps}
        others["logs"].update(readings)
        state.log_history[-1].update(readings)


class _Readings(TrainerCallback):
    """Lets a loss function add its readings to a log entry before any reporter sees the entry."""

    def __init__(self, function: BoundedLossFunction) -> None:
        self.on_log = function.on_log


def _log_first(function: BoundedLossFunction) -> None:
    """Put the readings before all callbacks of the handler that is calling.

    The Trainer puts its own reporters before the user's callbacks, and tells callbacks nothing of
    their handler, so it is looked up among the callers.
    """
    frame = inspect.currentframe()
    while frame is not None:
        handler = frame.f_locals.get("self")
        if isinstance(handler, CallbackHandler):
            others = [each for each in handler.callbacks if not isinstance(each, _Readings)]
            handler.callbacks = [_Readings(function), *others]
            return
        frame = frame.f_back


_LAST_WEIGHT = "noisebound_last_weight"


def _states(optimizer: Any) -> Iterator[tuple[Tensor, dict[str, Any]]]:
    """Yield each weight with its state, which the Trainer saves and loads."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            yield parameter, optimizer.state[parameter]


def _take_last_weights(optimizer: Any) -> dict[Tensor, Tensor]:
    """Remove the last weights from the optimizer's state, and return them."""
    found = {weight: state.pop(_LAST_WEIGHT, None) for weight, state in _states(optimizer)}
    return {weight: last for weight, last in found.items() if last is not None}


def _check_criterion(criterion: BoundedLoss) -> Loss:
    if not isinstance(criterion, BoundedLoss):
        raise InvalidTypeError(
            "criterion must be a bounded loss, such as NoiseBoundedLoss(CrossEntropy(), "
            f"noise_rate=0.4, num_classes=10); got {criterion!r}"
        )
    loss = criterion.loss
    if isinstance(loss, PerLabel):
        raise InvalidTypeError(
            "BoundedLossFunction holds one mean at one bound, and a loss per label has a floor for "
            "each label: pass the Trainer `compute_loss_func=lambda outputs, labels, **_: "
            "criterion(outputs.logits, labels)` instead"
        )
    if not isinstance(loss, Loss) or isinstance(loss, RememberingLoss):
        raise InvalidTypeError(
            "the Trainer needs the sum and the weight of each part's losses, and does not pass the "
            "indices of examples: bound one of noisebound's losses without a memory, such as "
            f"GeneralizedCrossEntropy(); got {loss!r}"
        )
    if loss.ignore_index != IGNORED:
        raise InvalidValueError(
            f"the Trainer ignores labels of {IGNORED}: use this label for ignored examples, and "
            f"ignore_index={IGNORED} in the loss; got {loss.ignore_index}"
        )
    return loss
