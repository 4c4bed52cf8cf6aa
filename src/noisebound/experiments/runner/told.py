"""What a method is told of the noise, where that is the truth: it takes the true labels to know."""

import torch

from noisebound.data import Dataset
from noisebound.experiments.protocol.contenders import Knowledge
from noisebound.training import TrainingConfig


def told(training: TrainingConfig, knows: Knowledge, train: Dataset) -> TrainingConfig:
    """The training with the noise rate, or the transition matrix, that came about.

    Args:
        training: without
        knows: which of them
        train: the examples; where true labels are not known apart, the labels are the true ones
    """
    true = train.labels if train.true_labels is None else train.true_labels
    if knows == "true rate":
        rate = (train.labels != true).double().mean().item()
        return training.model_copy(update={"noise_rate": rate})
    if knows == "true transition":
        c = train.num_classes
        counts = torch.bincount(train.labels * c + true, minlength=c * c).view(c, c).double()
        columns = counts / counts.sum(0).clamp(min=1)
        matrix = torch.where(counts.sum(0) > 0, columns, torch.eye(c, dtype=torch.float64))
        rows = tuple(tuple(row) for row in matrix.tolist())
        return training.model_copy(update={"transition": rows})
    return training
