"""The data of the settings that estimates are judged in: read, drawn, and made noisy."""

from dataclasses import dataclass

import numpy as np
import torch

from noisebound.data import Dataset
from noisebound.paper.protocol.estimate_settings import EstimateSetting
from noisebound.paper.protocol.keel_tables import KEEL_TABLES, read_keel_table
from noisebound.paper.protocol.planted_data import PLANTED, TEST_EXAMPLES
from noisebound.paper.protocol.planted_noise import noisy_labels
from noisebound.paper.protocol.sources import DataSources

_MOST_EXAMPLES = {"images": 3_000, "features": 5_000, "tables": 2_000}
_TRAINED_SHARE = 0.7  # of a table that has no test set of its own


@dataclass(frozen=True, eq=False)
class NoisyData:
    """The examples of a setting.

    Args:
        train: the training examples with noisy labels; the true labels are known
        test: examples with clean labels
    """

    train: Dataset
    test: Dataset


def estimate_data(setting: EstimateSetting, seed: int, sources: DataSources) -> NoisyData:
    """Return the examples of a setting; the seed draws them and their noise."""
    train, test = _parts(setting, seed, sources)
    most = _MOST_EXAMPLES[setting.world]
    if len(train) > most:
        train = train.take(most, seed)
    if len(test) > TEST_EXAMPLES:
        test = test.take(TEST_EXAMPLES, seed)
    if setting.noise != "human" and train.true_labels is not None:
        train = Dataset(train.inputs, train.true_labels, train.class_names)
    return NoisyData(train.with_labels(noisy_labels(train, setting.noise, seed)), test)


def _parts(setting: EstimateSetting, seed: int, sources: DataSources) -> tuple[Dataset, Dataset]:
    name = setting.dataset
    if name in PLANTED:
        return _divided(PLANTED[name](seed))
    if name in KEEL_TABLES:
        whole = read_keel_table(name)
        order = np.random.default_rng(seed).permutation(len(whole))
        whole = whole.subset(torch.from_numpy(order))
        return _divided(whole, int(_TRAINED_SHARE * len(whole)))
    splits = sources.vectors(name) if setting.world == "features" else sources.load(name)
    assert splits.test is not None
    return splits.train, splits.test


def _divided(whole: Dataset, trained: int | None = None) -> tuple[Dataset, Dataset]:
    trained = len(whole) - TEST_EXAMPLES if trained is None else trained
    places = torch.arange(len(whole))
    return whole.subset(places[:trained]), whole.subset(places[trained:])
