"""A user's folder of IDX files, which need not be a published data set."""

from pathlib import Path

import numpy as np
import torch

from noisebound.data.dataset import Dataset, Splits
from noisebound.data.formats.archives import Folder
from noisebound.data.formats.idx import read_idx_pair
from noisebound.data.labels import encode_labels
from noisebound.data.published.mnist import EMNIST_SPLITS
from noisebound.errors import DataError

_IMAGES, _LABELS = "-images-idx3-ubyte", "-labels-idx1-ubyte"


def holds_idx(path: Path) -> bool:
    """True if the folder has files of IDX images directly in it."""
    return any(path.glob(f"*{_IMAGES}*"))


def read_idx_folder(path: Path) -> Splits:
    """Return training examples, and test examples if there are any.

    The images are in ``*train-images-idx3-ubyte`` and in ``*test-images-idx3-ubyte`` or
    ``*t10k-images-idx3-ubyte``, with or without ``.gz``; the labels are in the files beside them.
    Files whose names begin with ``emnist-`` are read as EMNIST's: transposed, with its class names.
    """
    names = sorted(file.name for file in path.glob(f"*{_IMAGES}*"))
    train = [name for name in names if name.partition(_IMAGES)[0].endswith("train")]
    test = [name for name in names if name.partition(_IMAGES)[0].endswith(("test", "t10k"))]
    if len(train) != 1 or len(test) > 1:
        raise DataError(
            f"{path} must have one file *train{_IMAGES}[.gz] and at most one *test{_IMAGES}[.gz]; "
            f"it has {names}"
        )
    train_data = _read(path, train[0], None)
    test_data = _read(path, test[0], train_data.class_names) if test else None
    return Splits(path.name, train_data, test_data, source=str(path))


def _read(path: Path, images: str, class_names: tuple[str, ...] | None) -> Dataset:
    kind = images.split("-")[1] if images.startswith("emnist-") else ""
    split = EMNIST_SPLITS.get(kind)
    pixels, labels = read_idx_pair(
        Folder(path),
        images,
        images.replace(_IMAGES, _LABELS),
        num_classes=len(split.class_names) if split else 256,
        first_label=split.first_label if split else 0,
        transposed=split is not None,
    )
    if split:
        names, indices = split.class_names, labels
    else:
        indices, names = encode_labels(labels, class_names)
    return Dataset(torch.tensor(pixels), torch.from_numpy(indices.astype(np.int64)), names)
