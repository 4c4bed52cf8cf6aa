"""Which labels of a run's data are probably wrong, from what its one training has left behind."""

import torch
from jaxtyping import Float64
from torch import Tensor

from noisebound.bounds import symmetric_noise
from noisebound.data import DataError, Dataset
from noisebound.estimation import Suspects, estimate_noise
from noisebound.estimation.suspects import suspects_of, true_class_probabilities
from noisebound.training.config import TrainingConfig
from noisebound.training.cross_fit import read_logits
from noisebound.training.fit import held_out_for_validation
from noisebound.training.run_folder import RunFolder
from noisebound.training.saved_model import SavedModel

_CORRECTED = ("fce", "backward")


def suspects_of_run(folder: RunFolder, train: Dataset) -> Suspects:
    """The labels of all training examples, those held out for validation included.

    The trained model speaks of every example, and the networks that measured the noise of those
    that they were not trained on: their log-odds are averaged.

    Args:
        folder: of a finished run
        train: the examples that it was given
    """
    config, result = folder.read_config(), folder.read_result()
    if result is None:
        raise DataError(f"{folder.path} holds no finished run: train with noisebound fit first")
    probs = SavedModel.load(folder.path).probabilities(train.inputs).double()
    held_out = read_logits(folder.cross_fit / "logits.safetensors")
    transition = _transition(config, result.noise, probs, train)
    is_corrected = config.loss.partition("+")[0] in _CORRECTED
    by_model = suspects_of(
        probs if is_corrected else true_class_probabilities(probs, transition),
        train.labels,
        transition,
    )
    if held_out is None:
        return by_model
    is_trained_on = ~held_out_for_validation(train, config)
    if int(is_trained_on.sum()) != len(held_out):
        raise DataError(f"{folder.path} was trained on other data: give it the same")
    by_halves = suspects_of(
        true_class_probabilities(held_out.double().softmax(1), transition),
        train.labels[is_trained_on],
        transition,
    )
    score = by_model.score.clone()
    score[is_trained_on] = (score[is_trained_on] + by_halves.score) / 2
    return Suspects(score, by_model.suggested)


def _transition(
    config: TrainingConfig, noise: dict[str, object] | None, probs: Tensor, train: Dataset
) -> Float64[Tensor, "classes classes"]:
    """What the training was told or has found out; else what its model tells."""
    if config.transition is not None:
        return torch.tensor(config.transition, dtype=torch.float64)
    if isinstance(config.noise_rate, float):
        columns = symmetric_noise(config.noise_rate, train.num_classes)
        return torch.stack([columns.roll(k) for k in range(train.num_classes)], dim=1)
    if noise is not None:
        return torch.tensor(noise["transition"], dtype=torch.float64)
    return estimate_noise(probs, train.labels).transition
