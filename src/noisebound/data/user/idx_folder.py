"""A folder of IDX files that are not one of the published sets (or a part of one)."""

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
    """Whether the folder has IDX images directly in it."""
    return any(path.glob(f"*{_IMAGES}*"))


def read_idx_folder(path: Path) -> Splits:
    """``*train-images-idx3-ubyte``, ``*test-…`` or ``t10k-…`` and their labels, with .gz or not.

    Files named ``emnist-…`` are transposed, as EMNIST's are, and have its class names.
    """
    names = sorted(file.name for file in path.glob(f"*{_IMAGES}*"))
    train = [name for name in names if name.partition(_IMAGES)[0].endswith("train")]
    test = [name for name in names if name.partition(_IMAGES)[0].endswith(("test", "t10k"))]
    if len(train) != 1 or len(test) > 1:
        raise DataError(
            f"{path} must have one file *train{_IMAGES}[.gz] and at most one *test{_IMAGES}[.gz]; "
            f"it has {names}"
        )
    data = _read(path, train[0], None)
    held_out = _read(path, test[0], data.class_names) if test else None
    return Splits(path.name, data, held_out, source=str(path))


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
