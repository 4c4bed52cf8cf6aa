"""The registry of published data sets: `published.json` has their files, a reader their format."""

import json
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from typing import Any

from noisebound.data.published.mnist import read_digits, read_emnist, read_mnist
from noisebound.data.published.noisy import read_animals10n, read_cifar_n, read_noisy_ag_news
from noisebound.data.published.photos import CIFAR10, CIFAR100, read_cifar, read_tiny_imagenet
from noisebound.data.published.releases import Part, Published
from noisebound.errors import DataError

_DIGITS = tuple("0123456789")
_CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
_READERS: dict[str, Callable[..., Any]] = {
    "digits": partial(read_digits, class_names=_DIGITS),
    "mnist": partial(read_mnist, class_names=_DIGITS),
    "fashion-mnist": partial(read_mnist, class_names=_CLOTHES),
    "emnist": read_emnist,
    "cifar10": partial(read_cifar, form=CIFAR10),
    "cifar100": partial(read_cifar, form=CIFAR100),
    "tiny-imagenet": read_tiny_imagenet,
    "cifar10n-aggregate": partial(read_cifar_n, form=CIFAR10, key="aggre_label"),
    "cifar10n-random1": partial(read_cifar_n, form=CIFAR10, key="random_label1"),
    "cifar10n-random2": partial(read_cifar_n, form=CIFAR10, key="random_label2"),
    "cifar10n-random3": partial(read_cifar_n, form=CIFAR10, key="random_label3"),
    "cifar10n-worst": partial(read_cifar_n, form=CIFAR10, key="worse_label"),
    "cifar100n": partial(read_cifar_n, form=CIFAR100, key="noisy_label"),
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
        read=_READERS[name],
    )
    for name, about in _RECORD["data_sets"].items()
}


def find_published(name: object) -> Published | None:
    """Return the data set of that name, if any; case, hyphens and underscores do not matter."""
    if not isinstance(name, str):
        return None
    return {_plain(known): published for known, published in DATASETS.items()}.get(_plain(name))


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
