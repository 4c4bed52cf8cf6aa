"""The folders of runs: which are finished, which are running, which failed and why."""

import json
from pathlib import Path
from typing import Literal, TypeAlias

from noisebound.errors import DataError, RunError
from noisebound.files import write_json, write_text
from noisebound.paper.protocol.run_config import RunConfig
from noisebound.paper.runner.label_findings import read_findings
from noisebound.runs.folder import RunFolder
from noisebound.runs.result import RunResult, read_result

State: TypeAlias = Literal["waiting", "running", "finished", "failed"]


class RunStore:
    """The folders of runs, each named by the hash of its run's config.

    A sweep marks the runs that its workers are doing with its own name. So it ignores the marks of
    other sweeps, and of earlier ones that were killed.

    Args:
        path: the folder that holds them
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def folder(self, run: RunConfig) -> RunFolder:
        """Return the folder of a run, which need not exist yet."""
        return RunFolder(self.path / run.key)

    def result(self, run: RunConfig) -> RunResult | None:
        """Return what came of a run; None if it is not finished, or its result is damaged."""
        folder = self.folder(run)
        if run.judges_labels and read_findings(folder) is None:
            return None
        return _whole_result(folder)

    def error(self, run: RunConfig) -> str | None:
        """Return why a run failed; None if it did not."""
        try:
            failure = json.loads(self.folder(run).failure.read_text(encoding="utf-8"))
            return str(failure["error"])
        except (FileNotFoundError, json.JSONDecodeError, KeyError, TypeError):
            return None

    def state(self, run: RunConfig, sweep: str | None = None) -> State:
        """Return whether a run is waiting, running, finished or failed.

        Args:
            run: the run
            sweep: the sweep whose runs count as running; None for no sweep
        """
        if self.result(run) is not None:
            return "finished"
        if self.error(run) is not None:
            return "failed"
        if sweep is not None and self._doer(run) == sweep:
            return "running"
        return "waiting"

    def write_config(self, run: RunConfig) -> None:
        """Write the run's config into its folder, unless it is there."""
        path = self.folder(run).experiment
        if not path.exists():
            write_text(path, run.model_dump_json(indent=2) + "\n")

    def mark_running(self, run: RunConfig, sweep: str) -> None:
        """Note that a worker of this sweep has begun the run."""
        write_text(self.folder(run).running, sweep)

    def unmark(self, run: RunConfig) -> None:
        """Note that no worker is doing the run."""
        self.folder(run).running.unlink(missing_ok=True)

    def forget_failure(self, run: RunConfig) -> None:
        """Remove the record of a failure, before the run is tried again."""
        self.folder(run).failure.unlink(missing_ok=True)

    def forget_damaged_result(self, run: RunConfig) -> None:
        """Remove a result that cannot be read, so that the run can be trained again."""
        folder = self.folder(run)
        if _whole_result(folder) is None:
            folder.result.unlink(missing_ok=True)

    def record_failure(self, run: RunConfig, error: str, trace: str) -> None:
        """Write why the run failed."""
        write_json(self.folder(run).failure, {"error": error, "traceback": trace})

    def _doer(self, run: RunConfig) -> str | None:
        try:
            return self.folder(run).running.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None


def _whole_result(folder: RunFolder) -> RunResult | None:
    try:
        return read_result(folder)
    except (DataError, RunError):
        return None
