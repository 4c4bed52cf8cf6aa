"""Label Studio's JSON export: tasks, each with the answers of several annotators."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from noisebound.data.votes import CROWD_COLUMNS
from noisebound.errors import DataError


class Answer(NamedTuple):
    """The class that someone chose for a task, and when."""

    label: str
    by: str
    at: str | None


def answers_to(task: Mapping[str, Any], question: str | None = None) -> list[Answer]:
    """Return the answers to a question of a task, by default to the first choice that it asks."""
    answers = []
    for annotation in task["annotations"]:
        chosen = [
            each["value"]["choices"][0]
            for each in annotation["result"]
            if each["type"] == "choices" and question in (None, each["from_name"])
        ]
        if chosen and not annotation.get("was_cancelled"):
            who = annotation.get("completed_by", "Label Studio")
            who = who.get("email", who.get("id")) if isinstance(who, dict) else who
            at = annotation.get("updated_at") or annotation.get("created_at")
            answers.append(Answer(chosen[0 if question is None else -1], str(who), at))
    return answers


def is_export(records: object) -> bool:
    """True for the tasks of an export, which have annotations."""
    return isinstance(records, list) and all(
        isinstance(each, dict) and "annotations" in each for each in records
    )


def table_of_export(tasks: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Return one row per answer, or one without a label, in the columns of crowd-kit's tables."""
    item, annotator, target = CROWD_COLUMNS
    rows: list[dict[str, Any]] = []
    for place, task in enumerate(tasks):
        shown = {
            name: value
            for name, value in task.get("data", {}).items()
            if not isinstance(value, list | dict) and name not in CROWD_COLUMNS
        }
        about = {item: task.get("id", place), **shown}
        answers = answers_to(task)
        rows += [{**about, annotator: each.by, target: each.label} for each in answers]
        rows += [] if answers else [{**about, annotator: None, target: None}]
    if not any(row[target] for row in rows):
        raise DataError(
            "the export has no answers of the type choices, which name one class per example"
        )
    return pl.from_dicts(rows, infer_schema_length=None)
