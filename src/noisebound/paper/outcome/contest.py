"""Runs of several methods on several columns, as they are compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from noisebound.paper.outcome.finished import FinishedRun, Weights
from noisebound.paper.protocol.columns import Column
from noisebound.paper.protocol.contenders import Contender


@dataclass(frozen=True, eq=False)
class Contest:
    """What is compared.

    Args:
        name: the name of the table's files
        title: the title of the table
        finished: the finished runs, all of one preset
        columns: the data sets with their noise
        contenders: the methods, by name
        weights: which weights are judged
        notes: how the runs were done, for the foot of the table
    """

    name: str
    title: str
    finished: Sequence[FinishedRun]
    columns: Sequence[Column]
    contenders: Mapping[str, Contender]
    weights: Weights
    notes: Sequence[str] = ()

    def runs(self, column: Column, name: str) -> dict[int, FinishedRun]:
        """Return the finished runs of a contender on a column, by seed."""
        found = {
            run.config.training.seed: run
            for run in self.finished
            if run.config.column == column.name and run.config.is_by(self.contenders[name])
        }
        return dict(sorted(found.items()))

    def accuracies(self, column: Column, name: str) -> dict[int, float]:
        """Return the accuracies on clean test labels in percent, by seed.

        They are those of the last epoch, or of the one that early stopping chooses.
        """
        averaged = self.weights == "averaged"
        values = {}
        for seed, run in self.runs(column, name).items():
            best = run.result.best_on_validation
            is_chosen = self.contenders[name].best_epoch and best is not None
            measured = best if is_chosen and best is not None else run.result.final
            accuracy = measured.evaluated("test_top1", averaged=averaged)
            if accuracy is not None:
                values[seed] = 100 * accuracy
        return values
