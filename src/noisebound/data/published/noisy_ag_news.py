"""NoisyAG-News: news texts labeled by crowd workers, with the true labels beside them.

``train.csv`` and ``test.csv`` have the columns ``label``, ``gt`` (the truth) and ``text``. About a
fifth of the training labels are wrong; test examples are judged by the truth.
"""

import io
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from jaxtyping import Int64

from noisebound.data.archives import Files
from noisebound.data.labels import check_label_range
from noisebound.data.published.releases import Part, Published, PublishedFile
from noisebound.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor

    from noisebound.data.dataset import Splits

CLASS_NAMES = ("World", "Sports", "Business", "Sci/Tech")

_LABEL, _TRUTH, _TEXT = "label", "gt", "text"
_FILES = ("train.csv", "test.csv")


def read_noisy_ag_news(files: Files) -> "Splits":
    """Return training examples with the workers' labels, and test examples with true ones.

    The texts are encoded later, or embedded by a backbone.
    """
    from noisebound.data.dataset import Dataset, Splits
    from noisebound.data.table_encoder import TableEncoder

    train, test = (_read(files, name) for name in _FILES)
    texts, test_texts = (frame.select(_TEXT).lazy() for frame in (train, test))
    encoder = TableEncoder.fit(texts, {_TEXT: "text"})
    where = [files.where(name) for name in _FILES]
    return Splits(
        "noisy-ag-news",
        Dataset(
            encoder.transform(texts),
            _labels(train, _LABEL, where[0]),
            CLASS_NAMES,
            _labels(train, _TRUTH, where[0]),
        ),
        Dataset(encoder.transform(test_texts), _labels(test, _TRUTH, where[1]), CLASS_NAMES),
        source=files.where(),
        notes=encoder.notes,
        encoder=encoder,
        frame=texts,
        test_frame=test_texts,
    )


def _read(files: Files, name: str) -> pl.DataFrame:
    try:
        frame = pl.read_csv(io.BytesIO(files.read(name)))
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{files.where(name)} is damaged: {error}; fetch it again") from error
    missing = {_LABEL, _TRUTH, _TEXT}.difference(frame.columns)
    if missing:
        raise DataError(f"{files.where(name)} has no column {sorted(missing)[0]!r}")
    return frame


def _labels(frame: pl.DataFrame, column: str, where: str) -> 'Int64[Tensor, " n"]':
    import torch

    where = f"{where}, column {column!r}"
    labels = frame[column].cast(pl.Int64, strict=False)
    if labels.null_count():
        raise DataError(f"{where}: labels must be whole numbers, and some are not")
    indices = np.array(labels.to_numpy(), np.int64)
    check_label_range(indices, len(CLASS_NAMES), where)
    return torch.from_numpy(indices)


NOISY_AG_NEWS = Published(
    "noisy-ag-news",
    "news texts labeled by crowd workers",
    parts=(
        Part(
            folders=("noisy-ag-news", "NoisyAG-News"),
            releases=(tuple(PublishedFile(name) for name in _FILES),),
            read=read_noisy_ag_news,
            how_to_obtain=(
                "NoisyAG-News is not downloaded by noisebound: put its 10,000 training texts as "
                "train.csv and its test set as test.csv, with the columns label, gt and text,"
            ),
        ),
    ),
    counts=((10_000, 7_600),),
)
