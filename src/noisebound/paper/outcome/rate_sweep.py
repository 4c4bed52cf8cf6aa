"""The accuracy of bounded methods that are told a wrong noise rate."""

from collections.abc import Iterable, Mapping, Sequence

from noisebound.paper.outcome.finished import (
    Measurements,
    Selection,
    Weights,
    accuracies,
    memorized_shares,
    noisy_validation_accuracies,
)
from noisebound.paper.outcome.statistics import summarize
from noisebound.paper.protocol.columns import COLUMNS, Column
from noisebound.paper.protocol.methods import label_of
from noisebound.paper.protocol.plan import swept_rates
from noisebound.report.figures import RateCurve
from noisebound.report.table import EMPTY, Cell, Row, Table, Value


def rate_table(selection: Selection) -> Table:
    """Return the accuracies by the rate that the method is told, as far as runs are finished."""
    measurements, columns = selection.measurements, selection.columns
    methods, weights = selection.methods, selection.weights
    records: list[dict[str, Value]] = []
    for column in columns:
        for method in methods:
            for rate in swept_rates(column):
                record = _record(measurements, column, method, rate, weights)
                records += [record] if record is not None else []
    rates = sorted({float(str(record["believed_rate"])) for record in records})
    return Table(
        name=selection.name,
        title="Clean test accuracy in %, by the noise rate that the method is told",
        header=("method and column", *(f"{rate:g}" for rate in rates)),
        rows=tuple(
            _row(column, method, rates, records)
            for column in columns
            for method in methods
            if any((r["column"], r["method"]) == (column.name, method) for r in records)
        ),
        records=tuple(records),
        notes=("bold: the true noise rate", *selection.notes),
    )


def _record(
    measurements: Measurements, column: Column, method: str, rate: float, weights: Weights
) -> dict[str, Value] | None:
    runs = measurements.of(column, method, noise_rate=rate)
    test = summarize(accuracies(runs, "top1", weights))
    if test is None:
        return None
    noisy = summarize(noisy_validation_accuracies(runs, weights))
    memorized = summarize(memorized_shares(runs, weights))
    return {
        "column": column.name,
        "method": method,
        "weights": weights,
        "true_rate": column.noise_rate,
        "believed_rate": rate,
        "bound": next(iter(runs.values())).result.bound,
        "mean": test.mean,
        "std": test.std,
        "seeds": test.count,
        "noisy_validation_mean": noisy.mean if noisy else None,
        "wrong_labels_reproduced": memorized.mean if memorized else None,
    }


def _row(
    column: Column, method: str, rates: Sequence[float], records: Iterable[Mapping[str, Value]]
) -> Row:
    found = {
        record["believed_rate"]: record
        for record in records
        if (record["column"], record["method"]) == (column.name, method)
    }
    cells = []
    for rate in rates:
        record = found.get(rate)
        if record is None:
            cells.append(EMPTY)
            continue
        mean = float(str(record["mean"]))
        spread = "" if record["std"] is None else f" ± {float(str(record['std'])):.1f}"
        cells.append(Cell(f"{mean:.1f}{spread}", "", mean, is_best=rate == column.noise_rate))
    return Row(f"{label_of(method)}, {column.title}", tuple(cells))


def rate_curves(records: Sequence[Mapping[str, Value]]) -> list[RateCurve]:
    """Return the lines of the figure from the records of the table."""
    groups: dict[tuple[str, str], list[Mapping[str, Value]]] = {}
    for record in records:
        groups.setdefault((str(record["method"]), str(record["column"])), []).append(record)
    return [
        RateCurve(
            label_of(method),
            COLUMNS[column].title,
            COLUMNS[column].noise_rate,
            [float(str(record["believed_rate"])) for record in group],
            [float(str(record["mean"])) for record in group],
            [float(str(record["std"] or 0)) for record in group],
        )
        for (method, column), group in groups.items()
    ]
