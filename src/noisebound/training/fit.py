"""From data to a trained model in a folder, which can be interrupted and resumed."""

import hashlib
import time
from pathlib import Path

import torch
from lightning_fabric import Fabric
from torch import nn

from noisebound.data import Normalization, Splits, TableEncoder
from noisebound.data.dataset import stratified_indices
from noisebound.models import create_model
from noisebound.report.plots import plot_training
from noisebound.training.averaging import averaged_copy
from noisebound.training.checkpoints import TrainingState, load_checkpoint, save_checkpoint
from noisebound.training.config import TrainingConfig
from noisebound.training.display import Display
from noisebound.training.loop import Training, TrainingData
from noisebound.training.metrics import Metrics, MetricsFile
from noisebound.training.objective import Objective, make_objective
from noisebound.training.run_folder import FitResult, RunFolder
from noisebound.training.saved_model import ModelCard, SavedModel


def fit(
    splits: Splits,
    config: TrainingConfig,
    out: str | Path,
    *,
    resume: bool = False,
    model: nn.Module | None = None,
    fabric: Fabric | None = None,
    checkpoint_seconds: float = 10.0,
    show: bool = True,
) -> FitResult:
    """Train on a data set; leave the model, and how it went, in a folder.

    Args:
        splits: as `noisebound.data.load` gives them
        config: how to train
        out: gets ``config.json``, ``metrics.jsonl``, ``result.json``, ``training.png``, the model
            (``model.safetensors``, ``model.json``) and checkpoints
        resume: go on with the run that is in ``out``
        model: a network of one's own, in place of ``config.model``
        fabric: launched, for other devices than one; its loggers get the measurements too
        checkpoint_seconds: how much work may be lost at most, not counting an epoch; results do
            not depend on it
        show: draw the loss as it falls, if someone is looking
    """
    fabric = fabric or Fabric(devices=1)
    folder = RunFolder(Path(out))
    data = hold_out(splits, config)
    objective = make_objective(config, data.train.num_classes, len(data.train))
    folder.check(config, resume=resume)
    state = _initial_state(data, objective, config, fabric, model)
    identity = _identity(config, data, state)
    finished = folder.read_result(identity)
    if finished is not None:
        return finished
    load_checkpoint(folder.checkpoints, state, identity)
    training = Training(state, objective, data, config, fabric)
    fabric.barrier()  # all have checked before one writes
    if fabric.is_global_zero:
        folder.begin(config)
    try:
        history = _run(training, folder, identity, checkpoint_seconds, show)
    finally:
        for logger in fabric.loggers:
            logger.finalize("success")  # or what they still hold would be lost
    if fabric.is_global_zero:
        _card_and_weights(state, data, splits.encoder, config, model is None).save(folder.path)
        plot_training(history, folder.path / "training.png")
        folder.finish(identity, objective.bound, history)
    fabric.barrier()
    result = folder.read_result(identity)
    if result is None:
        raise FileNotFoundError(f"{folder.result} is not there: do all machines see {out}?")
    return result


def hold_out(splits: Splits, config: TrainingConfig) -> TrainingData:
    """Training and validation examples, divided class by class by the labels they have."""
    whole = splits.train
    count = round(config.validation_share * len(whole))
    validation = None
    train = whole
    if count:
        chosen = stratified_indices(whole.labels, count, config.seed)
        is_held_out = torch.zeros(len(whole), dtype=torch.bool).index_fill_(0, chosen, True)
        for index in whole.class_counts().eq(1).nonzero().flatten():
            is_held_out[whole.labels == index] = False  # the only one of its class stays
        if is_held_out.all():
            raise ValueError(
                f"holding out {count} of {len(whole)} examples leaves none to train on: lower "
                "the share (--validation-share)"
            )
        if is_held_out.any():
            validation, train = whole.subset(is_held_out), whole.subset(~is_held_out)
    return TrainingData(train, validation, splits.test, Normalization.of(train.inputs))


def _initial_state(
    data: TrainingData,
    objective: Objective,
    config: TrainingConfig,
    fabric: Fabric,
    model: nn.Module | None,
) -> TrainingState:
    shape, num_classes = tuple(data.train.inputs.shape[1:]), data.train.num_classes
    network = model or create_model(config.model, shape, num_classes, config.seed)
    with fabric.init_module():  # knows the type of numbers that the precision asks for
        network.to(fabric.device, torch.get_default_dtype())
    averaged = None
    if config.average_epochs:
        steps = -(-len(data.train) // config.batch_size)
        averaged = averaged_copy(network, config.average_epochs, steps)
    return TrainingState(
        network,
        averaged,
        objective.criterion.to(fabric.device),
        torch.optim.Adam(network.parameters(), weight_decay=config.weight_decay),
    )


def _run(
    training: Training, folder: RunFolder, identity: str, checkpoint_seconds: float, show: bool
) -> list[Metrics]:
    """Every epoch; the first rank writes down each before any begins the next."""
    fabric, config = training.fabric, training.config
    if not fabric.is_global_zero:
        for _ in training.epochs():
            fabric.barrier()
        return []
    file = MetricsFile(folder.metrics, training.state.epoch)
    if len(file.history) < training.state.epoch:
        raise ValueError(
            f"{folder.metrics} lacks epochs that the checkpoint has: restore it, or begin anew in "
            "another folder"
        )
    saved_at = time.monotonic()
    with Display(config.loss, config.epochs, file.history, show) as display:
        for metrics in training.epochs():
            file.append(metrics)
            is_last = metrics["epoch"] == config.epochs
            if is_last or time.monotonic() - saved_at >= checkpoint_seconds:
                save_checkpoint(folder.checkpoints, training.state, identity)
                saved_at = time.monotonic()
            numbers = {name: value for name, value in metrics.items() if value is not None}
            fabric.log_dict(numbers, step=metrics["epoch"])
            display.update(metrics)
            fabric.barrier()
    return file.history


def _card_and_weights(
    state: TrainingState,
    data: TrainingData,
    encoder: TableEncoder | None,
    config: TrainingConfig,
    is_ours: bool,
) -> SavedModel:
    card = ModelCard(
        model=config.model if is_ours else None,
        input_shape=tuple(data.train.inputs.shape[1:]),
        input_dtype="uint8" if data.train.inputs.dtype == torch.uint8 else "float32",
        class_names=data.train.class_names,
        mean=data.normalization.mean,
        std=data.normalization.std,
        encoder=encoder,
    )
    model = state.model if state.averaged is None else state.averaged.module
    return SavedModel(model.cpu(), card)


def _identity(config: TrainingConfig, data: TrainingData, state: TrainingState) -> str:
    """Of the config, of what is learnt from, and of what learns."""
    digest = hashlib.sha256(config.model_dump_json().encode())
    digest.update(repr(data.train.class_names).encode())
    for name, weight in state.model.state_dict().items():
        digest.update(f"{name} {tuple(weight.shape)} {weight.dtype}".encode())
    for tensor in (data.train.inputs, data.train.labels):
        digest.update(repr(tuple(tensor.shape)).encode())
        digest.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
