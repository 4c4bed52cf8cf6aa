"""Train into a run folder; an interrupted run resumes where it was."""

import copy
import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch
from torch import nn

from noisebound.data import DataOrigin, Splits
from noisebound.errors import (
    DataError,
    InvalidValueError,
    NoiseboundError,
    RunError,
)
from noisebound.features import Backbone
from noisebound.features.backbone import hash_of_weights
from noisebound.features.examples import ExampleSplits
from noisebound.features.load import examples_fingerprint
from noisebound.learners.stored import check_can_be_stored
from noisebound.models import ModelName
from noisebound.models.regularized import without_factors
from noisebound.monitor import memorizing_since
from noisebound.review.decisions import TRUSTED, DecisionFile
from noisebound.runs.corrections import corrected_data, read_corrections, with_second_labels
from noisebound.runs.folder import RunFolder, write_model
from noisebound.runs.keeper import FolderKeeper
from noisebound.runs.result import ChecksUsed, RunResult, annotators_of, read_result
from noisebound.runs.run import Run
from noisebound.runs.saved_model import ModelCard, SavedModel
from noisebound.search.fit import Fitted, fit_network
from noisebound.search.problem import Problem, model_name, network_for
from noisebound.system.console import print_note
from noisebound.system.files import fingerprint, write_text
from noisebound.training.config import TrainingConfig
from noisebound.training.data import TrainingData, split_validation
from noisebound.training.devices import Devices, OneDevice, first_rank_does
from noisebound.training.fine_tuning import FineTuned, Unfrozen, check_unfreeze
from noisebound.training.loggers import LabelLogger, Logger, tell
from noisebound.training.metrics import METRIC_LABELS, EpochMetrics
from noisebound.training.session import Session


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
    show: bool = True,
    backbone: Backbone | None = None,
    corrections: str | Path | None = None,
    origin: DataOrigin | None = None,
    estimator: Any = None,
    n_jobs: int = 1,
    loggers: Sequence[Logger] = (),
) -> Run:
    """Train on a data set into a folder, and return the run.

    Args:
        splits: the data, as `noisebound.data.load` returns it
        config: how to train
        out: the folder; it gets the config, the metrics, the result, the model and checkpoints
        resume: True to continue the run that is in ``out``
        overwrite: True to replace the run that is in ``out``
        model: your own network in place of ``config.model``; a copy of it is trained
        fabric: launched devices (default: one device)
        checkpoint_seconds: the least time between checkpoints. An interruption loses at most this
            time and the current epoch. Results do not depend on it
        show: True to show progress
        backbone: the backbone that embedded the data, to embed new data with
        corrections: a file of decisions about these labels, from a review of an earlier run
        origin: where the data came from, kept in the folder
        estimator: your own, if the config's learner is ``"estimator"``
        n_jobs: the number of processes for trials, -1 for one per core
        loggers: get the metrics of each epoch, as those of ``fabric`` do
    """
    fabric = fabric or OneDevice()
    folder = RunFolder(out)
    decisions = None if corrections is None else read_corrections(corrections, splits)
    labeled, decided = splits, None
    if decisions is not None:
        labeled = replace(splits, train=with_second_labels(splits.train, decisions))
        decided = decisions.with_verdict(*TRUSTED, "unusable")
    data, encoded = split_validation(labeled, config, decided)
    data = data if decisions is None else corrected_data(data, decisions)
    if show and fabric.is_global_zero:
        for note in encoded.notes[len(splits.notes) :]:
            print_note(note)
    network = network_for(data.train, config) if model is None else copy.deepcopy(model)
    with fabric.init_module():  # sets the type of numbers that the precision asks for
        network.to(torch.get_default_dtype())
    identity = run_identity(config, data, network)
    if estimator is not None:
        check_can_be_stored(estimator, data, config.seed)
    unfrozen = None
    if config.unfreeze:
        tuned = check_unfreeze(backbone)
        if not isinstance(encoded, ExampleSplits):
            raise InvalidValueError(
                "`unfreeze` needs the raw images or texts behind the embeddings: give the data as "
                "it was before it was embedded"
            )
        unfrozen = Unfrozen.of(encoded, tuned)
    with folder.owned(fabric):
        if overwrite:
            first_rank_does(fabric, folder.remove_run)
        folder.check(config, resume=resume)
        if folder.is_of_labels:
            raise RunError(
                f"{folder.path} holds a run with several labels: choose another folder: `out`"
            )
        if origin is not None:
            first_rank_does(fabric, partial(folder.save_origin, origin))
        result = read_result(folder)
        if result is not None and result.identity != identity:
            raise RunError(
                f"{folder.path} holds a finished run on other data: choose another folder: `out`"
            )
        if result is None:
            keeper = FolderKeeper(folder, config, identity, fabric, checkpoint_seconds)
            if not any(isinstance(each, LabelLogger) for each in loggers):
                loggers = (*fabric.loggers, *loggers)  # else those of all labels hold them
            problem = Problem(
                data,
                config,
                network,
                Session(fabric, keeper=keeper, show=show, n_jobs=n_jobs, loggers=loggers),
                unfrozen=unfrozen,
                estimator=estimator,
            )
            status = "failed"
            try:
                fitted = fit_network(problem)
                status = "success"
            finally:
                tell(loggers, "finalize", status)  # writes metrics that are still buffered
            name = model_name(data.train, config) if model is None else None
            first_rank_does(
                fabric,
                partial(_conclude, fitted, folder, identity, splits, encoded, name, decisions),
            )
            if not folder.result.exists():
                raise DataError(f"{folder.result} is not there: do all machines see {out}?")
    return Run(out, model=copy.deepcopy(model), splits=splits, backbone=backbone)


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
    train, normalization, checked = plan.whole.train, plan.whole.normalization, plan.whole.checked
    unchecked = train if checked is None else train.subset(~checked.is_trusted)
    model, encoder_weights = fitted.model, None
    if isinstance(model, FineTuned):
        encoder_weights = model.encoder.state_dict()
        model = without_factors(model.head, plan.given_network)
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
    SavedModel(model, card, encoder_weights).save(folder.path)
    checks = None
    if decisions is not None:
        checks = _checks_used(decisions, fitted, splits)
        content = decisions.path.read_text(encoding="utf-8")
        write_text(folder.corrections, content)
        if not folder.decisions.exists():  # where the next review goes on
            write_text(folder.decisions, content)
    chosen, floor, history = plan.objective.chosen, plan.objective.floor, fitted.history
    since = None
    if chosen is None and floor is not None:
        since = memorizing_since([metrics.train_loss for metrics in history], floor)
    result = RunResult(
        identity=identity,
        inputs=splits.fingerprint(),
        bound=None if chosen is None else chosen.level,
        bound_origin=None if chosen is None else chosen.origin,
        bound_reason=None if chosen is None else chosen.reason,
        noise=plan.noise,
        choice=plan.choice,
        floor=floor,
        memorizing_since=since,
        final=fitted.final,
        best_on_validation=_best_on_validation(history),
        checks=checks,
        examples=examples_fingerprint(splits),
        annotators=annotators_of(plan.noise, unchecked),
    )
    write_model(folder.result, result)


def _best_on_validation(history: list[EpochMetrics]) -> EpochMetrics | None:
    """Return the most accurate epoch, by the averaged weights if there are any."""
    averaged = bool(history) and history[-1].averaged_validation_top1 is not None
    found = [(each.evaluated("validation_top1", averaged=averaged), each) for each in history]
    known = [(accuracy, each) for accuracy, each in found if accuracy is not None]
    return max(known, key=itemgetter(0), default=(None, None))[1]


def _checks_used(decisions: DecisionFile, fitted: Fitted, splits: Splits) -> ChecksUsed:
    """Return how the training used decisions, with the figures of the run before and of this one.

    Accuracies on the validation split are compared if the run before was not trained on any of its
    examples either.
    """
    whole, checked = fitted.plan.whole, fitted.plan.whole.checked
    assert checked is not None
    before: dict[str, Any] = {}
    with suppress(NoiseboundError, OSError):  # no finished run is beside the corrections
        previous = Run(decisions.path.parent)
        before = previous.accuracies(splits, whole.validation, whole.validation_positions)
        before["noise_rate"] = previous.result.noise.rate
    after: dict[str, Any] = {name: fitted.final.best_known(name) for name in METRIC_LABELS}
    after["noise_rate"] = fitted.plan.noise.rate
    both = [name for name in before if before[name] is not None and after.get(name) is not None]
    return ChecksUsed(
        trusted=int(checked.is_trusted.sum()),
        changed=int((checked.given != whole.train.labels)[checked.is_trusted].sum()),
        unusable=int(decisions.with_verdict("unusable").sum()),
        weight=fitted.plan.checked_weight,
        second_labels=len(decisions.second_labels),
        before={name: before[name] for name in both},
        after={name: after[name] for name in both},
    )


def run_identity(config: TrainingConfig, data: TrainingData, network: nn.Module) -> str:
    """Return the hash of the config, of the training data, and of the network's shapes."""
    digest = hashlib.sha256(config.model_dump_json(exclude_defaults=True).encode())
    digest.update(repr(data.train.class_names).encode())
    for name, weight in network.state_dict().items():
        digest.update(f"{name} {tuple(weight.shape)} {weight.dtype}".encode())
    train, marks = data.train, [data.train.rows.fingerprint(), fingerprint(data.train.labels)]
    marks += [] if train.votes is None else [f"{train.annotators} {fingerprint(train.votes)}"]
    marks += [] if train.groups is None else [fingerprint(train.groups)]
    marks += [] if data.checked is None else map(fingerprint, vars(data.checked).values())
    digest.update("".join(marks).encode())
    return digest.hexdigest()
