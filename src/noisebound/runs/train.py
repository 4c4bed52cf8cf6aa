"""Train into a run folder; an interrupted run resumes where it was."""

import copy
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch
from torch import nn

from noisebound.data import DataOrigin, Splits
from noisebound.errors import DataError, InvalidValueError, NoiseboundError, NoRoomError
from noisebound.features import Backbone
from noisebound.features.backbone import hash_of_weights
from noisebound.features.load import EmbeddedSplits, examples_fingerprint
from noisebound.models import ModelName
from noisebound.models.fine_tuned import FineTuned
from noisebound.models.regularized import without_factors
from noisebound.review.decisions import DecisionFile, is_decided
from noisebound.runs.corrections import checks_used, corrected_data, read_corrections
from noisebound.runs.folder import RunFolder
from noisebound.runs.keeper import FolderKeeper
from noisebound.runs.result import RunResult, read_result, write_result
from noisebound.runs.run import Run
from noisebound.runs.saved_model import ModelCard, SavedModel
from noisebound.search.fit import Fitted, fit_network
from noisebound.search.problem import Problem, model_name, network_for
from noisebound.system.console import print_note
from noisebound.system.files import fingerprint, write_text
from noisebound.training.config import TrainingConfig
from noisebound.training.data import TrainingData, split_validation
from noisebound.training.devices import Devices, OneDevice, first_rank_does
from noisebound.training.metrics import METRIC_LABELS
from noisebound.training.objective import ObjectiveFactory, check_method, make_objective
from noisebound.training.session import Session
from noisebound.training.unfrozen import Unfrozen, check_unfreeze


def train_run(
    splits: Splits,
    config: TrainingConfig,
    out: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    model: nn.Module | None = None,
    fabric: Devices | None = None,
    checkpoint_seconds: float = 10.0,
    objective_factory: ObjectiveFactory = make_objective,
    show: bool = True,
    backbone: Backbone | None = None,
    corrections: str | Path | None = None,
    origin: DataOrigin | None = None,
) -> Run:
    """Train on a data set, and return the run that this leaves in a folder.

    Args:
        splits: the data, as `noisebound.data.load` returns it
        config: how to train
        out: the folder; it gets the config, the metrics, the result, the model and checkpoints
        resume: True to continue the run that is in ``out``
        overwrite: True to replace the run that is in ``out``
        model: a network of the user's own in place of ``config.model``; a copy of it is trained
        fabric: launched, for other devices than one; its loggers get the metrics too
        checkpoint_seconds: the most work that an interruption loses, beside the current epoch;
            results do not depend on it
        objective_factory: makes the objective; by default the method that the config names
        show: True to draw the loss as it falls, where someone is looking
        backbone: the backbone that embedded the data, to embed new data with
        corrections: a file of decisions about these labels, as a review of an earlier run left it
        origin: where the data came from, kept in the folder
    """
    fabric = fabric or OneDevice()
    folder = RunFolder(out)
    decisions = None if corrections is None else read_corrections(corrections, splits)
    decided = None if decisions is None else is_decided(decisions)
    data, encoded = split_validation(splits, config, decided)
    data = data if decisions is None else corrected_data(data, decisions)
    if show and fabric.is_global_zero:
        for note in encoded.notes[len(splits.notes) :]:
            print_note(note)
    network = network_for(data.train, config) if model is None else copy.deepcopy(model)
    with fabric.init_module():  # sets the type of numbers that the precision asks for
        network.to(torch.get_default_dtype())
    identity = run_identity(config, data, network)
    check_method(config)
    unfrozen = None
    if config.unfreeze:
        tuned = check_unfreeze(backbone)
        if not isinstance(encoded, EmbeddedSplits):
            raise InvalidValueError(
                "`unfreeze` needs the raw images or texts behind the embeddings: give the data as "
                "it was before it was embedded"
            )
        unfrozen = Unfrozen.of(encoded, data, tuned)
    with _resumable(), folder.owned(fabric):
        if overwrite:
            first_rank_does(fabric, folder.remove_run)
        folder.check(config, resume=resume)
        if origin is not None:
            first_rank_does(fabric, partial(folder.save_origin, origin))
        if read_result(folder, identity) is None:
            keeper = FolderKeeper(folder, config, identity, fabric, checkpoint_seconds)
            problem = Problem(
                data,
                config,
                network,
                Session(fabric, keeper=keeper, show=show),
                objective_factory,
                unfrozen,
            )
            try:
                fitted = fit_network(problem)
            finally:
                for logger in fabric.loggers:
                    logger.finalize("success")  # writes metrics that are still buffered
            name = model_name(data.train, config) if model is None else None
            first_rank_does(
                fabric,
                partial(_conclude, fitted, folder, identity, splits, encoded, name, decisions),
            )
            if not folder.result.exists():
                raise DataError(f"{folder.result} is not there: do all machines see {out}?")
    return Run(out, model=copy.deepcopy(model), splits=splits, backbone=backbone)


@contextmanager
def _resumable() -> Iterator[None]:
    """Say of a full disk that the run can go on once there is room."""
    try:
        yield
    except NoRoomError as error:
        raise NoRoomError(f"{error}, and continue with `resume`") from error


def _conclude(
    fitted: Fitted,
    folder: RunFolder,
    identity: str,
    splits: Splits,
    encoded: Splits,
    name: ModelName | None,
    decisions: DecisionFile | None,
) -> None:
    """Write the model and then the result, which makes the run finished."""
    plan = fitted.plan
    train, normalization = plan.whole.train, plan.whole.normalization
    best = network = fitted.state.best_model.cpu()
    encoder_weights = None
    if isinstance(best, FineTuned):
        network, encoder_weights = best.head, best.encoder.state_dict()
    network = without_factors(network, plan.given_network)
    card = ModelCard(
        model=name,
        input_shape=train.input_shape,
        input_dtype="uint8" if train.inputs.dtype == torch.uint8 else "float32",
        class_names=train.class_names,
        mean=normalization.mean,
        std=normalization.std,
        encoder=encoded.encoder,
        backbone=splits.embedded_by,
        tuned=None if encoder_weights is None else hash_of_weights(encoder_weights),
    )
    SavedModel(network, card, encoder_weights).save(folder.path)
    checks = None
    if decisions is not None:
        before, after = _compared(decisions.path, fitted, splits)
        checks = checks_used(plan.whole, decisions, plan.checked_weight, before, after)
        _keep_corrections(folder, decisions)
    result = RunResult.of(
        identity=identity,
        inputs=splits.fingerprint(),
        chosen=plan.objective.chosen,
        noise=plan.noise,
        choice=plan.choice,
        floor=plan.objective.floor,
        history=fitted.history,
        checks=checks,
        examples=examples_fingerprint(splits),
    )
    write_result(folder, result)


def _compared(
    corrections: Path, fitted: Fitted, splits: Splits
) -> tuple[dict[str, float], dict[str, float]]:
    """Return figures of the run that was reviewed and of this one, on the same labels.

    Empty if no finished run is beside the corrections. Accuracies on the validation split are
    compared if the run before was not trained on any of its examples either.
    """
    try:
        previous = Run(corrections.parent)
        rates = {"noise_rate": previous.result.noise.rate}, {"noise_rate": fitted.plan.noise.rate}
        before = previous.accuracies(splits, fitted.plan.whole.validation_positions)
    except (NoiseboundError, OSError):
        return {}, {}
    now: dict[str, float | None] = {
        name: fitted.history[-1].best_known(name) for name in METRIC_LABELS
    }
    return _known(before | rates[0]), _known(now | rates[1])


def _known(figures: Mapping[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in figures.items() if value is not None}


def _keep_corrections(folder: RunFolder, decisions: DecisionFile) -> None:
    """Keep the decisions in the run's folder, where the next review goes on from them."""
    content = decisions.path.read_text(encoding="utf-8")
    write_text(folder.corrections, content)
    if not folder.decisions.exists():
        write_text(folder.decisions, content)


def run_identity(config: TrainingConfig, data: TrainingData, network: nn.Module) -> str:
    """Return the hash of the config, of the training data, and of the network's shapes."""
    digest = hashlib.sha256(config.model_dump_json(exclude_defaults=True).encode())
    digest.update(repr(data.train.class_names).encode())
    for name, weight in network.state_dict().items():
        digest.update(f"{name} {tuple(weight.shape)} {weight.dtype}".encode())
    for marks in (data.train.rows.fingerprint(), fingerprint(data.train.labels)):
        digest.update(marks.encode())
    if data.checked is not None:
        for part in (data.checked.is_trusted, data.checked.given, data.checked.stands_for):
            digest.update(fingerprint(part).encode())
    return digest.hexdigest()
