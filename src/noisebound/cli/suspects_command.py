"""``noisebound suspects``: which labels are probably wrong."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators
from rich.console import Console
from rich.markup import escape

from noisebound.cli.options import DataDir, ImageSize, SkipBad, Target
from noisebound.data import DataOrigin
from noisebound.errors import InvalidValueError
from noisebound.report.plots import save_figure
from noisebound.training.predict import check_writable, write_predictions
from noisebound.training.run_folder import RunFolder
from noisebound.training.suspects import suspects_of_run
from noisebound.training.suspects_table import suspects_sheet, suspects_table


def suspects(
    run: Path,
    data: str | None = None,
    *,
    out: Path,
    sheet: Path | None = None,
    most: Annotated[int, Parameter(validator=validators.Number(gte=1))] = 64,
    target: Target = None,
    image_size: ImageSize = None,
    skip_bad: SkipBad = False,
    data_dir: DataDir = None,
) -> None:
    """Rank the labels of a run's training data by how likely they are wrong.

    Parameters
    ----------
    run
        The folder that `noisebound fit` wrote.
    data
        What it was trained on [default: what the folder says].
    out
        A .csv or .parquet file: every example, the most suspect first, with its label, the
            probability that it is wrong, and what it should be instead.
    sheet
        A .png of the most suspect images [default: beside the table, where the data are images].
    most
        How many images it shows.
    """
    check_writable(out)
    if data is None:
        if target is not None or image_size is not None or skip_bad:
            raise InvalidValueError(
                "--target, --image-size and --skip-bad say how to read DATA: name it"
            )
        origin = DataOrigin.read(run)
        if data_dir is not None:
            origin = origin.model_copy(update={"data_dir": data_dir})
    else:
        origin = DataOrigin(
            data=data, data_dir=data_dir, target=target, image_size=image_size, skip_bad=skip_bad
        )
    splits, folder = origin.load(), RunFolder(run)
    if sheet is not None and not splits.train.is_images:
        raise InvalidValueError("--sheet shows images, and these are features: leave it out")
    found = suspects_of_run(folder, splits.train)
    table = suspects_table(found, splits)
    write_predictions(table, out)
    console = Console(soft_wrap=True, highlight=False)
    expected = found.probability.sum().item()
    console.print(f"{len(table):,} labels, of which about {expected:,.0f} are probably wrong:")
    console.print(f"ranked in {escape(str(out))}")
    result = folder.read_result()
    if result is not None and result.bound is None and result.noise is None:
        console.print(
            "[yellow]note:[/] this run had no bound, and its model may have learnt wrong labels by "
            "heart: train with noisebound fit DATA --out RUN, without --loss"
        )
    if splits.train.is_images:
        path = sheet or out.with_suffix(".png")
        save_figure(suspects_sheet(found, splits.train, most), path)
        console.print(f"the most suspect images: {escape(str(path))}")
