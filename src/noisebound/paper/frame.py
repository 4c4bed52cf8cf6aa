"""Finished runs as one long frame, with a row per run, weights and metric; the tables' source."""

from collections.abc import Collection, Iterable, Mapping
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, TypeAlias, get_args

import polars as pl
from pydantic import ValidationError
from scipy import stats

from noisebound.errors import InvalidValueError, NoiseboundError
from noisebound.paper import Weights
from noisebound.paper.plan import RunConfig
from noisebound.paper.run import RunStore
from noisebound.report.table import EMPTY, Cell, Row
from noisebound.runs.folder import RunFolder
from noisebound.runs.keeper import read_metrics
from noisebound.runs.result import RunResult, read_result
from noisebound.training.metrics import Evaluated

Record: TypeAlias = dict[str, Any]

_METRICS: dict[str, Evaluated] = {
    "top1": "test_top1",
    "top5": "test_top5",
    "validation": "validation_top1",
    "memorized": "memorized",
}
_SCHEMA = {
    "column": pl.String,
    "method": pl.String,
    "offset": pl.Float64,
    "given_rate": pl.Float64,
    "weights": pl.String,
    "metric": pl.String,
    "seed": pl.Int64,
    "bound": pl.Float64,
    "value": pl.Float64,
}
_DIGITS = 9  # finer than differences of accuracies, coarser than rounding errors


class FinishedRun(NamedTuple):
    """A run with its folder and its result."""

    config: RunConfig
    folder: RunFolder
    result: RunResult


def finished_runs(store: RunStore, runs: Iterable[RunConfig]) -> list[FinishedRun]:
    """Return the finished runs."""
    return [
        FinishedRun(run, store.folder(run), result)
        for run in dict.fromkeys(runs)
        if (result := store.result(run)) is not None
    ]


def all_finished_runs(store: RunStore) -> tuple[list[FinishedRun], list[NoiseboundError]]:
    """Return the finished runs in a folder, and the errors of damaged ones."""
    found: list[FinishedRun] = []
    damages: list[NoiseboundError] = []
    for path in sorted(store.path.glob(f"*/{RunFolder(store.path).experiment.name}")):
        folder = RunFolder(path.parent)
        try:
            config, result = _read_config(path), read_result(folder)
            read_metrics(folder.metrics)
        except NoiseboundError as error:
            damages.append(error)
        else:
            found += [] if result is None else [FinishedRun(config, folder, result)]
    return found, damages


def _read_config(path: Path) -> RunConfig:
    try:
        return RunConfig.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise InvalidValueError(
            f"{path} is not the config of a run, or it is of another version of noisebound: "
            f"{error.errors()[0]['msg']}; move its folder away"
        ) from error


def long_frame(runs: Iterable[FinishedRun]) -> pl.DataFrame:
    """Return one row per run, weights and metric, with values in percent.

    Runs of a method on a column with different settings, such as epochs, raise an error.
    """
    rows: list[tuple[Any, ...]] = []
    known: dict[tuple[Any, ...], FinishedRun] = {}
    for run in runs:
        training = run.config.training
        place = (run.config.column, training.loss, training.bound_offset, run.config.given_rate)
        other = known.setdefault((*place, training.seed), run)
        if other.config != run.config:
            raise InvalidValueError(
                f"{other.folder.path} and {run.folder.path} are the same method on the same column "
                "with different settings: keep the runs of each preset apart"
            )
        for weights, (metric, name) in product(get_args(Weights), _METRICS.items()):
            value = run.result.final.evaluated(name, averaged=weights == "averaged")
            if other is run and value is not None:
                about = (weights, metric, training.seed, run.result.bound)
                rows.append((*place, *about, 100 * value))
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row").sort("seed", maintain_order=True)


def summaries(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the mean, the unbiased standard deviation and the values over seeds."""
    value = pl.col("value")
    return frame.group_by(*list(_SCHEMA)[:6], maintain_order=True).agg(
        pl.col("bound").first(),
        value.mean().alias("mean"),
        value.std().alias("std"),
        pl.len().alias("seeds"),
        pl.col("seed").alias("seed_list"),
        value.alias("value_list"),
    )


def pivot(
    cells: Mapping[tuple[Any, Any], Cell],
    rows: Mapping[Any, str],
    columns: Iterable[Any],
    shaded: Collection[Any] = (),
) -> tuple[Row, ...]:
    """Return the rows of a table from its cells, whose keys are ``(row, column)``."""
    columns = list(columns)
    return tuple(
        Row(heading, tuple(cells.get((row, each), EMPTY) for each in columns), row in shaded)
        for row, heading in rows.items()
    )


def spread(mean: float | None, std: float | None) -> str:
    """Return a mean with its standard deviation, rounded for a table.

    Example:
        >>> spread(82.04, 1.96)
        '82.0 ± 2.0'
    """
    return "" if mean is None else f"{mean:.1f}" + ("" if std is None else f" ± {std:.1f}")


class Gain(NamedTuple):
    """The mean gain from a bound, and the p-value of a two-sided paired t-test over seeds.

    The p-value is None if all differences are equal, for example with a single seed.
    """

    mean: float
    p_value: float | None


def paired_gain(plain: Mapping[int, float], bounded: Mapping[int, float]) -> Gain | None:
    """Return the gain over the common seeds; None if there are none.

    Example:
        >>> gain = paired_gain({0: 60.0, 1: 61.0, 2: 62.0}, {0: 70.0, 1: 72.0, 2: 71.0})
        >>> round(gain.mean, 1), round(gain.p_value, 3)
        (10.0, 0.003)
    """
    seeds = sorted(plain.keys() & bounded.keys())
    if not seeds:
        return None
    # Accuracies are ratios of counts, so a difference in the last bits is a rounding error.
    differences = [round(bounded[seed] - plain[seed], _DIGITS) for seed in seeds]
    mean = round(fmean(differences), _DIGITS)
    if len(set(differences)) == 1:
        return Gain(mean, None)
    return Gain(mean, float(stats.ttest_1samp(differences, 0.0).pvalue))
