"""Labels and probabilities for new data, by the preprocessing that the model was trained with."""

from pathlib import Path

import polars as pl
from torch import Tensor

from noisebound.data import DataError, load
from noisebound.data.dataset import inputs_from_array
from noisebound.data.registry import find_published
from noisebound.data.user.arrays import read_inputs
from noisebound.data.user.image_folder import read_unlabeled
from noisebound.data.user.tables import is_table, read_frame
from noisebound.files import written_whole
from noisebound.training.saved_model import SavedModel


def predict(
    model: SavedModel,
    data: str | Path,
    *,
    data_dir: str | Path | None = None,
    skip_bad: bool = False,
) -> pl.DataFrame:
    """One row an example: what it is, its most probable class, and every class's probability.

    Args:
        model: trained
        data: a folder of images, a CSV, TSV, Parquet, npz or npy file, or the name of a data set,
            whose test examples are then taken
        data_dir: where published files are looked for first
        skip_bad: leave out images that cannot be read
    """
    names, inputs = _read(model, data, data_dir, skip_bad)
    probabilities = model.probabilities(inputs)
    labels = [model.card.class_names[index] for index in probabilities.argmax(1).tolist()]
    columns = {
        f"p({name})": probabilities[:, index].numpy()
        for index, name in enumerate(model.card.class_names)
    }
    return pl.DataFrame({"example": names, "label": labels, **columns})


def check_writable(path: Path) -> None:
    """Refuse a file of another kind than predictions are written to."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise DataError(f"predictions are written as .csv or .parquet, got {path.name}")


def write_predictions(predictions: pl.DataFrame, path: Path) -> None:
    """As CSV or Parquet, by the extension."""
    check_writable(path)
    with written_whole(path) as part:
        if path.suffix.lower() == ".csv":
            predictions.write_csv(part)
        else:
            predictions.write_parquet(part)


def _read(
    model: SavedModel, data: str | Path, data_dir: str | Path | None, skip_bad: bool
) -> tuple[list[str] | list[int], Tensor]:
    path = Path(data)
    if isinstance(data, str) and find_published(data) is not None:
        splits = load(data, data_dir=data_dir)
        chosen = splits.test or splits.train
        return list(range(len(chosen))), chosen.inputs
    if path.is_dir():
        if len(model.card.input_shape) != 3:
            raise DataError(f"the model takes features, and {path} is a folder of images")
        return read_unlabeled(path, model.card.input_shape, skip_bad)
    if not path.exists():
        raise DataError(f"{data} is neither a file or folder nor a known data set")
    if is_table(path):
        if model.card.encoder is None:
            raise DataError(f"the model was not trained on a table, and {path} is one")
        frame = read_frame(path)
        return list(range(len(frame))), model.card.encoder.transform(frame)
    inputs = inputs_from_array(read_inputs(path))
    return list(range(len(inputs))), inputs
