"""What a method is told of the noise, where that is the truth: it takes the true labels to know."""

from noisebound.corruption.corrupt import realized_transition
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
        matrix = realized_transition(train.labels, true, train.num_classes)
        rows = tuple(tuple(row) for row in matrix.tolist())
        return training.model_copy(update={"transition": rows})
    return training
