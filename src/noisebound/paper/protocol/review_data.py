"""The data of the review experiment: labels that people gave, whose truth is known."""

from dataclasses import replace

from noisebound.data import Splits
from noisebound.paper.protocol.sources import DataSources

REVIEW_SETS = ("noisy-ag-news", "cifar10n-worst")
OTHER_REVIEW_SETS = ("cifar10n-random1", "cifar10n-aggregate")
"""Sets that had no part in choosing the constants of the order; they are run if they are named."""
CIFAR_EXAMPLES = 10_000  # of 50,000, so that the experiment takes minutes


def load_review_data(name: str, sources: DataSources) -> Splits:
    """Return embeddings with the labels that people gave and the true ones.

    Of CIFAR-10N 10,000 training images are taken, drawn at random, each class by its share.

    Args:
        name: one of `REVIEW_SETS` or `OTHER_REVIEW_SETS`
        sources: where the data comes from
    """
    splits = sources.vectors(name)
    if name != "noisy-ag-news" and len(splits.train) > CIFAR_EXAMPLES:
        splits = replace(splits, train=splits.train.take(CIFAR_EXAMPLES, seed=0), pictures=None)
    return splits
