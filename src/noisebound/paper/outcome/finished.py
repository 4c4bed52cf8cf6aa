"""Finished runs, found by column, method and seed, and their accuracies."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import ValidationError

from noisebound.errors import InvalidValueError, NoiseboundError
from noisebound.paper.protocol.columns import Column, Metric
from noisebound.paper.protocol.run_config import RunConfig
from noisebound.paper.runner.run_store import RunStore
from noisebound.runs.folder import RunFolder
from noisebound.runs.metrics_file import read_metrics
from noisebound.runs.result import RunResult, read_result
from noisebound.training.metrics import Evaluated

Weights: TypeAlias = Literal["last", "averaged"]
"""Which weights a table judges: the last epoch's, as in the paper, or the averaged weights."""


@dataclass(frozen=True)
class FinishedRun:
    """A run with its folder and its result."""

    config: RunConfig
    folder: RunFolder
    result: RunResult


def finished_runs(store: RunStore, runs: Iterable[RunConfig]) -> list[FinishedRun]:
    """Return the runs that are finished."""
    results = ((run, store.result(run)) for run in dict.fromkeys(runs))
    return [
        FinishedRun(run, store.folder(run), result) for run, result in results if result is not None
    ]


def all_finished_runs(store: RunStore) -> tuple[list[FinishedRun], list[NoiseboundError]]:
    """Return every finished run that a folder of runs holds, and what is wrong with damaged ones.

    A run that is not finished is neither.
    """
    found: list[FinishedRun] = []
    damages: list[NoiseboundError] = []
    for path in sorted(store.path.glob(f"*/{RunFolder(store.path).experiment.name}")):
        try:
            config, folder = _read_config(path), RunFolder(path.parent)
            read_result(folder)
            read_metrics(folder.metrics)
        except NoiseboundError as error:
            damages.append(error)
        else:
            found += finished_runs(store, [config])
    return found, damages


def _read_config(path: Path) -> RunConfig:
    try:
        return RunConfig.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise InvalidValueError(
            f"{path} is not the config of a run, or it is of another version of noisebound: "
            f"{error.errors()[0]['msg']}; move its folder away"
        ) from error


_Key: TypeAlias = tuple[str, str, float, float | None]


class Measurements:
    """The finished runs of the paper's tables, found by what distinguishes them.

    Args:
        runs: runs of one preset; two that differ in their settings only, such as their epochs, are
            refused
    """

    def __init__(self, runs: Iterable[FinishedRun]) -> None:
        self._finals: dict[_Key, dict[int, FinishedRun]] = defaultdict(dict)
        for run in runs:
            config, training = run.config, run.config.training
            if config.knows != "noise rate":
                continue  # runs beyond the paper, which a `Contest` finds
            key = (config.column, training.loss, training.bound_offset, config.believes)
            known = self._finals[key].setdefault(training.seed, run)
            if known.config != run.config:
                raise InvalidValueError(
                    f"{known.folder.path} and {run.folder.path} are the same method on the same "
                    "column with different settings: keep the runs of each preset apart"
                )

    def of(
        self, column: Column, method: str, *, offset: float = 0.0, noise_rate: float | None = None
    ) -> Mapping[int, FinishedRun]:
        """Return the runs of a method on a column, by seed.

        Args:
            column: the data and its noise
            method: the method's name
            offset: what was added to the noise-bound
            noise_rate: the rate that the method was told; None for the column's
        """
        believed = None if noise_rate == column.noise_rate else noise_rate
        found = self._finals.get((column.name, method, offset, believed), {})
        return dict(sorted(found.items()))


@dataclass(frozen=True, eq=False)
class Selection:
    """What a table is made from.

    Args:
        name: the name of the table's files
        measurements: the finished runs
        columns: the columns, in order
        methods: the methods, in order
        weights: which weights are judged
        notes: how the runs were done, for the foot of the table
    """

    name: str
    measurements: Measurements
    columns: Sequence[Column]
    methods: Sequence[str]
    weights: Weights = "last"
    notes: Sequence[str] = ()


def accuracies(
    runs: Mapping[int, FinishedRun], metric: Metric, weights: Weights
) -> dict[int, float]:
    """Return the accuracies on clean test labels in percent, by seed."""
    return _percent(runs, "test_top1" if metric == "top1" else "test_top5", weights)


def noisy_validation_accuracies(
    runs: Mapping[int, FinishedRun], weights: Weights
) -> dict[int, float]:
    """Return the accuracies on validation, whose labels are noisy, in percent, by seed."""
    return _percent(runs, "validation_top1", weights)


def memorized_shares(runs: Mapping[int, FinishedRun], weights: Weights) -> dict[int, float]:
    """Return the shares of the wrong training labels that are reproduced, in percent, by seed."""
    return _percent(runs, "memorized", weights)


def _percent(
    runs: Mapping[int, FinishedRun], name: Evaluated, weights: Weights
) -> dict[int, float]:
    averaged = weights == "averaged"
    return {
        seed: 100 * value
        for seed, run in runs.items()
        if (value := run.result.final.evaluated(name, averaged=averaged)) is not None
    }
