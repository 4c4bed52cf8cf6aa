"""From data to a trained model in a folder, which can be interrupted and resumed."""

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Bool
from lightning_fabric import Fabric
from torch import Tensor, nn

from noisebound.checks import check_transition
from noisebound.data import Dataset, Normalization, Splits, TableEncoder
from noisebound.data.dataset import stratified_indices
from noisebound.errors import InvalidValueError
from noisebound.estimation.suspects import true_class_probabilities
from noisebound.files import fingerprint
from noisebound.models import create_model
from noisebound.report.plots import plot_training
from noisebound.training.checkpoints import TrainingState, load_checkpoint, save_checkpoint
from noisebound.training.config import TrainingConfig
from noisebound.training.cross_fit import CrossFit
from noisebound.training.display import Display
from noisebound.training.initial_state import initial_state
from noisebound.training.loop import Training, TrainingData
from noisebound.training.measured_noise import MeasuredNoise
from noisebound.training.metrics import Metrics, MetricsFile
from noisebound.training.noise import KnownNoise, Noise
from noisebound.training.objective import Objective, check_loss, make_objective, needs_measuring
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
    folder.check(config, resume=resume)
    network = model or create_model(
        config.model, tuple(data.train.inputs.shape[1:]), data.train.num_classes, config.seed
    )
    with fabric.init_module():  # knows the type of numbers that the precision asks for
        network.to(torch.get_default_dtype())
    identity = _identity(config, data, network)
    finished = folder.read_result(identity)
    if finished is not None:
        return finished
    noise, objective = _noise_and_objective(data, config, network, fabric, folder, identity, show)
    state = initial_state(network, objective, config, len(data.train), fabric)
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
        folder.finish(
            identity,
            fingerprint(splits.train.inputs),
            objective.chosen,
            noise,
            objective.floor,
            history,
        )
    fabric.barrier()
    result = folder.read_result(identity)
    if result is None:
        raise FileNotFoundError(f"{folder.result} is not there: do all machines see {out}?")
    return result


def _noise_and_objective(
    data: TrainingData,
    config: TrainingConfig,
    network: nn.Module,
    fabric: Fabric,
    folder: RunFolder,
    identity: str,
    show: bool,
) -> tuple[Noise | None, Objective]:
    """What to minimize; the noise is measured first, if it is not known and matters."""
    noise: Noise | None = None
    if config.transition is not None:
        noise = _known_noise(config.transition, data.train)
    elif needs_measuring(config):
        check_loss(config)
        cross_fit = CrossFit(
            data, config, network, fabric, folder=folder.cross_fit, identity=identity, show=show
        )
        fabric.barrier()  # all have checked before one writes
        if fabric.is_global_zero:
            folder.begin(config)
        noise = MeasuredNoise(cross_fit.held_out(), data.train.labels)
    return noise, make_objective(config, data.train.num_classes, len(data.train), noise)


def _known_noise(given: Sequence[Sequence[float]], train: Dataset) -> KnownNoise:
    """The classes' shares are those that the matrix made into the labels' shares."""
    transition = check_transition(given)
    if len(transition) != train.num_classes:
        raise InvalidValueError(
            f"transition is of {len(transition)} classes, the data has {train.num_classes}"
        )
    shares = train.class_counts().double() / len(train)
    return KnownNoise(transition, true_class_probabilities(shares[None], transition)[0])


def hold_out(splits: Splits, config: TrainingConfig) -> TrainingData:
    """Training and validation examples, divided class by class by the labels they have."""
    whole, is_held_out = splits.train, held_out_for_validation(splits.train, config)
    validation, train = None, whole
    if is_held_out.any():
        validation, train = whole.subset(is_held_out), whole.subset(~is_held_out)
    positions = (~is_held_out).nonzero().squeeze(1)
    return TrainingData(train, validation, splits.test, Normalization.of(train.inputs), positions)


def held_out_for_validation(whole: Dataset, config: TrainingConfig) -> Bool[Tensor, " n"]:
    """Which of the training examples are only watched with."""
    count = round(config.validation_share * len(whole))
    is_held_out = torch.zeros(len(whole), dtype=torch.bool)
    if count:
        is_held_out[stratified_indices(whole.labels, count, config.seed)] = True
        for index in whole.class_counts().eq(1).nonzero().flatten():
            is_held_out[whole.labels == index] = False  # the only one of its class stays
        if is_held_out.all():
            raise InvalidValueError(
                f"holding out {count} of {len(whole)} examples leaves none to train on: lower "
                "the share (--validation-share)"
            )
    return is_held_out


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
        raise InvalidValueError(
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


def _identity(config: TrainingConfig, data: TrainingData, network: nn.Module) -> str:
    """Of the config, of what is learnt from, and of what learns."""
    digest = hashlib.sha256(config.model_dump_json().encode())
    digest.update(repr(data.train.class_names).encode())
    for name, weight in network.state_dict().items():
        digest.update(f"{name} {tuple(weight.shape)} {weight.dtype}".encode())
    for tensor in (data.train.inputs, data.train.labels):
        digest.update(fingerprint(tensor).encode())
    return digest.hexdigest()
