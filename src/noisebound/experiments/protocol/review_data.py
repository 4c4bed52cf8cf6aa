"""The data of the review experiment: labels that people gave, whose truth is known."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from noisebound.data import Dataset, ReadingOptions, Splits
from noisebound.data.formats.table_files import read_table_file
from noisebound.errors import DataError, InvalidValueError
from noisebound.features import load_embedded, parse_backbone

REVIEW_SETS = ("noisy-ag-news", "cifar10n-worst")
CIFAR_EXAMPLES = 10_000  # of 50,000, so that the experiment takes minutes


@dataclass(frozen=True)
class ReviewSources:
    """Where the data of the review experiment comes from.

    Args:
        data_dir: where published files are looked for first
        folders: for a data set by name: a folder of ``train.csv`` and ``test.csv`` with the columns
            text, label and gt; or of ``train.npz`` and ``test.npz`` with embeddings ``z``, labels
            ``y`` and true labels ``gt``
        image_backbone: what photographs are embedded with
        text_backbone: what texts are embedded with
    """

    data_dir: Path | None = None
    folders: Mapping[str, Path] = field(default_factory=dict)
    image_backbone: str | None = None
    text_backbone: str | None = None


def load_review_data(name: str, sources: ReviewSources) -> Splits:
    """Return embeddings with the labels that people gave and the true ones.

    Of CIFAR-10N 10,000 training images are taken, drawn at random, each class by its share.

    Args:
        name: one of `REVIEW_SETS`
        sources: where the data comes from
    """
    folder = sources.folders.get(name)
    if folder is not None and (folder / "train.npz").exists():
        splits = _stored(name, folder)
    elif name == "cifar10n-worst":
        splits = load_embedded(
            name,
            parse_backbone(_needed(sources.image_backbone, "image_backbone")),
            ReadingOptions(data_dir=sources.data_dir),
        )
    else:
        splits = _texts(name, folder, _needed(sources.text_backbone, "text_backbone"))
    if name == "cifar10n-worst" and len(splits.train) > CIFAR_EXAMPLES:
        splits = replace(splits, train=splits.train.take(CIFAR_EXAMPLES, seed=0), pictures=None)
    return splits


def _needed(backbone: str | None, name: str) -> str:
    if backbone is None:
        raise InvalidValueError(
            f"the review experiment trains on embeddings: name the encoder with `{name}`, or give "
            "embeddings with `source`"
        )
    return backbone


def _stored(name: str, folder: Path) -> Splits:
    train, test = (
        np.load(folder / f"{part}.npz", allow_pickle=False) for part in ("train", "test")
    )
    count = int(max(train["y"].max(), train["gt"].max())) + 1
    names = tuple(map(str, range(count)))
    labels, true, test_labels = (
        torch.from_numpy(part.astype(np.int64)) for part in (train["y"], train["gt"], test["gt"])
    )
    return Splits(
        name,
        Dataset(torch.from_numpy(train["z"]), labels, names, true_labels=true),
        Dataset(torch.from_numpy(test["z"]), test_labels, names),
        source=name,
    )


def _texts(name: str, folder: Path | None, backbone: str) -> Splits:
    if folder is None:
        raise DataError(f"{name} is not downloaded: name its folder with `source`")
    options = ReadingOptions(
        target="label", text=("text",), exclude=("gt",), test=folder / "test.csv"
    )
    splits = load_embedded(folder / "train.csv", parse_backbone(backbone), options)
    truth = read_table_file(folder / "train.csv").collect()["gt"].cast(str).to_list()
    index = {each: place for place, each in enumerate(splits.train.class_names)}
    true = torch.tensor([index[each] for each in truth])
    return replace(splits, train=replace(splits.train, true_labels=true))
