"""Data sets as tensors: published ones by name, the user's own by path, and batches of either."""

from typing import TYPE_CHECKING

from noisebound.lazy import import_when_used

if TYPE_CHECKING:
    from noisebound.data.arrays import dataset_from_arrays as dataset_from_arrays
    from noisebound.data.dataset import Dataset as Dataset
    from noisebound.data.labels import encode_labels as encode_labels
    from noisebound.data.load import (
        DataOrigin as DataOrigin,
        Unlabeled as Unlabeled,
        load as load,
        read as read,
        read_unlabeled as read_unlabeled,
    )
    from noisebound.data.loader import (
        Batch as Batch,
        CropAndFlip as CropAndFlip,
        Loader as Loader,
        Normalization as Normalization,
    )
    from noisebound.data.options import ReadingOptions as ReadingOptions
    from noisebound.data.published import DATASETS as DATASETS
    from noisebound.data.splits import (
        EmbeddedBy as EmbeddedBy,
        Splits as Splits,
    )
    from noisebound.data.table_encoder import TableEncoder as TableEncoder
    from noisebound.errors import DataError as DataError

import_when_used(__name__)
