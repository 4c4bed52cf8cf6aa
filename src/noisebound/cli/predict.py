"""``noisebound predict`` and ``embed``: new data through a model or a pretrained encoder."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from noisebound.cli.options import QuoteFormulas, Reading, ReadingFlags, RunPath, show_only
from noisebound.system.console import print_note, print_text


class _Reading(ReadingFlags):
    """The reading options that apply to data without labels."""


show_only(
    _Reading,
    "data_dir",
    "encoding",
    "skip_bad",
    id=Parameter(help="The column that identifies the rows [default: the --id of `fit`]."),
)


def predict(
    model: RunPath,
    data: str,
    *,
    out: Path,
    quote_formulas: QuoteFormulas = True,
    coverage: Annotated[float | None, Parameter(metavar="SHARE")] = None,
    backbone: Annotated[str | None, Parameter(metavar="ENCODER")] = None,
    reading: Annotated[_Reading | None, Parameter(name="*")] = None,
) -> None:
    """Label new data with a model that `noisebound fit` trained.

    Example: `noisebound predict run new/ --out labels.csv`

    Parameters
    ----------
    data
        The data to label: an image or .txt file, or a folder of them; a CSV, TSV, JSONL, Parquet,
            Excel, npz or npy file; or the name of a published data set, to label its test examples.
    out
        The .csv or .parquet file to write, with one row per example: its label and the probability
            of each class.
    coverage
        Add the column set: classes, separated by |, that contain the true one for this share of
            the examples, such as 0.9. It is calibrated on the noisy validation labels.
    backbone
        The model's backbone, if it was moved after training.
    """
    from noisebound.runs import load_run
    from noisebound.runs.predict import check_writable, write_frame

    check_writable(out)
    options = (reading or _Reading()).model_dump(exclude_unset=True)
    predictions = load_run(model, backbone=backbone).predictions(data, coverage=coverage, **options)
    write_frame(predictions, out, quotes_formulas=quote_formulas)
    print_text(f"{len(predictions):,} labels: {out}")


def embed(
    data: str,
    *,
    out: Path,
    backbone: Annotated[str, Parameter(metavar="ENCODER")] = "auto",
    cluster: Annotated[str | None, Parameter(metavar="ADDRESS")] = None,
    reading: Reading = None,
) -> None:
    """Write the embeddings of a data set to a folder that `noisebound fit` reads.

    Example: `noisebound embed photos/ --out vectors`

    Parameters
    ----------
    data
        The data: a folder of images or .txt files, a table with a column of texts, an npz or npy
            file of images, or the name of a published data set.
    out
        The folder to write. To continue after an interruption, run the same command again.
    backbone
        The pretrained encoder: hf:NAME_OR_FOLDER, onnx:FILE, timm:NAME or package:NAME; auto for
            one that fits the examples.
    cluster
        The address of a Ray cluster, auto to use one that runs here, or local to start one. All
            machines must have access to the data and the output folder.
    """
    from noisebound.features import parse_backbone
    from noisebound.features.examples import load_raw
    from noisebound.features.load import embed_folder
    from noisebound.features.parse import needed_backbone
    from noisebound.training.devices import keep_freed_memory

    keep_freed_memory()
    options = (reading or ReadingFlags()).options
    encoder = None if backbone == "auto" else parse_backbone(backbone, options.image_size)
    raw = load_raw(data, options)
    encoder = encoder or needed_backbone(raw.examples["train"].modality, print_note)
    notes = embed_folder(
        raw, encoder, out, skip_bad=options.skip_bad, cluster=cluster, log=print_note
    )
    for note in (*raw.notes, *notes):
        print_note(note)
    count = sum(map(len, raw.examples.values()))
    print_text(f"{count:,} examples: {out}")
