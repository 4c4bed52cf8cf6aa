"""The commands on a run, or on data, with several labels at once."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from noisebound.errors import InvalidValueError
from noisebound.system.console import Console, print_note, print_text

if TYPE_CHECKING:
    import polars as pl

    from noisebound.data import Splits
    from noisebound.runs import MultiLabelRun, Run
    from noisebound.training.config import TrainingConfig


def one_run(found: "Run | MultiLabelRun", label: str | None) -> "Run":
    """Return the run of one label, or a run that has only one."""
    from noisebound.runs import Run

    if isinstance(found, Run):
        if label is not None:
            raise InvalidValueError("`label` is for a run with several labels: leave it out")
        return found
    if label not in found.runs:
        raise InvalidValueError(
            f"{found.path} has several labels: name one of them as `label`: "
            f"{', '.join(found.labels)}"
        )
    return found.runs[label]


def print_labels(run: "MultiLabelRun") -> None:
    """Print the noise and the scores of each label, and those of all labels."""
    scores = run.scores
    table = _table("true labels right")
    for row in run.noise.iter_rows(named=True):
        found = scores.labels[row["label"]].validation
        is_known = found is not None and not found.warnings
        table.add_row(*_noise_cells(row), f"{found.accuracy:.1%}" if found and is_known else "")
    Console(soft_wrap=True).print(table)
    on_test = {
        "macro-F1": scores.macro_f1,
        "micro-F1": scores.micro_f1,
        "mean average precision": scores.average_precision,
        "all labels right": scores.subset_accuracy,
    }
    listed = [f"{name} {value:.1%}" for name, value in on_test.items() if value is not None]
    if listed:
        print_text(f"on the test set: {', '.join(listed)}")
    print_text(f"a run for each label, and report.html: {run.path}")


def print_noise(noise: "pl.DataFrame") -> None:
    """Print the noise of each label."""
    table = _table()
    for row in noise.iter_rows(named=True):
        table.add_row(*_noise_cells(row))
    Console(soft_wrap=True).print(table)


def _table(*more: str) -> Table:
    names = ("label", "missed", "95% interval", "added", "95% interval", *more)
    return Table(*names, box=None, pad_edge=False)


def _noise_cells(row: dict[str, Any]) -> Iterable[str]:
    yield escape(row["label"])
    for name in ("missed", "added"):
        rate, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
        yield "unknown" if rate is None else f"{rate:.1%}"
        yield "" if low is None else f"{low:.1%} to {high:.1%}"


def suspect_labels(
    run: "MultiLabelRun", splits: "Splits", out: Path, page: Path, most: int, quotes: bool
) -> None:
    """Write the ranking of all pairs of an example and a label, and a page of the first."""
    from noisebound.pages.multi_label import suspects_table
    from noisebound.pages.page import Page, Section, write_page
    from noisebound.runs.predict import write_frame

    table = run.suspects(splits)
    write_frame(table, out, quotes_formulas=quotes)
    expected = round(float(table["probability_wrong"].sum()))
    headline = f"{len(table):,} pairs of an example and a label, of which about {expected:,} are "
    headline += "probably wrong"
    print_text(headline)
    print_text(f"all pairs, ranked: {out}")
    section = Section("The most suspect labels", tables=[suspects_table(table, most)])
    write_page(Page(f"Suspect labels of {splits.name}", f"{headline}.", [section]), page)
    print_text(f"the most suspect pairs: {page}")


def labels_record(run: "MultiLabelRun") -> dict[str, Any]:
    """Return the noise and the scores of all labels for a program."""
    from dataclasses import asdict

    scores = asdict(run.scores)
    by_label = scores.pop("labels")
    labels = [
        row | {"scores": by_label[row["label"]].model_dump(mode="json")}
        for row in run.noise.iter_rows(named=True)
    ]
    return {"labels": labels, "scores": scores, "out": str(run.path)}


def noise_of_labels(splits: "Splits", config: "TrainingConfig", method: Any) -> "pl.DataFrame":
    """Return the noise of each label of a data set that is not trained on yet."""
    from noisebound.runs.multi_label import learnable_labels, noise_frame
    from noisebound.search import estimate_label_noise

    record = learnable_labels(splits, may_leave_out=True)
    noises = {}
    for place, name in enumerate(record.labels):
        print_note(f"label {place + 1} of {len(record.labels)}: {name}")
        noises[name] = estimate_label_noise(splits.of_label(name), config, method=method)
    return noise_frame(noises)
