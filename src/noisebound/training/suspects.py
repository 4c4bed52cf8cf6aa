"""Which labels of a run's data are probably wrong, from what its one training has left behind."""

from typing import Any

import torch
from jaxtyping import Float64, Int64
from torch import Tensor, nn

from noisebound.bounds import symmetric_columns
from noisebound.catalog import create_loss
from noisebound.data import DataError, Dataset
from noisebound.estimation import Suspects, estimate_noise
from noisebound.estimation.suspects import suspects_of, true_class_probabilities
from noisebound.files import fingerprint
from noisebound.training.config import TrainingConfig
from noisebound.training.held_out import HeldOut
from noisebound.training.objective import CORRECTIONS
from noisebound.training.run_folder import FitResult, RunFolder
from noisebound.training.saved_model import SavedModel


def suspects_of_run(folder: RunFolder, train: Dataset, model: nn.Module | None = None) -> Suspects:
    """The labels of all training examples, those held out for validation included.

    The trained model speaks of every example, and the networks that measured the noise of those
    that they were not trained on: their log-odds are averaged.

    Args:
        folder: of a finished run
        train: the examples that it was given; their labels may have been corrected since
        model: the network, where it is one of the user's own
    """
    config, result = folder.read_config(), folder.read_result()
    if result is None:
        raise DataError(f"{folder.path} holds no finished run: train with noisebound fit first")
    saved = SavedModel.load(folder.path, model)
    _check_same(folder, result, saved, train)
    probs = saved.probabilities(train.inputs).double()
    transition = _transition(config, result, probs, train)
    criterion = _criterion(config, result, transition, len(probs))
    held_out = HeldOut.read(folder.both_halves)
    return judged_labels(probs, train.labels, criterion, transition, held_out)


def judged_labels(
    probs: Float64[Tensor, "n classes"],
    labels: Int64[Tensor, " n"],
    criterion: nn.Module,
    transition: Float64[Tensor, "classes classes"],
    held_out: HeldOut | None,
) -> Suspects:
    """The labels, by the trained model and, where there are any, by the networks before it.

    Args:
        probs: what the trained model says
        labels: observed
        criterion: that it was trained with
        transition: ``T[noisy, true]``
        held_out: what was said of examples, at ``held_out.positions``, by networks that were not
            trained on them
    """
    found = suspects_of(_of_true_class(probs, criterion, transition), labels, transition)
    if held_out is None:
        return found
    at = held_out.positions
    by_halves = suspects_of(
        true_class_probabilities(held_out.logits.double().softmax(1), transition),
        labels[at],
        transition,
    )
    score = found.score.clone()
    score[at] = (score[at] + by_halves.score) / 2
    return Suspects(score, found.suggested)


def _check_same(folder: RunFolder, result: FitResult, saved: SavedModel, train: Dataset) -> None:
    if train.class_names != saved.card.class_names:
        raise DataError(f"{folder.path} was trained on other classes: give it the same data")
    if result.inputs != fingerprint(train.inputs):
        raise DataError(
            f"{folder.path} was trained on other data, or in another order: give it the same "
            "examples; only their labels may differ"
        )


def _of_true_class(
    probs: Float64[Tensor, "n classes"],
    criterion: nn.Module,
    transition: Float64[Tensor, "classes classes"],
) -> Float64[Tensor, "n classes"]:
    """From what the loss has taught the model to say.

    A correction teaches the true class; any other loss the observed label, as its noise model sees
    it (the paper's f).
    """
    if isinstance(criterion, tuple(CORRECTIONS.values())):
        return probs
    noise_model = getattr(criterion, "noise_model", None)
    observed = probs if noise_model is None else noise_model.forward(probs)
    return true_class_probabilities(observed, transition)


def _criterion(
    config: TrainingConfig, result: FitResult, transition: Tensor, num_samples: int
) -> nn.Module:
    """The loss that the run was trained with, as far as it matters here."""
    if config.base_loss in CORRECTIONS:
        return CORRECTIONS[config.base_loss](transition)
    told = config.noise_rate if isinstance(config.noise_rate, float) else None
    return create_loss(
        "ce" if config.base_loss == "mixup" else config.base_loss,
        noise_rate=(result.noise or {}).get("noise_rate", told),
        num_classes=len(transition),
        num_samples=num_samples,
    )


def _transition(
    config: TrainingConfig, result: FitResult, probs: Tensor, train: Dataset
) -> Float64[Tensor, "classes classes"]:
    """What the training was told or has found out; else what its model tells."""
    noise: dict[str, Any] = result.noise or {}
    if config.transition is not None:
        return torch.tensor(config.transition, dtype=torch.float64)
    if isinstance(config.noise_rate, float):
        return symmetric_columns(torch.tensor(config.noise_rate).double(), train.num_classes)
    if result.is_noise_unmeasured:
        return torch.eye(train.num_classes, dtype=torch.float64)  # as the training supposed
    if "transition" in noise:
        rounded = torch.tensor(noise["transition"], dtype=torch.float64)
        return rounded / rounded.sum(0)
    return estimate_noise(probs, train.labels).transition
