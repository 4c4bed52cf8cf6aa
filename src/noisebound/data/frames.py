"""Tables and texts in memory as polars frames: of pandas, pyarrow or Hugging Face's datasets.

The package of an object is known by its module, and never imported for those who do not use it.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import polars as pl

from noisebound.data.column_types import looks_like_text, nulls_for_missing
from noisebound.data.labels import is_missing
from noisebound.data.options import ReadingOptions
from noisebound.errors import DataError

TEXT_COLUMN = "text"
"""The name of the column of texts that came without a table."""


_FRAMES = {
    ("pandas", "DataFrame"),
    ("pyarrow", "Table"),
    ("pyarrow", "RecordBatch"),
    ("datasets", "Dataset"),
}
_TEST_NAMES = ("test", "validation", "valid", "val", "dev")  # in the order of preference


def is_frame(data: object) -> bool:
    """True for a table of polars, pandas or pyarrow, and for a Hugging Face data set."""
    return isinstance(data, pl.DataFrame | pl.LazyFrame) or _kind(data) in _FRAMES


def _kind(data: object) -> tuple[str, str]:
    """Return the package and the name of an object's class."""
    return type(data).__module__.partition(".")[0], type(data).__name__


def as_table(data: Any) -> pl.DataFrame:
    """Return a polars frame with null wherever a file with the same values would have it."""
    return nulls_for_missing(as_polars(data))


def as_polars(data: Any) -> pl.DataFrame:
    """Return a polars frame; a pandas frame is copied column by column, without its index."""
    if isinstance(data, pl.DataFrame | pl.LazyFrame):
        return data.lazy().collect()
    if not is_frame(data):
        raise DataError(
            "expected a table of polars, pandas or pyarrow, or a Hugging Face Dataset, got "
            f"{type(data).__name__}: pass one of these, or save the table as CSV or Parquet and "
            "pass its path"
        )
    package, _ = _kind(data)
    if package == "datasets":
        frame: pl.DataFrame = data.to_polars()
        return frame.with_columns(
            pl.col(name).replace_strict(
                range(len(feature.names)), feature.names, default=None, return_dtype=pl.String
            )
            for name, feature in data.features.items()
            if _is_classes(feature)
        )
    names = data.columns if package == "pandas" else data.schema.names
    refuse_repeated([str(name) for name in names], "the frame")  # 1 and "1" differ in pandas alone
    if package == "pyarrow":
        return pl.DataFrame(data)
    return pl.DataFrame([_column(str(name), data[name]) for name in names])


def refuse_repeated(names: Sequence[str], source: object) -> None:
    """Raise a `DataError` if two columns of a table have one name."""
    repeated = [name for name, count in Counter(names).items() if count > 1 and name]
    if repeated:
        raise DataError(f"{source} has several columns called {repeated[0]!r}: rename all but one")


def train_and_others(data: Any) -> tuple[Any, dict[str, Any]]:
    """Return the table to train on, and the others by name, the one to evaluate on first.

    Only a Hugging Face ``DatasetDict`` has others.
    """
    package, name = _kind(data)
    if package == "datasets" and name.startswith("Iterable"):
        raise DataError(
            f"{name} is read as a stream, and the noise is estimated from all examples: load the "
            "data set with streaming=False"
        )
    if (package, name) != ("datasets", "DatasetDict"):
        return data, {}
    train = "train" if "train" in data or len(data) != 1 else next(iter(data))
    if train not in data:
        raise DataError(f"the DatasetDict has no split 'train', only {', '.join(data)}: pass one")
    others = [name for name in dict.fromkeys((*_TEST_NAMES, *data)) if name in data]
    return data[train], {name: data[name] for name in others if name != train}


def described_by_features(
    options: ReadingOptions, data: Any, frame: pl.DataFrame
) -> ReadingOptions:
    """Return the options with the columns of labels and of texts that a data set declares.

    The labels are the only column of classes, or one called label. Texts are the columns of strings
    that hold sentences, or the only column beside the labels.
    """
    if _kind(data) != ("datasets", "Dataset"):
        return options
    classes = [name for name, feature in data.features.items() if _is_classes(feature)]
    found = classes if len(classes) == 1 else [name for name in ("label",) if name in frame.columns]
    target = options.target or tuple(found)
    others = (options.id, options.groups, options.item, options.annotator)
    free = [name for name in frame.columns if name not in {*target, *options.exclude, *others}]
    texts = [
        name
        for name in free
        if frame.schema[name] == pl.String
        and name not in {*classes, *options.types}
        and (len(free) == 1 or looks_like_text(frame[name]))
    ]
    return options.model_copy(update={"target": target, "text": options.text or tuple(texts)})


def _is_classes(feature: Any) -> bool:
    return type(feature).__name__ == "ClassLabel"


def _column(name: str, column: Any) -> pl.Series:
    values = column.to_numpy()
    if values.dtype.kind in "biufMm":
        return pl.Series(name, values, nan_to_null=True)
    # Text and mixtures hold None, NaN or NaT for missing values.
    present = [
        None if gone else without_surrogates(value) if isinstance(value, str) else value
        for value, gone in zip(values, column.isna(), strict=True)
    ]
    with suppress(pl.exceptions.PolarsError, TypeError, ValueError):
        found = pl.Series(name, present, strict=False)
        if found.dtype != pl.Object:
            return found
    # Periods, intervals, paths and mixtures become text.
    return pl.Series(name, [None if value is None else str(value) for value in present], pl.String)


def without_surrogates(text: str) -> str:
    r"""Return a text with lone UTF-16 surrogates replaced, and pairs of them joined.

    Programs that count in UTF-16 leave half an emoji where they cut a text. No table, file or
    tokenizer takes it.

    Example:
        >>> without_surrogates("x \ud83d y") == "x \ufffd y"
        True
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def as_texts(data: object) -> list[str | None] | None:
    """Return the strings of a list, an array or a series, with None for missing ones.

    Returns None if the data is something else.

    Raises:
        DataError: some values are strings and others are not
    """
    if isinstance(data, pl.Series):
        return data.to_list() if data.dtype == pl.String else None
    is_array = isinstance(data, np.ndarray) and data.ndim == 1 and data.dtype.kind in "OU"
    is_list = isinstance(data, Sequence) and not isinstance(data, str)
    if not (is_list or is_array or _kind(data) == ("pandas", "Series")):
        return None
    values = [None if is_missing(value) else value for value in data]  # type: ignore[attr-defined]
    if not any(isinstance(value, str) for value in values):
        return None
    for place, value in enumerate(values):
        if not isinstance(value, str | None):
            raise DataError(f"expected texts, got {value!r} at position {place}: write it as text")
    return values


def texts_frame(texts: Any) -> pl.DataFrame:
    """Return strings as the table that a model of texts takes, without lone surrogates."""
    cleaned = [text and without_surrogates(text) for text in as_texts(texts) or ()]
    return pl.DataFrame({TEXT_COLUMN: pl.Series(cleaned, dtype=pl.String)})
