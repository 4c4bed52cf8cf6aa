"""The page about a folder that ``reproduce``, ``demo`` or ``fit`` wrote."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from noisebound.data import Splits
from noisebound.errors import DataError, InvalidValueError, NoiseboundError, RunError
from noisebound.pages.comparison_page import comparison_page
from noisebound.pages.run_page import require_epochs, run_page
from noisebound.paper.frame import all_finished_runs
from noisebound.paper.page import experiment_page
from noisebound.paper.run import RunStore
from noisebound.report.page import Code, Page, Section
from noisebound.runs import Run, load_run
from noisebound.runs.folder import RunFolder


class DamagedRunWarning(UserWarning):
    """A run cannot be read, so that a page about many runs leaves it out."""


def report_on(path: Path) -> Page:
    """Return the page about one run, a folder of runs, or a folder that holds ``runs``."""
    if not path.is_dir():
        raise InvalidValueError(f"{path} is not a folder of runs")
    files = RunFolder(path)
    command = files.read_command()
    if files.metrics.exists():
        run = load_run(path)
        return run_page(run, _data_of(run), command)
    folder = path / "runs" if (path / "runs").is_dir() else path
    runs, damages = all_finished_runs(RunStore(folder))
    if runs:
        return _with_damages(experiment_page(runs, command), damages)
    fits = sorted(
        result.parent
        for result in folder.glob(f"*/{files.result.name}")
        if not RunFolder(result.parent).experiment.exists()
    )
    trainings, others = _readable(fits)
    damages += others
    if trainings:
        page = comparison_page(trainings, f"{len(trainings)} trainings", command)
        return _with_damages(page, damages)
    if damages:
        raise damages[0]
    raise InvalidValueError(
        f"{path} holds no finished run: expected the folder that `noisebound fit`, `demo` or "
        "`reproduce` wrote"
    )


def _readable(fits: Sequence[Path]) -> tuple[list[Run], list[NoiseboundError]]:
    """Return the runs that can be read, and the errors of the others."""
    whole: list[Run] = []
    damages: list[NoiseboundError] = []
    for fit in fits:
        try:
            run = load_run(fit)
            require_epochs(run)
            _ = run.noise  # read now, with the out-of-fold predictions
            whole.append(run)
        except NoiseboundError as error:
            damages.append(error)
    return whole, damages


def _with_damages(page: Page, damages: Sequence[NoiseboundError]) -> Page:
    """Return the page with a section on damaged runs, and warn of each."""
    for damage in damages:
        warnings.warn(f"a run is left out: {damage}", DamagedRunWarning, stacklevel=3)
    if not damages:
        return page
    lines = [Code(str(damage).partition(":")[0], str(damage), is_open=True) for damage in damages]
    text = f"This page lacks {len(damages)} runs that could not be read."
    section = Section("Damaged runs", text, code=lines)
    return replace(page, sections=[*page.sections, section])


def _data_of(run: Run) -> Splits | None:
    """Return the data that a run was trained on; None if it cannot be loaded again."""
    try:
        return run.training_data()
    except (DataError, RunError, OSError):
        return None
