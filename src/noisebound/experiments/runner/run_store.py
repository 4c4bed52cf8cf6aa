"""The folders of runs: what is finished, what is under way, what failed and why."""

import json
from pathlib import Path
from typing import Literal, TypeAlias

from noisebound.experiments.protocol.run_config import RunConfig
from noisebound.experiments.runner.label_findings import read_findings
from noisebound.files import write_text, written_whole
from noisebound.training import FitResult
from noisebound.training.run_folder import RunFolder

State: TypeAlias = Literal["waiting", "running", "finished", "failed"]


class RunStore:
    """Folders, each named by the hash of its run's config.

    A sweep marks the runs that its workers are doing with its own name: what another sweep, or an
    earlier one that was killed, left there means nothing to it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def folder(self, run: RunConfig) -> Path:
        """Where a run is, or will be."""
        return self.path / run.key

    def result(self, run: RunConfig) -> FitResult | None:
        """What came of a run, if it is finished."""
        folder = self.folder(run)
        if run.judges_labels and read_findings(folder) is None:
            return None
        return RunFolder(folder).read_result()

    def error(self, run: RunConfig) -> str | None:
        """Why a run failed, if it did."""
        try:
            failure = json.loads(self._failure(run).read_text(encoding="utf-8"))
            return str(failure["error"])
        except (FileNotFoundError, json.JSONDecodeError, KeyError, TypeError):
            return None

    def state(self, run: RunConfig, sweep: str | None = None) -> State:
        """How far a run is; it is running if this sweep does it."""
        if self.result(run) is not None:
            return "finished"
        if self.error(run) is not None:
            return "failed"
        if sweep is not None and self._doer(run) == sweep:
            return "running"
        return "waiting"

    def write_config(self, run: RunConfig) -> None:
        """Say which run this folder holds."""
        path = self.folder(run) / "run.json"
        if not path.exists():
            write_text(path, run.model_dump_json(indent=2) + "\n")

    def mark_running(self, run: RunConfig, sweep: str) -> None:
        """A worker of this sweep has begun it."""
        write_text(self._marker(run), sweep)

    def unmark(self, run: RunConfig) -> None:
        """Nobody does it any more."""
        self._marker(run).unlink(missing_ok=True)

    def forget_failure(self, run: RunConfig) -> None:
        """Before it is tried again."""
        self._failure(run).unlink(missing_ok=True)

    def record_failure(self, run: RunConfig, error: str, trace: str) -> None:
        """Keep why a run failed."""
        with written_whole(self._failure(run)) as part:
            part.write_text(json.dumps({"error": error, "traceback": trace}, indent=2) + "\n")

    def _doer(self, run: RunConfig) -> str | None:
        try:
            return self._marker(run).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def _marker(self, run: RunConfig) -> Path:
        return self.folder(run) / "running"

    def _failure(self, run: RunConfig) -> Path:
        return self.folder(run) / "failure.json"
