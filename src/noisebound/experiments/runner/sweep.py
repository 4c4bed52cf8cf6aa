"""Many runs: interrupted, killed, gone on with.

Runs speak through their folders, so it does not matter who does them, or in how many attempts.
"""

import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from noisebound.experiments.protocol.run_config import RunConfig
from noisebound.experiments.protocol.sources import DataSources
from noisebound.experiments.runner.run import Execution
from noisebound.experiments.runner.run_store import RunStore
from noisebound.experiments.runner.sweep_progress import SweepProgress
from noisebound.experiments.runner.workers import WorkerDiedError, Workers, do_runs

_DEATHS_OF_A_SUSPECT = 2
_DEATHS_IN_VAIN = 3


def run_sweep(
    runs: Sequence[RunConfig],
    store: RunStore,
    sources: DataSources,
    workers: Workers,
    *,
    checkpoint_seconds: float = 30.0,
) -> dict[RunConfig, str]:
    """Do what is not done yet; gives the runs that failed, with their errors.

    Where a worker dies, the runs that were under way are done again. One that was under way when
    workers died twice is done alone: if its worker dies then too, it is to blame, and has failed.

    Args:
        runs: what is wanted
        store: where the runs are
        sources: where the data is
        workers: who does them
        checkpoint_seconds: how much of a run may be lost at most, not counting an epoch
    """
    sweep = _Sweep(runs, store, sources, workers, checkpoint_seconds)
    with SweepProgress(sweep.runs, store, sweep.name).shown():
        sweep.run()
    errors = {run: store.error(run) for run in sweep.runs if store.result(run) is None}
    return {run: error for run, error in errors.items() if error is not None}


class _Sweep:
    """What is to be done, and what has been learnt about workers that die."""

    def __init__(
        self,
        runs: Sequence[RunConfig],
        store: RunStore,
        sources: DataSources,
        workers: Workers,
        checkpoint_seconds: float,
    ) -> None:
        self.name = secrets.token_hex(8)
        self.runs = list(dict.fromkeys(runs))
        # workers may stand in another folder
        self.store = RunStore(store.path.resolve())
        self.workers = workers
        self.execution = Execution(
            self.store,
            sources.resolved(),
            self.name,
            checkpoint_seconds=checkpoint_seconds,
        )
        self.deaths: Counter[RunConfig] = Counter()
        self.deaths_in_vain = 0

    def run(self) -> None:
        to_do = [run for run in self.runs if self.store.state(run) != "finished"]
        for run in to_do:
            self.store.forget_failure(run)
        while to_do:
            suspects = [run for run in to_do if self.deaths[run] >= _DEATHS_OF_A_SUSPECT]
            for run in suspects:
                self._do_alone(run)
            self._do_together([run for run in to_do if run not in suspects])
            to_do = [run for run in to_do if self.store.state(run) not in ("finished", "failed")]

    def _do_together(self, runs: Sequence[RunConfig]) -> None:
        try:
            do_runs(runs, self.execution, self.workers)
        except WorkerDiedError as error:
            self._note_death(runs, error)
            return
        for run in runs:
            if self.store.state(run) not in ("finished", "failed"):
                raise FileNotFoundError(
                    f"{run.description} was done, but nothing came of it in "
                    f"{self.store.folder(run)}: do all machines see that folder?"
                )

    def _note_death(self, runs: Sequence[RunConfig], error: WorkerDiedError) -> None:
        under_way = [run for run in runs if self.store.state(run, self.name) == "running"]
        for run in under_way:
            self.store.unmark(run)
        self.deaths.update(under_way)
        self.deaths_in_vain = 0 if under_way else self.deaths_in_vain + 1
        if self.deaths_in_vain >= _DEATHS_IN_VAIN:
            raise error

    def _do_alone(self, run: RunConfig) -> None:
        try:
            do_runs([run], self.execution, replace(self.workers, jobs=1))
        except WorkerDiedError as error:
            self.store.unmark(run)
            self.store.record_failure(run, f"its worker died: {error}", "")
