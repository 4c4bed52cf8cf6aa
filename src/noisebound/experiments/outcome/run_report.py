"""A page about runs: those of a reproduction, of the demo, or one that ``fit`` left."""

from pathlib import Path

from noisebound.data import DataError, DataOrigin, Splits
from noisebound.errors import InvalidValueError
from noisebound.experiments.outcome.experiment_page import experiment_page
from noisebound.experiments.outcome.finished import all_finished_runs
from noisebound.experiments.runner.run_store import RunStore
from noisebound.report.command import read_command
from noisebound.report.page import Page
from noisebound.training.run_page import run_page
from noisebound.training.runs_page import runs_page


def report_on(path: Path) -> Page:
    """The page about a run's folder, about a folder of runs, or about one that holds ``runs``."""
    if not path.is_dir():
        raise InvalidValueError(f"{path} is not a folder of runs")
    command = read_command(path)
    if (path / "metrics.jsonl").exists():
        return run_page(path, _data_of(path), command)
    folder = path / "runs" if (path / "runs").is_dir() else path
    runs = all_finished_runs(RunStore(folder))
    if runs:
        return experiment_page(runs, command)
    fits = sorted(result.parent for result in folder.glob("*/result.json"))
    if not fits:
        raise InvalidValueError(
            f"{path} holds no finished run: expected the folder that `noisebound fit`, `demo` or "
            "`reproduce` wrote"
        )
    return runs_page(fits, f"{len(fits)} trainings", command)


def _data_of(path: Path) -> Splits | None:
    """What a run was trained on, if its folder says so and it is still there."""
    try:
        return DataOrigin.read(path).load()
    except (DataError, OSError):
        return None
