"""The data sets that are known by name."""

from noisebound.data.published.animals10n import ANIMALS_10N
from noisebound.data.published.cifar import CIFAR10, CIFAR100, CIFAR100_COARSE
from noisebound.data.published.cifar_n import CIFAR10N, CIFAR100N
from noisebound.data.published.digits import DIGITS
from noisebound.data.published.mnist import EMNIST, FASHION_MNIST, MNIST
from noisebound.data.published.noisy_ag_news import NOISY_AG_NEWS
from noisebound.data.published.record import Published
from noisebound.data.published.tiny_imagenet import TINY_IMAGENET
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


def find_published(name: str) -> Published | None:
    """Return the data set of that name, or None; case, hyphens and underscores do not matter."""
    spelled = {_plain(known): published for known, published in DATASETS.items()}
    spelled |= {_plain(alias): DATASETS[known] for alias, known in _ALIASES.items()}
    return spelled.get(_plain(name))


def get_published(name: str) -> Published:
    """Return the data set of that name, or raise an error that lists the names."""
    published = find_published(name)
    if published is None:
        raise DataError(f"unknown data set {name!r}: choose one of {', '.join(DATASETS)}")
    return published


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")
