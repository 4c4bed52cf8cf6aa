"""``noisebound predict``: labels for new data."""

from pathlib import Path

from rich.console import Console
from rich.markup import escape

from noisebound.cli.options import DataDir
from noisebound.training import SavedModel
from noisebound.training.predict import predict as run_predict
from noisebound.training.predict import write_predictions


def predict(model: Path, data: str, *, out: Path, data_dir: DataDir = None) -> None:
    """Label new data with a model that `noisebound fit` has left.

    Example: `noisebound predict run new-photos/ --out labels.csv`

    Parameters
    ----------
    model
        The folder that `noisebound fit` wrote.
    data
        What to label: a folder of images, a table, an array file, or a data set's test examples.
    out
        A .csv or .parquet file: the example, its label, the probability of each class.
    """
    predictions = run_predict(SavedModel.load(model), data, data_dir=data_dir)
    write_predictions(predictions, out)
    Console(soft_wrap=True).print(f"{len(predictions):,} labels: {escape(str(out))}")
