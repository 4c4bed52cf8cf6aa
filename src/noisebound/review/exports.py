"""Labels after a review: as a table, and to and from the JSON of Label Studio and argilla."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

import polars as pl

from noisebound.data import Splits
from noisebound.data.label_studio import Answer, answers_to
from noisebound.errors import DataError
from noisebound.review.decisions import Decision, DecisionDetails, DecisionFile
from noisebound.review.queue import IS_SUSPECT, ReviewQueue

Tool: TypeAlias = Literal["label-studio", "argilla"]

_POSITION = "noisebound_position"
_QUESTION = "label"  # the name of the control, or of the question, that asks for the class
_ITEM = "item"
_AGENT = "noisebound"
_DECIDED = {"verdict": pl.String, "probability_wrong": pl.Float64, "by": pl.String, "at": pl.String}


def corrected_labels(
    decisions: DecisionFile,
    *,
    drop_unusable: bool = False,
    consensus: Mapping[str, list[Any]] | None = None,
) -> pl.DataFrame:
    """Return a table with one row per example, in the order of the data.

    ``why`` is ``"person"`` for a label that was checked individually, ``"bulk"`` for one of several
    that were decided at once, and ``"unchanged"`` for a label that nobody has settled.
    ``probability_wrong`` is the probability before the decision. ``consensus`` has further columns.
    """
    data, made = decisions.data, [decisions.get(place) for place in range(len(decisions.data))]
    names, nobody = data.class_names, (None,) * len(_DECIDED)
    decided = [
        (each.verdict, each.probability, each.by, each.at) if each else nobody for each in made
    ]
    table = pl.DataFrame(
        {
            "example": range(len(data)) if data.names is None else data.names,
            **({} if data.ids is None else {"id": data.ids}),
            "label": [names[index] for index in data.labels.tolist()],
            "corrected": [names[index] for index in decisions.corrected().tolist()],
            "why": [each.how if each and each.is_trusted else "unchanged" for each in made],
        }
    ).hstack(pl.DataFrame(decided, schema=_DECIDED, orient="row"))
    table = table.hstack(pl.DataFrame(consensus or {}))
    is_usable = pl.col("verdict").ne_missing("unusable")
    return table.filter(is_usable) if drop_unusable else table


def label_studio_tasks(queue: ReviewQueue, splits: Splits) -> list[dict[str, Any]]:
    """Return one task per example, the most suspect first.

    Decided examples have an annotation, the others a prediction. The project needs the labeling
    configuration from :func:`label_studio_config`.
    """
    tasks = []
    for position, item, label, probability, by in _best_labels(queue, splits):
        if splits.has_pictures:  # Label Studio serves local files under this address
            item = f"/data/local-files/?d={quote(item)}"
        value = {"choices": [label]}
        choice = {"from_name": _QUESTION, "to_name": _ITEM, "type": "choices", "value": value}
        task: dict[str, Any] = {"data": {_ITEM: item, **_about(queue, position)}}
        if by is not None:
            task["annotations"] = [{"result": [choice], "was_cancelled": False}]
        else:
            prediction = {"model_version": _AGENT, "score": probability, "result": [choice]}
            task["predictions"] = [prediction]
        tasks.append(task)
    return tasks


def label_studio_config(splits: Splits) -> str:
    """Return the labeling configuration of a Label Studio project for these examples."""
    tag = "Image" if splits.has_pictures else "Text"
    choices = "\n".join(
        f"    <Choice value={quoteattr(name)}/>" for name in splits.train.class_names
    )
    return (
        f'<View>\n  <{tag} name="{_ITEM}" value="${_ITEM}"/>\n  <Text name="given" '
        f'value="Label: $given"/>\n  <Choices name="{_QUESTION}" toName="{_ITEM}" '
        f'choice="single-radio">\n{choices}\n  </Choices>\n</View>\n'
    )


def argilla_records(queue: ReviewQueue, splits: Splits) -> list[dict[str, Any]]:
    """Return one record per example, the most suspect first, for ``Dataset.records.from_json``.

    The question ``label`` has a suggestion: the decision, or else the likeliest class.
    """
    records, field, folder = [], "text", None
    if splits.has_pictures:  # argilla reads an image from its full path
        field, folder = "image", splits.folder and splits.folder.resolve()
    for position, item, label, score, by in _best_labels(queue, splits):
        suggestion = {"value": label, "score": score, "agent": by or _AGENT}
        records.append(
            {
                "id": str(position),
                "fields": {field: item if folder is None else str(folder / item)},
                "metadata": _about(queue, position),
                "suggestions": {_QUESTION: suggestion},
                "responses": {},
                "vectors": {},
            }
        )
    return records


def _about(queue: ReviewQueue, position: int) -> dict[str, Any]:
    suspect, ids = queue.suspect(position), queue.data.ids
    about = {"given": suspect.label, "probability_wrong": suspect.probability, _POSITION: position}
    return about if ids is None else about | {"id": ids[position]}


def _best_labels(
    queue: ReviewQueue, splits: Splits
) -> Iterator[tuple[int, str, str, float, str | None]]:
    """Yield the position, content and best known label of each example, undecided ones first.

    The label has its probability, and who settled it if someone did.
    """
    content = _content(splits)
    decided = [each.position for each in queue.decisions]
    for position in [*queue.positions().tolist(), *decided]:
        made, suspect = queue.decisions.get(position), queue.suspect(position)
        best: tuple[str, float, str | None] = suspect.label, 1 - suspect.probability, None
        if made is not None and made.is_trusted:
            best = made.label or suspect.label, 1.0, made.by
        elif suspect.probability > IS_SUSPECT:
            best = suspect.suggested, suspect.probability, None
        yield position, content(position), *best


def _content(splits: Splits) -> Callable[[int], str]:
    """Return a function that gives an example's text, file name or columns by its position."""
    texts, names = splits.texts(), splits.train_names
    if texts is not None:
        return lambda position: texts[position]
    if splits.folder is not None and names is not None:
        return lambda position: names[position]
    table = splits.frame if splits.table is None else splits.table
    if table is not None and not splits.has_pictures:
        return lambda position: "\n".join(
            f"{column}: {value}" for column, value in table.row(position, named=True).items()
        )
    raise DataError(
        "other tools need texts, files or a table to show, and this data was arrays: review it "
        "with noisebound review"
    )


_Answers: TypeAlias = tuple[int, list[Answer]]  # the example's position, and an answer per person


def read_answers(path: Path, queue: ReviewQueue) -> list[Decision]:
    """Add the answers of a Label Studio or argilla export to the decisions, and return them.

    The majority answer counts; without a majority, the example is unsure. Answers that agree with
    the current decision are left out.
    """
    made = []
    for position, answers in _read(path):
        decision, known = _decision(position, answers, queue), queue.decisions.get(position)
        if known is None or (known.verdict, known.label) != (decision.verdict, decision.label):
            made.append(decision)
    if made:
        queue.decisions.add(made)
    return made


def _decision(position: int, answers: list[Answer], queue: ReviewQueue) -> Decision:
    (label, votes), *others = Counter(each.label for each in answers).most_common(2)
    details: DecisionDetails = {
        "by": ", ".join(dict.fromkeys(each.by for each in answers)),
        "at": answers[-1].at,
        "probability": queue.suspect(position).probability,
    }
    if others and others[0][1] == votes:
        return queue.decisions.make(position, "unsure", **details)
    if label == queue.data.given(position):
        return queue.decisions.make(position, "right", **details)
    return queue.decisions.make(position, "wrong", label, **details)


def _read(path: Path) -> Iterator[_Answers]:
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}") from error
    for number, record in enumerate(records if isinstance(records, list) else [records]):
        try:
            is_task = "annotations" in record
            if is_task:
                position = int(record["data"][_POSITION])
                answers = answers_to(record, _QUESTION)
            else:
                position, answers = _of_argilla(record)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise DataError(
                f"{path}: entry {number} is not of an export of what noisebound labels wrote: give "
                "Label Studio's export as JSON (not JSON-MIN), or a file by argilla's "
                f"records.to_json, with a question called {_QUESTION!r} ({error!r})"
            ) from error
        if answers:
            yield position, answers


def _of_argilla(record: Mapping[str, Any]) -> _Answers:
    answers = [
        Answer(str(each["value"]), str(each.get("user_id", "argilla")), None)
        for each in record["responses"].get(_QUESTION, ())
        if each.get("status", "submitted") == "submitted" and each["value"] is not None
    ]
    return int(record["metadata"].get(_POSITION, record["id"])), answers
