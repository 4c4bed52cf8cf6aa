"""New data in the form that a trained model takes, and tables of what it says."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
from torch import Tensor

from noisebound.data.arrays import inputs_from_array
from noisebound.data.images import decode_once
from noisebound.data.load import Unlabeled, read
from noisebound.data.options import reading_options
from noisebound.data.rows import Rows
from noisebound.data.texts import TEXT_COLUMN
from noisebound.errors import DataError
from noisebound.features import Backbone
from noisebound.files import written_whole
from noisebound.runs.embedding import new_embeddings
from noisebound.runs.saved_model import SavedModel
from noisebound.spreadsheets import quote_formulas


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
        data: an image or a .txt file, or a folder of them, a CSV, TSV, JSONL, Parquet, Excel, npz
            or npy file, the name of a data set, whose test examples are then taken; or in memory, a
            data frame, an array or a list of texts
        backbone: returns the model's backbone, if it is needed; None for a model without one
        data_dir: where published files are looked for first
        skip_bad: True to leave out images that cannot be read
        encoding: how a table or text file writes letters as bytes; None for UTF-8
    """
    options = reading_options({"data_dir": data_dir, "skip_bad": skip_bad, "encoding": encoding})
    if model.card.backbone is not None:
        assert backbone is not None
        return new_embeddings(model, data, backbone, options)
    encoder = model.card.encoder
    written = frozenset[str]() if encoder is None else encoder.written_columns
    found = read(data, options, labeled=False, written=written)
    if found.images is not None:
        return _decoded(model, found, skip_bad)
    if found.frame is not None:
        return found.names, _encoded(model, found.frame, found.source)
    assert found.inputs is not None
    return found.names, found.inputs


def _decoded(
    model: SavedModel, found: Unlabeled, skip_bad: bool
) -> tuple[list[str] | list[int], Tensor | Rows]:
    """Return the names of the images that can be read, and their pixels as the model takes them."""
    assert found.images is not None
    files, names = found.images
    if len(model.card.input_shape) != 3:
        raise DataError(f"the model takes features, and {found.source} holds images")
    channels, height, width = model.card.input_shape
    decoded = decode_once(
        files,
        names,
        mode="L" if channels == 1 else "RGB",
        size=(height, width),
        skip_bad=skip_bad,
    )
    return [names[place] for place in decoded.kept], decoded.images


def predictions_frame(
    names: list[str] | list[int], model: SavedModel, probs: Tensor
) -> pl.DataFrame:
    """Return one row per example: its name, its likeliest class, and every class's probability."""
    class_names = model.card.class_names
    columns = {f"p({name})": probs[:, index].numpy() for index, name in enumerate(class_names)}
    labels = [class_names[index] for index in probs.argmax(1).tolist()]
    return pl.DataFrame({"example": names, "label": labels, **columns})


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


def _takes_texts(model: SavedModel) -> bool:
    """True if the model was trained on texts alone, whatever their column was called."""
    encoder = model.card.encoder
    return encoder is not None and len(encoder.columns) == len(encoder.text_columns) == 1


def _encoded(model: SavedModel, frame: pl.LazyFrame, source: str) -> Tensor | Rows:
    encoder = model.card.encoder
    is_texts = frame.collect_schema().names() == [TEXT_COLUMN]
    if encoder is not None:
        if is_texts and _takes_texts(model):
            frame = frame.rename({TEXT_COLUMN: encoder.text_columns[0]})
        return encoder.transform_new(frame)
    if is_texts and len(model.card.input_shape) == 3:
        raise DataError(
            f"the model takes images, got {source}: give the folder that the images are in, or an "
            "array of them"
        )
    if not all(dtype.is_numeric() for dtype in frame.collect_schema().dtypes()):
        raise DataError(
            f"the model was not trained on a table, and {source} is one with columns that are not "
            "numbers"
        )
    if source != "the data frame":
        raise DataError(f"the model was not trained on a table, and {source} is one")
    return inputs_from_array(frame.collect().to_numpy())
