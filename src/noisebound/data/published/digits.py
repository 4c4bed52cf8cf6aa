"""scikit-learn's digits: 1,797 images that are installed with it, so they need no download."""

from typing import TYPE_CHECKING

import numpy as np

from noisebound.data.published.record import Published

if TYPE_CHECKING:
    from noisebound.data.dataset import Splits

_TRAIN = 1257  # a choice: 70 % of the 1,797 images
_SPLIT_SEED = 0  # fixed, so that everyone has the same test examples


def _read_digits() -> "Splits":
    """Return the digits, of which 30 % are the test examples, since the set has none.

    The pixels, which range from 0 to 16, are scaled to bytes.
    """
    import torch
    from sklearn.datasets import load_digits

    from noisebound.data.dataset import Dataset, Splits, stratified_indices

    bunch = load_digits()
    pixels = np.rint(bunch.images * (255 / 16)).astype(np.uint8)
    inputs = torch.from_numpy(pixels)[:, None]
    labels = torch.from_numpy(bunch.target.astype(np.int64))
    names = tuple(str(digit) for digit in bunch.target_names)
    chosen = stratified_indices(labels, _TRAIN, _SPLIT_SEED)
    is_train = torch.zeros(len(labels), dtype=torch.bool).index_fill_(0, chosen, True)
    return Splits(
        "digits",
        Dataset(inputs[is_train], labels[is_train], names),
        Dataset(inputs[~is_train], labels[~is_train], names),
        source="scikit-learn",
    )


DIGITS = Published(
    "digits",
    "handwritten digits, 8×8",
    parts=(),
    assemble=_read_digits,
    counts=((_TRAIN, 1797 - _TRAIN),),
)
