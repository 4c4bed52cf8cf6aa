"""The out-of-fold predictions that estimates and suspects are judged on, made once per setting."""

from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float64, Int64
from lightning_fabric import Fabric
from torch import Tensor

from noisebound.data import Dataset
from noisebound.errors import DataError
from noisebound.files import load_tensors, save_tensors
from noisebound.paper.protocol.estimate_data import estimate_data
from noisebound.paper.protocol.estimate_settings import EstimateSetting
from noisebound.paper.protocol.sources import DataSources
from noisebound.training import TrainingConfig
from noisebound.training.cross_fit import CrossFit, noise_plan
from noisebound.training.data import TrainingData
from noisebound.training.fit import network_for

EPOCHS = 60
_OTHER_SPLIT = 1_000  # added to the seed: the second cross-fit has other halves and weights


@dataclass(frozen=True, eq=False)
class Predictions:
    """Two sets of out-of-fold probabilities for the same labels.

    Args:
        first: by two networks that were each trained on one half
        second: the same with other halves
        labels: the observed labels
        true_labels: the labels without noise
    """

    first: Float64[Tensor, "n classes"]
    second: Float64[Tensor, "n classes"]
    labels: Int64[Tensor, " n"]
    true_labels: Int64[Tensor, " n"]

    @property
    def noise_rate(self) -> float:
        """The share of labels that are wrong."""
        return (self.labels != self.true_labels).double().mean().item()


def training_config(setting: EstimateSetting, seed: int) -> TrainingConfig:
    """Return how networks are trained in a setting; every method's network is trained alike."""
    return TrainingConfig(
        loss="ce",
        noise_rate=None,
        model=setting.network,
        epochs=EPOCHS,
        batch_size=128,
        learning_rate=1e-3,
        drop_epoch=None,
        weight_decay=1e-4,
        cross_fit_epochs=EPOCHS,
        measure_every=EPOCHS,
        seed=seed,
    )


def predictions_of(
    setting: EstimateSetting, seed: int, sources: DataSources, path: Path
) -> Predictions:
    """Return the predictions of a setting; they are read from a file if it has them.

    Args:
        setting: the setting
        seed: draws the examples, their noise and the networks
        sources: where the data is
        path: the file that keeps the predictions
    """
    try:
        found, _ = load_tensors(path)
    except (FileNotFoundError, DataError):  # absent or damaged
        train = estimate_data(setting, seed, sources).train
        assert train.true_labels is not None
        found = {
            "first": cross_fitted(train, training_config(setting, seed)),
            "second": cross_fitted(train, training_config(setting, seed + _OTHER_SPLIT)),
            "labels": train.labels,
            "true_labels": train.true_labels,
        }
        save_tensors(path, found, {"setting": setting.name, "seed": seed})
    return Predictions(
        found["first"].double().softmax(1),
        found["second"].double().softmax(1),
        found["labels"],
        found["true_labels"],
    )


def cross_fitted(train: Dataset, config: TrainingConfig) -> Tensor:
    """Return the out-of-fold logits of a cross-fit in two halves, as `fit` does it."""
    data = TrainingData.unsplit(train)
    fitter = CrossFit(
        data,
        noise_plan(data, config),
        network_for(train, config),
        Fabric(accelerator="cpu", devices=1),
        show=False,
    )
    with torch.random.fork_rng(devices=[]):
        return fitter.out_of_fold().logits
