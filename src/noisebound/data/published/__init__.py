"""The registry of published data sets."""

from noisebound.data.published.cifar import CIFAR10, CIFAR10N, CIFAR100, CIFAR100_COARSE, CIFAR100N
from noisebound.data.published.mnist import DIGITS, EMNIST, FASHION_MNIST, MNIST
from noisebound.data.published.noisy_ag_news import NOISY_AG_NEWS
from noisebound.data.published.photos import ANIMALS_10N, TINY_IMAGENET
from noisebound.data.published.releases import Published
from noisebound.errors import DataError

DATASETS = {
    published.name: published
    for published in (
        DIGITS,
        MNIST,
        FASHION_MNIST,
        *EMNIST,
        CIFAR10,
        CIFAR100,
        CIFAR100_COARSE,
        *CIFAR10N,
        CIFAR100N,
        TINY_IMAGENET,
        ANIMALS_10N,
        NOISY_AG_NEWS,
    )
}

_ALIASES = {"emnist-balanced": "emnist", "animal-10n": "animals-10n"}


def find_published(name: object) -> Published | None:
    """Return the data set of that name, if any; case, hyphens and underscores do not matter."""
    if not isinstance(name, str):
        return None
    spelled = {_plain(known): published for known, published in DATASETS.items()}
    spelled |= {_plain(alias): DATASETS[known] for alias, known in _ALIASES.items()}
    return spelled.get(_plain(name))


def get_published(name: str) -> Published:
    """Return the data set of that name, or raise an error that lists the names."""
    published = find_published(name)
    if published is None:
        raise DataError(f"unknown data set {name!r}: choose one of {', '.join(DATASETS)}")
    return published


def download_folders() -> set[str]:
    """Return the subfolders of the cache folder that data sets are downloaded to."""
    return {part.folders[0] for known in DATASETS.values() for part in known.parts}


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")
