"""``noisebound predict``: label new data."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from noisebound.cli.options import DataDir, Encoding, QuoteFormulas, RunPath, SkipBad
from noisebound.system.console import print_text


def predict(
    model: RunPath,
    data: str,
    *,
    out: Path,
    id: Annotated[str | None, Parameter(metavar="COLUMN")] = None,
    quote_formulas: QuoteFormulas = True,
    backbone: Annotated[str | None, Parameter(metavar="ENCODER")] = None,
    data_dir: DataDir = None,
    encoding: Encoding = None,
    skip_bad: SkipBad = False,
) -> None:
    """Label new data with a model that `noisebound fit` trained.

    Parameters
    ----------
    data
        The data to label: an image or .txt file, or a folder of them; a CSV, TSV, JSONL, Parquet,
            Excel, npz or npy file; or the name of a published data set, to label its test examples.
    out
        The .csv or .parquet file to write, with one row per example: its label and the probability
            of each class.
    id
        The column that identifies the rows, to copy to the output [default: the --id of `fit`].
    backbone
        The model's backbone, if it was moved after training.
    """
    from noisebound.runs import load_run
    from noisebound.runs.predict import check_writable, write_frame

    check_writable(out)
    predictions = load_run(model, backbone=backbone).predictions(
        data, data_dir=data_dir, skip_bad=skip_bad, encoding=encoding, id=id
    )
    write_frame(predictions, out, quotes_formulas=quote_formulas)
    print_text(f"{len(predictions):,} labels: {out}")
