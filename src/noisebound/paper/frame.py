"""Finished runs as one frame, from which all tables are made."""

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any, NamedTuple, get_args

import polars as pl
from scipy import stats

from noisebound.errors import InvalidValueError
from noisebound.paper import Weights
from noisebound.paper.run import RunConfig, RunStore
from noisebound.runs.folder import RunFolder
from noisebound.runs.result import RunResult
from noisebound.training.metrics import Evaluated

_METRICS: dict[str, Evaluated] = {
    "top1": "test_top1",
    "top5": "test_top5",
    "validation": "validation_top1",
    "memorized": "memorized",
}
_SCHEMA = {
    "column": pl.String(),
    "method": pl.String(),
    "offset": pl.Float64(),
    "given_rate": pl.Float64(),
    "true_rate": pl.Float64(),
    "seed": pl.Int64(),
    "bound": pl.Float64(),
    "weights": pl.String(),
    **dict.fromkeys(_METRICS, pl.Float64()),
}
_DIGITS = 9  # finer than differences of accuracies, coarser than rounding errors


class FinishedRun(NamedTuple):
    """A run with its folder and its result."""

    config: RunConfig
    folder: RunFolder
    result: RunResult


def finished_runs(store: RunStore, runs: Iterable[RunConfig]) -> list[FinishedRun]:
    """Return the finished runs, each once."""
    found = {run: store.result(run) for run in runs}
    return [FinishedRun(run, store.folder(run), each) for run, each in found.items() if each]


def long_frame(runs: Iterable[FinishedRun]) -> pl.DataFrame:
    """Return one row per run and weights, with the metrics in percent.

    Runs of a method on a column with different settings, such as epochs, raise an error.
    """
    rows: list[tuple[Any, ...]] = []
    known: dict[tuple[Any, ...], FinishedRun] = {}
    for run in runs:
        config, training = run.config, run.config.training
        rates = (config.given_rate, config.noise_rate)
        place = (config.column, training.loss, training.bound_offset, *rates, training.seed)
        other = known.setdefault(place, run)
        if other.config != config:
            raise InvalidValueError(
                f"{other.folder.path} and {run.folder.path} are the same method on the same column "
                "with different settings: keep the runs of each preset apart"
            )
        for weights in get_args(Weights) if other is run else ():
            final, averaged = run.result.final, weights == "averaged"
            values = [final.evaluated(name, averaged=averaged) for name in _METRICS.values()]
            percent = [None if value is None else 100 * value for value in values]
            rows.append((*place, run.result.bound, weights, *percent))
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row").sort("seed", maintain_order=True)


class Gain(NamedTuple):
    """The mean gain from a bound, and the p-value of a two-sided paired t-test over seeds."""

    mean: float
    p_value: float | None  # None if all differences are equal, for example with a single seed


def paired_gain(plain: Mapping[int, float], bounded: Mapping[int, float]) -> Gain | None:
    """Return the gain over the common seeds; None if there are none.

    Example:
        >>> gain = paired_gain({0: 60.0, 1: 61.0, 2: 62.0}, {0: 70.0, 1: 72.0, 2: 71.0})
        >>> round(gain.mean, 1), round(gain.p_value, 3)
        (10.0, 0.003)
    """
    # Accuracies are ratios of counts, so a difference in the last bits is a rounding error.
    seeds = sorted(plain.keys() & bounded.keys())
    differences = [round(bounded[seed] - plain[seed], _DIGITS) for seed in seeds]
    if not differences:
        return None
    varies = len(set(differences)) > 1
    p_value = float(stats.ttest_1samp(differences, 0.0).pvalue) if varies else None
    return Gain(round(fmean(differences), _DIGITS), p_value)
