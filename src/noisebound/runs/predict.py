"""New data in the form that a trained model takes, and tables of what it says."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
from torch import Tensor

from noisebound.data import Dataset, Splits, load
from noisebound.data.formats.table_files import TableFile, is_table, read_table_file
from noisebound.data.frames import as_table, is_frame
from noisebound.data.from_arrays import inputs_from_array
from noisebound.data.options import ReadingOptions, reading_options
from noisebound.data.registry import find_published
from noisebound.data.rows import Rows
from noisebound.data.user.arrays import read_inputs
from noisebound.data.user.image_folder import read_unlabeled
from noisebound.data.user.texts import (
    TEXT_COLUMN,
    as_texts,
    read_unlabeled_texts,
    texts_frame,
)
from noisebound.errors import DataError
from noisebound.features import Backbone
from noisebound.runs.embedding import new_embeddings
from noisebound.runs.saved_model import SavedModel
from noisebound.system.files import written_whole
from noisebound.system.spreadsheets import quote_formulas


def new_inputs(
    model: SavedModel,
    data: Any,
    *,
    backbone: Callable[[], Backbone] | None = None,
    data_dir: str | Path | None = None,
    skip_bad: bool = False,
    encoding: str | None = None,
) -> tuple[list[str] | list[int], Tensor | Rows]:
    """Return the name of each new example, and the inputs that the model takes.

    A model on the embeddings of a backbone gets new data embedded by the same backbone.

    Args:
        model: the trained model
        data: a folder of images or of .txt files, a CSV, TSV, JSONL, Parquet, Excel, npz or npy
            file, the name of a data set, whose test examples are then taken; or, in memory, a data
            frame, an array or a list of texts
        backbone: returns the model's backbone, if it is needed; None for a model without one
        data_dir: where published files are looked for first
        skip_bad: True to leave out images that cannot be read
        encoding: how a table or text file writes letters as bytes; None for UTF-8
    """
    if model.card.backbone is not None:
        options = reading_options(
            {"data_dir": data_dir, "skip_bad": skip_bad, "encoding": encoding}
        )
        assert backbone is not None
        return new_embeddings(model, data, backbone, options)
    if isinstance(data, str | Path):
        return _read(model, data, data_dir, skip_bad, encoding)
    inputs: Tensor | Rows
    if as_texts(data) is not None:
        if len(model.card.input_shape) == 3:
            raise DataError(
                "the model takes images, and this is a list of texts: give the folder that the "
                "images are in, or an array of them"
            )
        inputs = _encoded(model, texts_frame(data), "the list of texts")
    elif is_frame(data):
        inputs = _encoded(model, as_table(data), "the data frame")
    elif isinstance(data, Splits):
        inputs = _of_splits(model, data)
    elif isinstance(data, Dataset):
        inputs = data.rows
    else:
        inputs = inputs_from_array(data)
    return list(range(len(inputs))), inputs


def predictions_frame(
    names: list[str] | list[int],
    model: SavedModel,
    probs: Tensor,
    ids: Mapping[int, str] | None = None,
) -> pl.DataFrame:
    """Return one row per example: its name, its likeliest class, and every class's probability.

    Args:
        names: the name of each example, or its row
        model: the trained model
        probs: the class probabilities of each example
        ids: the id of each row of a table that has a column of ids
    """
    class_names = model.card.class_names
    columns = {f"p({name})": probs[:, index].numpy() for index, name in enumerate(class_names)}
    labels = [class_names[index] for index in probs.argmax(1).tolist()]
    known = {} if ids is None else {"id": [ids[int(row)] for row in names]}
    return pl.DataFrame({"example": names, **known, "label": labels, **columns})


def read_ids(
    data: Any, column: str, *, encoding: str | None = None, skip_bad: bool = False
) -> dict[int, str] | None:
    """Return the id of each row of a table; None if the data is not a table with this column.

    Args:
        data: as in :func:`new_inputs`
        column: the column of ids
        encoding: as in :func:`new_inputs`
        skip_bad: as in :func:`new_inputs`
    """
    if is_frame(data):
        table = TableFile(as_table(data).lazy())
    elif isinstance(data, str | Path) and is_table(Path(data)) and Path(data).exists():
        table = read_table_file(Path(data), encoding=encoding, written={column}, skip_bad=skip_bad)
    else:
        return None
    if column not in table.frame.collect_schema().names():
        return None
    ids = table.frame.select(pl.col(column).cast(pl.String).fill_null("")).collect().to_series()
    return dict(zip(table.positions(len(ids)), ids.to_list(), strict=True))


def check_writable(path: Path) -> None:
    """Refuse a file of another kind than tables are written to."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise DataError(f"predictions are written as .csv or .parquet, got {path.name}")


def write_frame(frame: pl.DataFrame, path: Path, *, quotes_formulas: bool = True) -> None:
    """Write a table as CSV or Parquet, by the extension.

    Args:
        frame: the table
        path: the file
        quotes_formulas: False to write texts to CSV as they are, also if a spreadsheet would
            compute them; Parquet has them as they are
    """
    check_writable(path)
    with written_whole(path) as part:
        if path.suffix.lower() == ".csv":
            (quote_formulas(frame) if quotes_formulas else frame).write_csv(part)
        else:
            frame.write_parquet(part)


def _of_splits(model: SavedModel, splits: Splits) -> Tensor | Rows:
    """Return the inputs of a data set as the model's own encoder sees them.

    The data set came with features by an encoder of its own, whose means and words are others.
    """
    examples, frame = splits.to_predict
    if frame is None or model.card.encoder is None:
        return examples.rows
    return _encoded(model, frame, splits.name)


def _read(
    model: SavedModel,
    data: str | Path,
    data_dir: str | Path | None,
    skip_bad: bool,
    encoding: str | None,
) -> tuple[list[str] | list[int], Tensor | Rows]:
    path = Path(data)
    if isinstance(data, str) and find_published(data) is not None:
        splits = load(data, data_dir=data_dir)
        return new_inputs(model, splits)
    if path.is_dir() and _takes_texts(model):
        options = ReadingOptions(skip_bad=skip_bad, encoding=encoding)
        names, texts = read_unlabeled_texts(path, options)
        return names, _encoded(model, texts, str(path))
    if path.is_dir():
        if len(model.card.input_shape) != 3:
            raise DataError(f"the model takes features, and {path} is a folder of images")
        return read_unlabeled(path, model.card.input_shape, skip_bad)
    if not path.exists():
        raise DataError(f"{data} is neither a file or folder nor a known data set")
    if is_table(path):
        encoder = model.card.encoder
        written = frozenset[str]() if encoder is None else encoder.written_columns
        table = read_table_file(path, encoding=encoding, written=written, skip_bad=skip_bad)
        inputs = _encoded(model, table.frame, str(path))
        return table.positions(len(inputs)), inputs
    inputs = inputs_from_array(read_inputs(path))
    return list(range(len(inputs))), inputs


def _takes_texts(model: SavedModel) -> bool:
    """True if the model was trained on texts alone, whatever their column was called."""
    encoder = model.card.encoder
    return encoder is not None and len(encoder.columns) == len(encoder.text_columns) == 1


def _encoded(model: SavedModel, frame: pl.DataFrame | pl.LazyFrame, source: str) -> Tensor | Rows:
    encoder = model.card.encoder
    if encoder is not None:
        if _takes_texts(model) and frame.collect_schema().names() == [TEXT_COLUMN]:
            frame = frame.rename({TEXT_COLUMN: encoder.text_columns[0]})
        return encoder.transform(frame)
    is_numeric = all(dtype.is_numeric() for dtype in frame.collect_schema().dtypes())
    if not is_numeric or source != "the data frame":
        is_image = len(model.card.input_shape) == 3
        kind, remedy = ("images", "a folder of images") if is_image else ("arrays", "an npz file")
        raise DataError(f"the model was trained on {kind}, and {source} is a table: give {remedy}")
    return inputs_from_array(frame.lazy().collect().to_numpy())
