"""A page about runs: those of a reproduction, of the demo, or one that ``fit`` left."""

from pathlib import Path

from noisebound.experiments.outcome.experiment_page import experiment_page
from noisebound.experiments.outcome.finished import all_finished_runs
from noisebound.experiments.outcome.training_page import training_page
from noisebound.experiments.runner.run_store import RunStore
from noisebound.report.page import Page


def report_on(path: Path) -> Page:
    """The page about a run's folder, about a folder of runs, or about one that holds ``runs``."""
    if not path.is_dir():
        raise ValueError(f"{path} is not a folder of runs")
    if (path / "metrics.jsonl").exists():
        return training_page([path])
    folder = path / "runs" if (path / "runs").is_dir() else path
    runs = all_finished_runs(RunStore(folder))
    if runs:
        return experiment_page(runs)
    fits = sorted(result.parent for result in folder.glob("*/result.json"))
    if not fits:
        raise ValueError(
            f"{path} holds no finished run: expected the folder that `noisebound fit`, `demo` or "
            "`reproduce` wrote"
        )
    return training_page(fits)
