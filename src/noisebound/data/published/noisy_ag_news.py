"""NoisyAG-News: news texts labeled by crowd workers, with the true labels beside them.

``train.csv`` and ``test.csv`` have the columns ``label``, ``gt`` (the truth) and ``text``. About a
fifth of the training labels are wrong; test examples are judged by the truth.
"""

import io
from typing import TYPE_CHECKING, Any

import polars as pl

from noisebound.data.archives import Files, as_data_error
from noisebound.data.column_types import check_named
from noisebound.data.labels import check_label_range
from noisebound.data.published.releases import Part, Published, PublishedFile
from noisebound.errors import DataError

if TYPE_CHECKING:
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

    texts, noisy, true = _read(files, _FILES[0], _LABEL, _TRUTH)
    test_texts, test_true = _read(files, _FILES[1], _TRUTH)
    encoder = TableEncoder.fit(texts, {_TEXT: "text"})
    return Splits(
        "noisy-ag-news",
        Dataset(encoder.transform(texts), noisy, CLASS_NAMES, true),
        Dataset(encoder.transform(test_texts), test_true, CLASS_NAMES),
        source=files.where(),
        notes=encoder.notes,
        encoder=encoder,
        frame=texts,
        test_frame=test_texts,
    )


def _read(files: Files, name: str, *columns: str) -> list[Any]:
    """Return the texts of a file as a table, and the class indices in each of the columns."""
    import torch

    where = files.where(name)
    with as_data_error(where):
        frame = pl.read_csv(io.BytesIO(files.read(name)))
    check_named(frame.columns, (*columns, _TEXT), where)
    parts: list[Any] = [frame.select(_TEXT).lazy()]
    for column in columns:
        labels = frame[column].cast(pl.Int64, strict=False)
        if labels.null_count():
            raise DataError(f"{where}, column {column!r}: labels must be whole numbers")
        indices = labels.to_numpy(writable=True)
        check_label_range(indices, len(CLASS_NAMES), f"{where}, column {column!r}")
        parts.append(torch.from_numpy(indices))
    return parts


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
