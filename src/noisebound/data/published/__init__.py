"""The registry of published data sets: `published.json` has their files, a reader their format."""

import json
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from typing import Any

from noisebound.data.published.mnist import read_digits, read_emnist, read_mnist
from noisebound.data.published.noisy import read_animals10n, read_cifar_n, read_noisy_ag_news
from noisebound.data.published.photos import read_cifar, read_tiny_imagenet
from noisebound.data.published.releases import Part, Published
from noisebound.errors import DataError

_READERS: dict[str, Callable[..., Any]] = {
    "digits": read_digits,
    "mnist": read_mnist,
    "emnist": read_emnist,
    "cifar": read_cifar,
    "tiny-imagenet": read_tiny_imagenet,
    "cifar-n": read_cifar_n,
    "animals-10n": read_animals10n,
    "noisy-ag-news": read_noisy_ag_news,
}
_RECORD = json.loads(files(__name__).joinpath("published.json").read_text("utf-8"))
_PARTS = {name: Part.model_validate(part) for name, part in _RECORD["parts"].items()}
DATASETS = {
    name: Published(
        name=name,
        title=about["title"],
        counts=about["counts"],
        parts=tuple(_PARTS[part] for part in about["parts"]),
        read=partial(_READERS[about["reader"]], **about.get("options", {})),
    )
    for name, about in _RECORD["data_sets"].items()
}


def find_published(name: object) -> Published | None:
    """Return the data set of that name, if any; case, hyphens and underscores do not matter."""
    known = {_plain(each): published for each, published in DATASETS.items()}
    return known.get(_plain(name)) if isinstance(name, str) else None


def get_published(name: str) -> Published:
    """Return the data set of that name, or raise an error that lists the names."""
    published = find_published(name)
    if published is None:
        raise DataError(f"unknown data set {name!r}: choose one of {', '.join(DATASETS)}")
    return published


def download_folders() -> set[str]:
    """Return the subfolders of the cache folder that data sets are downloaded to."""
    return {part.folders[0] for part in _PARTS.values()}


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")
