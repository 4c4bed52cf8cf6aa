"""The Python interface: everything that the command ``noisebound fit`` does, as one call."""

import shutil
import tempfile
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from torch import nn

from noisebound.data import DataOrigin, Splits
from noisebound.data.options import ReadingOptions, validated, with_options
from noisebound.errors import DataError, InvalidValueError, RunError
from noisebound.features import Backbone, BackboneLike, load_for_training, parse_backbone
from noisebound.models import ModelName
from noisebound.runs import MultiLabelRun, Run, load_run, train_labels, train_run
from noisebound.runs.folder import RunFolder
from noisebound.search.problem import takes_pixels, with_head
from noisebound.system.console import print_note
from noisebound.system.progress import progress_shown
from noisebound.training.config import TrainingConfig
from noisebound.training.devices import Devices
from noisebound.training.fine_tuning import check_unfreeze
from noisebound.training.loggers import as_loggers

__all__ = ["fit", "load_run"]


@with_options(ReadingOptions, TrainingConfig)
def fit(
    data: Any,
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    model: ModelName | Literal["auto"] | nn.Module = "auto",
    learner: Any = "auto",
    backbone: BackboneLike | None = "auto",
    groups: Any = None,
    corrections: str | Path | None = None,
    resume: bool = False,
    fabric: Devices | None = None,
    n_jobs: int = -1,
    logger: Any = None,
    report: bool = True,
    command: str | None = None,
    show: bool = True,
    **options: Any,
) -> Run | MultiLabelRun:
    """Train a classifier on noisy labels, and return the run.

    If examples may have several labels at once, there is a run for each label.

    Args:
        data: a path, the name of a data set, a table of polars, pandas or pyarrow, a ``Dataset`` or
            ``DatasetDict`` of Hugging Face, a pair of inputs (or texts) and labels, or a `Dataset`.
            A 0/1 matrix of labels, as scikit-learn has it, says which labels each example has
        out: the folder for the model, its metrics, its checkpoints and its report; by default a
            temporary one, which is removed together with the returned run
        overwrite: True to replace a run that is in ``out``; decisions about labels are never lost
        model: the name of a network, ``"auto"`` for one that fits the data, or a module, of which a
            copy is trained
        learner: ``"network"``, ``"linear"``, ``"boosting"``, ``"trees"`` or ``"neighbors"``; a
            scikit-learn estimator with ``predict_proba``; or ``"auto"``, which compares learners
            unless a recipe, a loss or a network is named
        backbone: a pretrained encoder to train on the embeddings of: ``"hf:NAME_OR_FOLDER"``,
            ``"onnx:FILE"``, ``"timm:NAME"``, ``"package:NAME"``, or a module or a function from a
            batch to vectors; ``"none"``; or ``"auto"``, which uses one for folders of images or
            texts. Embeddings are computed once and cached.
        groups: the column of a table that says which rows belong together, such as a patient; or
            one value per training example, of which equal ones belong together. No group is in both
            training and held-out data. By default, only duplicates belong together
        corrections: the ``decisions.jsonl`` of a run whose labels were reviewed: corrected labels
            replace the given ones, checked labels are trusted, unusable examples are left out. With
            several labels, the folder of that run
        resume: True to continue the run that is in ``out``
        fabric: a launched Lightning Fabric, for several devices or another precision
        n_jobs: the number of processes for trials, -1 for one per core; results do not depend on it
        logger: gets the metrics of each epoch too: ``"csv"``, ``"tensorboard"``, ``"mlflow"``,
            ``"wandb"`` or ``"trackio"``; a logger of Lightning or Fabric; a function of
            ``(metrics, step)``; or a list of these
        report: True to write ``report.html``
        command: the command that repeats the run, for the report; by default this call
        show: True to print notes on the data and show progress
        options: how to read the data, by the fields of `ReadingOptions`, such as
            ``target="label"``; and how to train, by the fields of `TrainingConfig`, such as
            ``epochs=20``

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run = fit("digits", out=folder, noise_rate=0.1, epochs=2, model="mlp", show=False)
        ...     run.predict("digits").shape, run.noise.rate
        ((540,), 0.1)
    """
    reads = {name: options.pop(name) for name in ReadingOptions.model_fields if name in options}
    column = groups if isinstance(groups, str) else None
    reading = validated(ReadingOptions, reads | {"groups": column})
    is_first = fabric is None or fabric.is_global_zero
    is_shown = show and is_first
    network = model if isinstance(model, nn.Module) else None
    estimator = None if isinstance(learner, str) else learner
    if learner == "estimator":
        raise InvalidValueError(
            "`learner` is the estimator itself, which only Python can pass, or the name of another "
            "learner: network, linear, boosting, trees or neighbors"
        )
    if estimator is None and network is not None and learner == "auto":
        learner = "network"
    options |= {
        "model": model if network is None else "auto",
        "learner": learner if estimator is None else "estimator",
    }
    config = validated(TrainingConfig, options)
    if n_jobs == 0:
        raise InvalidValueError("`n_jobs` must be at least 1, or -1 for one per core; got 0")
    is_temporary = out is None
    if out is None:
        if fabric is not None and fabric.world_size > 1:
            raise InvalidValueError("several devices need a folder that all of them see: `out`")
        out = tempfile.mkdtemp(prefix="noisebound-")
    folder = RunFolder(out)  # checked before the data, which may take minutes to load
    if is_temporary:
        weakref.finalize(folder, shutil.rmtree, folder.path, ignore_errors=True)
    folder.check_place()
    loggers = as_loggers(logger, folder.path, options) if is_first else []
    if overwrite:
        if resume:
            raise InvalidValueError("`overwrite` replaces a run, and `resume` continues it")
        folder.check_replaceable()
    if resume and isinstance(backbone, str) and backbone == "auto" and folder.config.exists():
        backbone = folder.read_origin().backbone if folder.data.exists() else None
    if config.unfreeze and backbone not in (None, "none", "auto"):  # before the data is read
        backbone = check_unfreeze(parse_backbone(backbone, reading.image_size))
    with progress_shown(show):
        splits, encoder = load_for_training(
            data,
            backbone,
            reading,
            is_from_pixels=network is not None or takes_pixels(config),
            log=print_note if is_shown else lambda line: None,
        )
    splits = splits if column is not None else splits.grouped_by(groups)
    if splits.is_labels_alone:
        raise DataError(
            f"{splits.source} has labels but nothing to learn from: join the features, texts or "
            "embeddings of the examples to it; noisebound estimate compares the annotators alone"
        )
    config = with_head(config, splits)
    if not overwrite:
        folder.check(config, resume=resume)
    if is_shown:
        for note in splits.notes:
            print_note(note)
    is_of_labels = splits.train.label_matrix is not None
    train: Callable[..., Run | MultiLabelRun] = train_labels if is_of_labels else train_run
    run = train(
        splits,
        config,
        out,
        resume=resume,
        overwrite=overwrite,
        model=network,
        fabric=fabric,
        show=show,
        backbone=encoder,
        corrections=corrections,
        estimator=estimator,
        n_jobs=n_jobs,
        loggers=loggers,
        origin=DataOrigin(
            data=str(data) if isinstance(data, str | Path) else None,
            backbone=None if encoder is None else encoder.name,
            **reading.model_dump(),
        ),
    )
    if is_first:
        place = None if is_temporary else out
        command = command or _this_call(data, place, network, encoder, options)
        runs: list[Run | MultiLabelRun] = [run]
        if isinstance(run, MultiLabelRun):
            runs = [*run.runs.values(), run]
        for each in runs:
            each.folder.save_command(command)
            if report:
                _write_report(each, each.training_data(splits))
            with suppress(DataError, RunError):  # such as a user's network on other inputs
                if isinstance(each, Run):
                    _ = each.scores  # keeps validation predictions, while groups are known
    run.folder = folder  # a temporary folder lives as long as this object
    return run


def _write_report(run: Run | MultiLabelRun, splits: Splits) -> None:
    """Write the report; an error in it must not hide that the model is saved."""
    from noisebound.pages.multi_label import labels_page  # takes a second to import
    from noisebound.pages.page import write_page
    from noisebound.pages.run_page import run_page

    command = run.folder.read_command()
    try:
        if isinstance(run, MultiLabelRun):
            page = labels_page(run, splits, command)
        else:
            page = run_page(run, splits, command)
        write_page(page, run.folder.report)
    except Exception as error:
        trouble = f"{type(error).__name__}: {error}"
        print_note(f"{run.folder.report.name} could not be written: {trouble}")


def _this_call(
    data: Any,
    out: str | Path | None,
    network: nn.Module | None,
    encoder: Backbone | None,
    options: dict[str, Any],
) -> str:
    shown = repr(str(data)) if isinstance(data, str | Path) else "data"
    words = [] if out is None else [f"out={str(out)!r}"]
    words += [] if network is None else ["model=network"]
    words += [] if encoder is None else [f"backbone={encoder.name!r}"]
    words += [f"{name}={value!r}" for name, value in options.items()]
    return f"noisebound.fit({', '.join([shown, *words])})"
