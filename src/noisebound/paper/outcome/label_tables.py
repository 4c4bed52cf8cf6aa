"""How well the noise is estimated and wrong labels are found, compared with the truth."""

import statistics
from collections.abc import Mapping, Sequence

from noisebound.estimation import ESTIMATION_METHODS
from noisebound.paper.outcome.contest import Contest
from noisebound.paper.protocol.columns import Column
from noisebound.paper.runner.label_findings import LabelFindings, read_findings
from noisebound.report.table import EMPTY, Cell, Row, Table, Value

_OURS, _CLEANLAB = "fce+auto", "prune"
_FIVE_FOLDS = "five folds"
_LABELS = {
    "agreement": "agreement (ours)",
    "anchor": "anchor points",
    "dual-t": "Dual-T",
    "confident": "confident learning, same predictions",
    "neighbors": "neighbor consensus",
    _FIVE_FOLDS: "cleanlab, five folds",
}


def estimate_table(contest: Contest) -> Table:
    """Return the noise rate by every estimator, with the true rate and the mean absolute error."""
    ours = {column.name: _findings(contest, column, _OURS) for column in contest.columns}
    theirs = {column.name: _findings(contest, column, _CLEANLAB) for column in contest.columns}
    rows, records = [Row("true rate", tuple(_rates(ours, contest.columns)))], []
    for method in (*ESTIMATION_METHODS, _FIVE_FOLDS):
        findings = theirs if method == _FIVE_FOLDS else ours
        cells = []
        for column in contest.columns:
            found = findings[column.name]
            values = [each["estimates"][method] for each in found]
            cells.append(_mean_cell(values))
            records += [_record(column, method, each) for each in found]
        errors = [
            abs(each["estimates"][method] - each["noise_rate"])
            for found in findings.values()
            for each in found
        ]
        rows.append(Row(_LABELS[method], (*cells, _mean_cell(errors))))
    intervals = [
        each["interval"][0] <= each["noise_rate"] <= each["interval"][1]
        for found in ours.values()
        for each in found
        if each["interval"] is not None
    ]
    return Table(
        name="estimates",
        title="The noise rate of the training labels, estimated from the noisy data alone",
        header=("estimator", *(column.title for column in contest.columns), "mean absolute error"),
        rows=tuple(rows),
        records=tuple(records),
        notes=(
            "means over seeds; all estimators but the last use the same out-of-fold predictions, "
            "by two networks that were each trained on one half for about a quarter of the epochs",
            *contest.notes,
        ),
        summary=(
            f"The 95 % confidence interval of our estimate contains the true rate in "
            f"{sum(intervals)} of {len(intervals)} runs."
        ),
    )


def suspect_table(contest: Contest) -> Table:
    """Return how well wrong labels are ranked before right ones, by us and by cleanlab."""
    columns = [
        column
        for column in contest.columns
        if any(each["suspects_auroc"] is not None for each in _findings(contest, column, _OURS))
    ]
    rows, records = [], []
    for name, label in (
        (_OURS, "one bounded training (ours)"),
        (_CLEANLAB, "cleanlab, five folds"),
    ):
        found = {column.name: _findings(contest, column, name) for column in columns}
        every = [each for of_column in found.values() for each in of_column]
        cells = [_mean_cell(_aurocs(found[column.name])) for column in columns]
        rows.append(Row(label, (*cells, _mean_cell(_aurocs(every)), _epochs(every))))
        records += [
            {
                "column": column.name,
                "method": name,
                "auroc": each["suspects_auroc"],
                "calibration_error": each["calibration_error"],
                "epochs": each["epochs"],
            }
            for column in columns
            for each in found[column.name]
        ]
    errors = [
        [
            each["calibration_error"]
            for each in _findings(contest, column, _OURS)
            if each["calibration_error"] is not None
        ]
        for column in columns
    ]
    flat = [error for of_column in errors for error in of_column]
    rows.append(
        Row(
            "calibration error of our probabilities",
            (*(_mean_cell(of_column) for of_column in errors), _mean_cell(flat), EMPTY),
        )
    )
    return Table(
        name="suspects",
        title="Which labels are wrong: area under the ROC curve",
        header=("method", *(column.title for column in columns), "mean", "epochs"),
        rows=tuple(rows),
        records=tuple(records),
        notes=(
            "means over seeds; the calibration error is the mean distance between the probability "
            "that a label is wrong and how often it is, in ten equal parts",
            *contest.notes,
        ),
    )


def _findings(contest: Contest, column: Column, name: str) -> list[LabelFindings]:
    if name not in contest.contenders:  # the table was asked for without it
        return []
    folders = [run.folder for run in contest.runs(column, name).values()]
    return [found for folder in folders if (found := read_findings(folder)) is not None]


def _rates(found: Mapping[str, list[LabelFindings]], columns: Sequence[Column]) -> list[Cell]:
    cells = [_mean_cell([each["noise_rate"] for each in found[column.name]]) for column in columns]
    return [*cells, EMPTY]


def _record(column: Column, method: str, found: LabelFindings) -> dict[str, Value]:
    ours = found["interval"] if method == ESTIMATION_METHODS[0] else None
    return {
        "column": column.name,
        "method": method,
        "noise_rate": found["noise_rate"],
        "estimate": found["estimates"][method],
        "low": ours[0] if ours else None,
        "high": ours[1] if ours else None,
    }


def _aurocs(found: Sequence[LabelFindings]) -> list[float]:
    return [each["suspects_auroc"] for each in found if each["suspects_auroc"] is not None]


def _epochs(found: Sequence[LabelFindings]) -> Cell:
    return Cell(f"{found[0]['epochs']:.0f}", value=found[0]["epochs"]) if found else EMPTY


def _mean_cell(values: Sequence[float]) -> Cell:
    if not values:
        return EMPTY
    mean = statistics.fmean(values)
    return Cell(f"{mean:.3f}", value=mean)
