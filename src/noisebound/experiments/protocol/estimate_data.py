"""The data of the settings that estimates are judged in: read, drawn, and made noisy."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
import polars as pl
import torch
from jaxtyping import Int64
from torch import Tensor

from noisebound.data import Dataset, ReadingOptions, load
from noisebound.data.folders import search_folders
from noisebound.errors import DataError, InvalidValueError
from noisebound.experiments.protocol.estimate_settings import (
    ESTIMATE_SETTINGS,
    EstimateSetting,
)
from noisebound.experiments.protocol.keel_tables import KEEL_TABLES, read_keel_table
from noisebound.experiments.protocol.planted_data import PLANTED, TEST_EXAMPLES
from noisebound.experiments.protocol.planted_noise import noisy_labels
from noisebound.features import load_embedded, parse_backbone

_MOST_EXAMPLES = {"images": 3_000, "features": 5_000, "tables": 2_000}
_TRAINED_SHARE = 0.7  # of a table that has no test set of its own
_NEWS = "noisy-ag-news"


@dataclass(frozen=True, eq=False)
class NoisyData:
    """The examples of a setting.

    Args:
        train: the training examples with noisy labels; the true labels are known
        test: examples with clean labels
    """

    train: Dataset
    test: Dataset


@dataclass(frozen=True)
class EstimateSources:
    """Where the data of the settings is.

    Args:
        data_dir: where published files are looked for first
        paths: folders of embeddings by data set, as ``noisebound embed`` writes them; these need no
            backbone
        image_backbone: what photographs are embedded with, such as ``"onnx:FILE"``
        text_backbone: what texts are embedded with, such as ``"hf:FOLDER"``
    """

    data_dir: Path | None = None
    paths: Mapping[str, Path] = field(default_factory=dict)
    image_backbone: str | None = None
    text_backbone: str | None = None

    def __post_init__(self) -> None:
        embedded = {each.dataset: None for each in ESTIMATE_SETTINGS if each.world == "features"}
        for name in self.paths:
            if name not in embedded:
                raise InvalidValueError(
                    f"`source` gives embeddings of {', '.join(embedded)}, not of {name!r}"
                )

    def data(self, setting: EstimateSetting, seed: int) -> NoisyData:
        """Return the examples of a setting; the seed draws them and their noise."""
        train, test = self._parts(setting, seed)
        most = _MOST_EXAMPLES[setting.world]
        if len(train) > most:
            train = train.take(most, seed)
        if len(test) > TEST_EXAMPLES:
            test = test.take(TEST_EXAMPLES, seed)
        if setting.noise != "human" and train.true_labels is not None:
            train = Dataset(train.inputs, train.true_labels, train.class_names)
        return NoisyData(train.with_labels(noisy_labels(train, setting.noise, seed)), test)

    def _parts(self, setting: EstimateSetting, seed: int) -> tuple[Dataset, Dataset]:
        name = setting.dataset
        if name in PLANTED:
            return _divided(PLANTED[name](seed))
        if name in KEEL_TABLES:
            whole = read_keel_table(name)
            order = np.random.default_rng(seed).permutation(len(whole))
            whole = whole.subset(torch.from_numpy(order))
            return _divided(whole, int(_TRAINED_SHARE * len(whole)))
        if setting.world == "features":
            return self._embedded(name)
        splits = load(name, data_dir=self.data_dir)
        assert splits.test is not None
        return splits.train, splits.test

    def _embedded(self, name: str) -> tuple[Dataset, Dataset]:
        """Return a data set as embeddings, with the labels that people gave and the true ones."""
        if name in self.paths:
            return _from_folder(name, self.paths[name])
        backbone = self.text_backbone if name == _NEWS else self.image_backbone
        if backbone is None:
            option, example = ("text", "hf:FOLDER") if name == _NEWS else ("image", "onnx:FILE")
            raise DataError(
                f"{name} is judged on the embeddings of a backbone: give `{option}_backbone`, such "
                f"as {example}"
            )
        read = _news if name == _NEWS else _photographs
        return read(name, backbone, self.data_dir)


def _divided(whole: Dataset, trained: int | None = None) -> tuple[Dataset, Dataset]:
    trained = len(whole) - TEST_EXAMPLES if trained is None else trained
    places = torch.arange(len(whole))
    return whole.subset(places[:trained]), whole.subset(places[trained:])


def _from_folder(name: str, folder: Path) -> tuple[Dataset, Dataset]:
    splits = load(folder)
    if splits.embedded_by is None or splits.test is None:
        raise DataError(
            f"`source` of {name} must be a folder of embeddings with a test set, as noisebound "
            f"embed writes it; got {folder}"
        )
    return splits.train, splits.test


# These are cached because a worker does many settings on the same data, one after another.


@lru_cache(maxsize=1)
def _photographs(name: str, backbone: str, data_dir: Path | None) -> tuple[Dataset, Dataset]:
    splits = load_embedded(name, parse_backbone(backbone), ReadingOptions(data_dir=data_dir))
    assert splits.test is not None
    return splits.train, splits.test


@lru_cache(maxsize=1)
def _news(name: str, backbone: str, data_dir: Path | None) -> tuple[Dataset, Dataset]:
    """Return NoisyAG-News: the labels of its workers in ``label``, the true ones in ``gt``."""
    folder = _news_folder(name, data_dir)
    options = ReadingOptions(
        target="gt", text=("text",), exclude=("label", "group"), test=folder / "test.csv"
    )
    splits = load_embedded(folder / "train.csv", parse_backbone(backbone), options)
    assert splits.test is not None
    given = pl.read_csv(folder / "train.csv", columns=["label"])["label"].cast(pl.String)
    train = splits.train
    return train.with_labels(_indices(given, train.class_names)), splits.test


def _indices(labels: pl.Series, class_names: tuple[str, ...]) -> Int64[Tensor, " n"]:
    place = {name: index for index, name in enumerate(class_names)}
    return torch.tensor([place[label] for label in labels])


def _news_folder(name: str, data_dir: Path | None) -> Path:
    folders = search_folders(data_dir)
    for folder in folders:
        if (folder / name / "train.csv").is_file():
            return folder / name
    raise DataError(
        f"NoisyAG-News is not here: put its train.csv and test.csv (columns label, gt, text) into "
        f"a folder {name} of `data_dir`; looked in {', '.join(map(str, folders))}"
    )
