"""What a run finds out about its labels, with the truth beside it."""

import json
import math
from typing import TypedDict

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from noisebound.data import Dataset, Splits
from noisebound.errors import DataError
from noisebound.estimation import ESTIMATION_METHODS, estimate_noise
from noisebound.files import write_json
from noisebound.paper.runner.pruning import FOLDS, Pruned
from noisebound.runs import Run
from noisebound.runs.folder import RunFolder
from noisebound.runs.keeper import read_out_of_fold
from noisebound.training import TrainingConfig
from noisebound.training.cross_fit import cross_fit_epochs


class LabelFindings(TypedDict):
    """What is found and what is true.

    Keys:
        noise_rate: the true share of wrong labels
        estimates: the estimated noise rate, by the name of the estimator
        interval: the interval of our estimate, at 95 % confidence; None for cleanlab
        suspects_auroc: the area under the ROC curve of ranking wrong labels before right ones; None
            if no label is wrong
        calibration_error: the mean distance between the probability that a label is wrong and how
            often it is, in ten equal parts; None for cleanlab
        epochs: how often each training example was trained on to find the suspects
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
            f"{run.folder.out_of_fold()} is missing or damaged: remove {run.path} to have the run "
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
        suspects_auroc=auroc(suspects.score, is_wrong),
        calibration_error=calibration_error(suspects.probability, is_wrong),
        epochs=training.epochs + (training.cross_fit_epochs or cross_fit_epochs(training.epochs)),
    )


def findings_of_cleanlab(pruned: Pruned, train: Dataset, training: TrainingConfig) -> LabelFindings:
    """Return what cleanlab found out by cross-validation in five folds."""
    is_wrong = _is_wrong(train)
    return LabelFindings(
        noise_rate=is_wrong.double().mean().item(),
        estimates={"five folds": pruned.noise_rate},
        interval=None,
        suspects_auroc=auroc(pruned.score, is_wrong),
        calibration_error=None,
        epochs=(FOLDS - 1) * training.epochs,
    )


def write_findings(folder: RunFolder, findings: LabelFindings) -> None:
    """Write the findings beside the run's result."""
    write_json(folder.label_findings, findings)


def read_findings(folder: RunFolder) -> LabelFindings | None:
    """Return what a run found out about its labels; None if nothing is stored."""
    try:
        text = folder.label_findings.read_text(encoding="utf-8")
        findings: LabelFindings = json.loads(text)
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return findings


def _is_wrong(train: Dataset) -> Bool[Tensor, " n"]:
    true = train.labels if train.true_labels is None else train.true_labels
    return train.labels != true


def auroc(score: Float[Tensor, " n"], is_wrong: Bool[Tensor, " n"]) -> float | None:
    """Return the area under the ROC curve; None if no label is wrong, or all are."""
    from sklearn.metrics import roc_auc_score  # takes a second, and most runs do not need it

    if is_wrong.all() or not is_wrong.any():
        return None
    value = float(roc_auc_score(is_wrong.numpy(), score.numpy()))
    return value if math.isfinite(value) else None


def calibration_error(probability: Float[Tensor, " n"], is_wrong: Bool[Tensor, " n"]) -> float:
    """Return the mean distance of probabilities from realized shares, in ten equal parts."""
    parts = probability.argsort().tensor_split(10)
    gaps = [
        (probability[part].mean() - is_wrong[part].double().mean()).abs() * len(part)
        for part in parts
    ]
    return (torch.stack(gaps).sum() / len(probability)).item()
