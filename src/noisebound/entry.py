"""The door in Python: all that the command ``noisebound fit`` does, as one call."""

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Unpack

from torch import nn

from noisebound.data import DataOrigin, Splits
from noisebound.data.column_types import ColumnType
from noisebound.data.load import read
from noisebound.data.options import reading_options
from noisebound.errors import InvalidValueError
from noisebound.features import Backbone, BackboneLike, load_embedded, parse_backbone
from noisebound.models import ModelName
from noisebound.runs import Run, load_run, train_run
from noisebound.runs.folder import RunFolder
from noisebound.search.fit import with_head
from noisebound.system.console import print_note
from noisebound.training.config import TrainingSettings, make_config
from noisebound.training.devices import Devices
from noisebound.training.unfrozen import check_unfreeze

__all__ = ["fit", "load_run"]


def fit(
    data: Any,
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    target: str | None = None,
    text: str | Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    id: str | None = None,
    types: Mapping[str, ColumnType] | None = None,
    test: str | Path | None = None,
    encoding: str | None = None,
    map_labels: Mapping[str, str] | None = None,
    merge_labels: bool = False,
    image_size: int | None = None,
    skip_bad: bool = False,
    data_dir: str | Path | None = None,
    model: ModelName | Literal["auto"] | nn.Module = "auto",
    backbone: BackboneLike | None = None,
    corrections: str | Path | None = None,
    resume: bool = False,
    fabric: Devices | None = None,
    report: bool = True,
    command: str | None = None,
    show: bool = True,
    **settings: Unpack[TrainingSettings],
) -> Run:
    """Train a classifier on noisy labels, and return the run.

    Args:
        data: a path, the name of a data set, a data frame of polars or pandas, a pair of inputs (or
            texts) and labels, or a `Dataset`
        out: the folder for the model, its metrics, its checkpoints and its report; by default a
            temporary one, which is removed together with the returned run
        overwrite: True to replace a run that is in ``out``; decisions about labels are never lost
        target: the column, or the array, that holds the labels
        text: the columns that hold texts, to learn from their words
        exclude: the columns that are not to be used
        id: the column that names the rows, such as a customer number; it is not a feature
        types: what columns hold, where it should not be decided from their values: ``"text"``,
            ``"number"``, ``"category"`` or ``"date"``
        test: a table with clean labels and the same columns, to evaluate on
        encoding: how a table or text file writes letters as bytes; None for UTF-8
        map_labels: labels to rename, such as ``{"Y": "Yes", "N": "No"}``; labels with the same new
            name become one class
        merge_labels: True to take labels that differ by case or spaces only for one
        image_size: the height and width, in pixels, to which a folder's images are brought
        skip_bad: True to leave out images that cannot be read, and rows without a label
        data_dir: where published files are looked for first
        model: a network by name, ``"auto"`` for one that fits the data, or a module, of which a
            copy is trained
        backbone: a pretrained encoder whose embeddings are trained on, made once and cached:
            ``"hf:NAME_OR_FOLDER"``, ``"onnx:FILE"``, ``"timm:NAME"``, or a module or a function
            from a batch to vectors
        corrections: the ``decisions.jsonl`` of a run whose labels were reviewed: corrected labels
            replace the others, checked ones are trusted, and unusable examples are left out
        resume: True to continue the run that is in ``out``
        fabric: launched, for other devices than one
        report: True to write ``report.html``
        command: the command that would repeat the run, for the report; by default this call
        show: True to print notes on the data and draw the loss as it falls
        settings: the fields of `TrainingConfig`, such as ``epochs=20``

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run = fit("digits", out=folder, noise_rate=0.1, epochs=2, model="mlp", show=False)
        ...     run.predict("digits").shape, run.noise.rate
        ((540,), 0.1)
    """
    is_own = isinstance(model, nn.Module)
    reading = reading_options(
        {
            "data_dir": data_dir,
            "target": target,
            "text": text,
            "exclude": exclude,
            "id": id,
            "types": dict(types or {}),
            "test": test,
            "encoding": encoding,
            "map_labels": dict(map_labels or {}),
            "merge_labels": merge_labels,
            "image_size": image_size,
            "skip_bad": skip_bad,
        }
    )
    is_first = fabric is None or fabric.is_global_zero
    is_shown = show and is_first
    config = make_config(settings, model="auto" if isinstance(model, nn.Module) else model)
    is_temporary = out is None
    if out is None:
        if fabric is not None and fabric.world_size > 1:
            raise InvalidValueError("several devices need a folder that all of them see: `out`")
        out = tempfile.mkdtemp(prefix="noisebound-")
    folder = RunFolder(out)  # checked before the data, which may take minutes to load
    if is_temporary:
        weakref.finalize(folder, shutil.rmtree, folder.path, ignore_errors=True)
    folder.check_place()
    if overwrite:
        if resume:
            raise InvalidValueError("`overwrite` replaces a run, and `resume` continues it")
        folder.check_replaceable()
    encoder = None if backbone is None else parse_backbone(backbone, image_size)
    if config.unfreeze:
        check_unfreeze(encoder)
    splits: Splits
    if encoder is None:
        splits = read(data, reading)  # texts are encoded when validation is taken
    else:
        log = print_note if is_shown else lambda line: None
        splits = load_embedded(data, encoder, reading, log=log)
    config = with_head(config, splits)
    if not overwrite:
        folder.check(config, resume=resume)
    if is_shown:
        for note in splits.notes:
            print_note(note)
    run = train_run(
        splits,
        config,
        out,
        resume=resume,
        overwrite=overwrite,
        model=model if isinstance(model, nn.Module) else None,
        fabric=fabric,
        show=show,
        backbone=encoder,
        corrections=corrections,
    )
    if is_first:
        path = str(data) if isinstance(data, str | Path) else None
        name = None if encoder is None else encoder.name
        run.folder.save_origin(DataOrigin(data=path, backbone=name, **reading.model_dump()))
        run.folder.save_command(
            command or _this_call(data, None if is_temporary else out, is_own, encoder, settings)
        )
        if report:
            _write_pages(run, splits)
    run.folder = folder  # a temporary folder lives as long as this object
    return run


def _write_pages(run: Run, splits: Splits) -> None:
    """Write the pages; the model is there already, and no trouble with a page may hide that."""
    from noisebound.pages.run_page import run_page  # with matplotlib, which takes a second
    from noisebound.pages.training_plots import training_figure
    from noisebound.report.page import write_page
    from noisebound.report.plots import save_figure

    try:
        save_figure(training_figure(run.epochs), run.folder.picture)
        write_page(run_page(run, splits, run.folder.read_command()), run.folder.report)
    except Exception as error:
        trouble = f"{type(error).__name__}: {error}"
        print_note(f"{run.folder.report.name} could not be written: {trouble}")


def _this_call(
    data: Any,
    out: str | Path | None,
    is_own: bool,
    encoder: Backbone | None,
    settings: TrainingSettings,
) -> str:
    shown = repr(str(data)) if isinstance(data, str | Path) else "data"
    options = [] if out is None else [f"out={str(out)!r}"]
    options += ["model=network"] if is_own else []
    options += [] if encoder is None else [f"backbone={encoder.name!r}"]
    options += [f"{name}={value!r}" for name, value in settings.items()]
    return f"noisebound.fit({', '.join([shown, *options])})"
