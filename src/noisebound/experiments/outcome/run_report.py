"""The page about a folder that ``reproduce``, ``demo`` or ``fit`` wrote."""

from pathlib import Path

from noisebound.data import Splits
from noisebound.errors import DataError, InvalidValueError, RunError
from noisebound.experiments.outcome.experiment_page import experiment_page
from noisebound.experiments.outcome.finished import all_finished_runs
from noisebound.experiments.runner.run_store import RunStore
from noisebound.pages.comparison_page import comparison_page
from noisebound.pages.run_page import run_page
from noisebound.report.page import Page
from noisebound.runs import Run, load_run
from noisebound.runs.folder import RunFolder


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
    runs = all_finished_runs(RunStore(folder))
    if runs:
        return experiment_page(runs, command)
    fits = sorted(result.parent for result in folder.glob(f"*/{files.result.name}"))
    if not fits:
        raise InvalidValueError(
            f"{path} holds no finished run: expected the folder that `noisebound fit`, `demo` or "
            "`reproduce` wrote"
        )
    return comparison_page([load_run(fit) for fit in fits], f"{len(fits)} trainings", command)


def _data_of(run: Run) -> Splits | None:
    """Return the data that a run was trained on; None if it cannot be loaded again."""
    try:
        return run.training_data()
    except (DataError, RunError, OSError):
        return None
