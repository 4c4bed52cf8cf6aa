"""``noisebound predict``: labels for new data."""

from pathlib import Path

from rich.console import Console
from rich.markup import escape

from noisebound.cli.options import DataDir, SkipBad
from noisebound.training import SavedModel
from noisebound.training.predict import check_writable, write_predictions
from noisebound.training.predict import predict as run_predict


def predict(
    model: Path, data: str, *, out: Path, data_dir: DataDir = None, skip_bad: SkipBad = False
) -> None:
    """Label new data with a model that `noisebound fit` has left.

    Parameters
    ----------
    model
        The folder that `noisebound fit` wrote.
    data
        What to label: a folder of images, a table, an array file, or a data set's test examples.
    out
        A .csv or .parquet file: the example, its label, the probability of each class.
    """
    check_writable(out)
    loaded = SavedModel.load(model)
    predictions = run_predict(loaded, data, data_dir=data_dir, skip_bad=skip_bad)
    write_predictions(predictions, out)
    Console(soft_wrap=True).print(f"{len(predictions):,} labels: {escape(str(out))}")
