"""What a run finds out about its labels, compared with the truth."""

import json
import math
from typing import TypedDict

import torch
from jaxtyping import Bool, Float
from sklearn.metrics import roc_auc_score
from torch import Tensor

from noisebound.data import Dataset, Splits
from noisebound.errors import DataError
from noisebound.estimation import ESTIMATION_METHODS, estimate_noise
from noisebound.experiments.runner.pruning import FOLDS, Pruned
from noisebound.files import write_json
from noisebound.runs import Run
from noisebound.runs.folder import RunFolder
from noisebound.runs.keeper import read_out_of_fold
from noisebound.training import TrainingConfig
from noisebound.training.cross_fit import cross_fit_epochs


class LabelFindings(TypedDict):
    """What is found and what is true.

    Keys:
        noise_rate: the share of wrong labels
        estimates: by the name of each estimator
        interval: of our own estimate; None for a peer
        suspects_auroc: of ranking wrong labels before right ones; None where none is wrong
        calibration_error: of the probabilities, in ten equal parts; None for a peer
        epochs: how often the training examples were trained on to find the suspects
    """

    noise_rate: float
    estimates: dict[str, float]
    interval: list[float] | None
    suspects_auroc: float | None
    calibration_error: float | None
    epochs: float


def findings_of_run(run: Run, splits: Splits) -> LabelFindings:
    """Return the findings of a run that estimated its noise."""
    train, training = splits.train, run.config
    is_wrong = _is_wrong(train)
    out_of_fold = read_out_of_fold(run.folder)
    if out_of_fold is None:
        raise DataError(
            f"{run.folder.out_of_fold()} is missing or damaged: remove {run.path}, and the run is "
            "done again"
        )
    known = out_of_fold.positions
    probs, labels = out_of_fold.probabilities, train.labels[known]
    found = {method: estimate_noise(probs, labels, method) for method in ESTIMATION_METHODS}
    suspects = run.find_suspects(splits)
    return LabelFindings(
        noise_rate=is_wrong[known].double().mean().item(),
        estimates={method: estimate.noise_rate for method, estimate in found.items()},
        interval=list(found[ESTIMATION_METHODS[0]].interval),
        suspects_auroc=_auroc(suspects.score, is_wrong),
        calibration_error=_calibration_error(suspects.probability, is_wrong),
        epochs=training.epochs + cross_fit_epochs(training.epochs),
    )


def findings_of_cleanlab(pruned: Pruned, train: Dataset, training: TrainingConfig) -> LabelFindings:
    """Return the findings of cleanlab by its five folds."""
    is_wrong = _is_wrong(train)
    return LabelFindings(
        noise_rate=is_wrong.double().mean().item(),
        estimates={"five folds": pruned.noise_rate},
        interval=None,
        suspects_auroc=_auroc(pruned.score, is_wrong),
        calibration_error=None,
        epochs=(FOLDS - 1) * training.epochs,
    )


def write_findings(folder: RunFolder, findings: LabelFindings) -> None:
    """Write the findings beside the run's result."""
    write_json(folder.label_findings, findings)


def read_findings(folder: RunFolder) -> LabelFindings | None:
    """Return what a run has found out; None if it was not asked."""
    try:
        text = folder.label_findings.read_text(encoding="utf-8")
        findings: LabelFindings = json.loads(text)
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return findings


def _is_wrong(train: Dataset) -> Bool[Tensor, " n"]:
    true = train.labels if train.true_labels is None else train.true_labels
    return train.labels != true


def _auroc(score: Float[Tensor, " n"], is_wrong: Bool[Tensor, " n"]) -> float | None:
    if is_wrong.all() or not is_wrong.any():
        return None
    value = float(roc_auc_score(is_wrong.numpy(), score.numpy()))
    return value if math.isfinite(value) else None


def _calibration_error(probability: Float[Tensor, " n"], is_wrong: Bool[Tensor, " n"]) -> float:
    """Return the mean distance of probabilities from realized shares, in ten equal parts."""
    parts = probability.argsort().tensor_split(10)
    gaps = [
        (probability[part].mean() - is_wrong[part].double().mean()).abs() * len(part)
        for part in parts
    ]
    return (torch.stack(gaps).sum() / len(probability)).item()
