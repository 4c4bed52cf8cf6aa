"""Data sets as tensors: published ones by name, the user's own by path, batches of either."""

from typing import TYPE_CHECKING

from noisebound.lazy import import_when_used

if TYPE_CHECKING:
    from noisebound.data.augmentation import CropAndFlip
    from noisebound.data.dataset import Dataset, EmbeddedBy, Splits
    from noisebound.data.from_arrays import dataset_from_arrays
    from noisebound.data.labels import encode_labels
    from noisebound.data.load import load
    from noisebound.data.loader import Batch, Loader
    from noisebound.data.normalization import Normalization
    from noisebound.data.options import ReadingOptions
    from noisebound.data.origin import DataOrigin
    from noisebound.data.registry import DATASETS
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
    "dataset_from_arrays",
    "encode_labels",
    "load",
]
