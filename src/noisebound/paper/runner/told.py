"""Methods that are told the truth about the noise, which takes the true labels."""

from noisebound.corruption.corrupt import realized_transition
from noisebound.data import Dataset
from noisebound.paper.protocol.contenders import Knowledge
from noisebound.training import TrainingConfig


def told(training: TrainingConfig, knows: Knowledge, train: Dataset) -> TrainingConfig:
    """Return the config with the realized noise rate or transition matrix, if it is to be told.

    Args:
        training: the config without it
        knows: what the method is told
        train: the training examples; without true labels, their labels are taken to be true
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
