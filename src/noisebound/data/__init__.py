"""Data sets as tensors: published ones by name, the user's own by path, and batches of either."""

from typing import TYPE_CHECKING

from noisebound.lazy import import_when_used

if TYPE_CHECKING:
    from noisebound.data.arrays import dataset_from_arrays
    from noisebound.data.dataset import Dataset
    from noisebound.data.labels import encode_labels
    from noisebound.data.load import DataOrigin, Unlabeled, load, read, read_unlabeled
    from noisebound.data.loader import Batch, CropAndFlip, Loader, Normalization
    from noisebound.data.options import ReadingOptions
    from noisebound.data.published import DATASETS
    from noisebound.data.splits import EmbeddedBy, Splits
    from noisebound.data.table_encoder import TableEncoder
    from noisebound.errors import DataError

import_when_used(__name__)

__all__ = [
    "DATASETS",
    "Batch",
    "CropAndFlip",
    "DataError",
    "DataOrigin",
    "Dataset",
    "EmbeddedBy",
    "Loader",
    "Normalization",
    "ReadingOptions",
    "Splits",
    "TableEncoder",
    "Unlabeled",
    "dataset_from_arrays",
    "encode_labels",
    "load",
    "read",
    "read_unlabeled",
]
