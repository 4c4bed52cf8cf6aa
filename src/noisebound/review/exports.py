"""Labels after a review: as a table, and as the JSON of Label Studio and argilla, and back."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

import polars as pl

from noisebound.data import Splits
from noisebound.data.class_folders import find_trees
from noisebound.errors import DataError
from noisebound.review.decisions import (
    Decision,
    DecisionDetails,
    DecisionFile,
    corrected_indices,
)
from noisebound.review.queue import IS_SUSPECT, ReviewQueue

Tool: TypeAlias = Literal["label-studio", "argilla"]

_POSITION = "noisebound_position"
_QUESTION = "label"  # the name of the control, or of the question, that asks for the class
_ITEM = "item"
_AGENT = "noisebound"
_DECIDED = {"verdict": pl.String, "probability_wrong": pl.Float64, "by": pl.String, "at": pl.String}


def corrected_labels(decisions: DecisionFile, *, drop_unusable: bool = False) -> pl.DataFrame:
    """Return one row per example, in the order of the data.

    ``why`` is ``"person"`` for a label that a person looked at by itself, ``"bulk"`` for a
    suggestion that was accepted together with others, and ``"unchanged"`` for a label that nobody
    has settled. ``probability_wrong`` is the probability before the decision.

    Args:
        decisions: the decisions
        drop_unusable: True to leave out unusable examples
    """
    data, made = decisions.data, [decisions.get(place) for place in range(len(decisions.data))]
    names, corrected = data.class_names, corrected_indices(decisions).tolist()
    decided = [
        (None,) * 4 if each is None else (each.verdict, each.probability, each.by, each.at)
        for each in made
    ]
    table = pl.DataFrame(
        {
            "example": range(len(data)) if data.names is None else data.names,
            **({} if data.ids is None else {"id": data.ids}),
            "label": [names[index] for index in data.labels.tolist()],
            "corrected": [names[index] for index in corrected],
            "why": [each.how if each and each.is_trusted else "unchanged" for each in made],
        }
    ).hstack(pl.DataFrame(decided, schema=_DECIDED, orient="row"))
    is_usable = pl.col("verdict").ne_missing("unusable")
    return table.filter(is_usable) if drop_unusable else table


def label_studio_tasks(queue: ReviewQueue, splits: Splits) -> list[dict[str, Any]]:
    """Return one task per example, the most suspect first.

    Decided examples have an annotation, the others a prediction. The project needs the labeling
    configuration that :func:`label_studio_config` returns.
    """
    content, tasks = _content(splits), []
    for position in _in_order(queue):
        settled, (label, probability) = _settled(queue, position), _likeliest(queue, position)
        item = content(position)
        if splits.has_pictures:  # Label Studio serves local files under this address
            item = f"/data/local-files/?d={quote(item)}"
        task: dict[str, Any] = {"data": {_ITEM: item, **_about(queue, position)}}
        if settled is not None:
            task["annotations"] = [{"result": [_choice(settled[0])], "was_cancelled": False}]
        else:
            prediction = {"model_version": _AGENT, "score": probability, "result": [_choice(label)]}
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
    content, records = _content(splits), []
    field, folder = "text", None
    if splits.has_pictures:  # argilla reads an image from its full path
        field, folder = "image", find_trees(Path(splits.source))[0].files.path.resolve()
    for position in _in_order(queue):
        settled, (label, score) = _settled(queue, position), _likeliest(queue, position)
        agent = _AGENT
        if settled is not None:
            label, agent = settled
            score = 1.0
        item = content(position)
        records.append(
            {
                "id": str(position),
                "fields": {field: item if folder is None else str(folder / item)},
                "metadata": _about(queue, position),
                "suggestions": {_QUESTION: {"value": label, "score": score, "agent": agent}},
                "responses": {},
                "vectors": {},
            }
        )
    return records


def _settled(queue: ReviewQueue, position: int) -> tuple[str, str] | None:
    """Return the label that a person has settled, and who did it."""
    made = queue.decisions.get(position)
    if made is None or not made.is_trusted:
        return None
    return made.label or queue.data.given(position), made.by


def _in_order(queue: ReviewQueue) -> list[int]:
    """Return the positions that wait, in order, and then the decided ones."""
    return [*queue.positions().tolist(), *(each.position for each in queue.decisions)]


def _about(queue: ReviewQueue, position: int) -> dict[str, Any]:
    suspect, ids = queue.suspect(position), queue.data.ids
    about = {"given": suspect.label, "probability_wrong": suspect.probability, _POSITION: position}
    return about if ids is None else about | {"id": ids[position]}


def _likeliest(queue: ReviewQueue, position: int) -> tuple[str, float]:
    """Return the likelier of the label and the suggestion, with its probability."""
    suspect = queue.suspect(position)
    if suspect.probability > IS_SUSPECT:
        return suspect.suggested, suspect.probability
    return suspect.label, 1 - suspect.probability


def _content(splits: Splits) -> Callable[[int], str]:
    """Return a function from a position to a text, the name of a file, or the columns of a row."""
    texts, names = splits.texts(), splits.train_names
    if texts is not None:
        return lambda position: texts[position]
    if splits.has_pictures and names is not None:
        return lambda position: names[position]
    table = splits.frame if splits.table is None else splits.table
    if table is not None:
        rows = table.collect()
        return lambda position: "\n".join(
            f"{column}: {value}" for column, value in rows.row(position, named=True).items()
        )
    raise DataError(
        "other tools need texts, files or a table to show, and this data was arrays: review it "
        "with noisebound review"
    )


def _choice(label: str) -> dict[str, Any]:
    value = {"choices": [label]}
    return {"from_name": _QUESTION, "to_name": _ITEM, "type": "choices", "value": value}


@dataclass(frozen=True)
class _Answer:
    """The answers of one or several people about an example."""

    position: int
    labels: tuple[str, ...]
    by: str
    at: str | None


def read_answers(path: Path, queue: ReviewQueue) -> list[Decision]:
    """Add the answers of a Label Studio or argilla export to the decisions, and return them.

    The majority answer counts; without a majority, the example is unsure. Answers that agree with
    the current decision are left out.

    Args:
        path: the JSON export of a project whose tasks or records came from noisebound
        queue: the queue of the exported run
    """
    made = []
    for answer in _answers(path):
        decision = _decision(answer, queue)
        known = queue.decisions.get(answer.position)
        if known is None or (known.verdict, known.label) != (decision.verdict, decision.label):
            made.append(decision)
    if made:
        queue.decisions.add(made)
    return made


def _decision(answer: _Answer, queue: ReviewQueue) -> Decision:
    file, position = queue.decisions, answer.position
    most, *others = Counter(answer.labels).most_common(2)
    details: DecisionDetails = {
        "by": answer.by,
        "at": answer.at,
        "probability": queue.suspect(position).probability,
    }
    if others and others[0][1] == most[1]:
        return file.make(position, "unsure", **details)
    if most[0] == queue.data.given(position):
        return file.make(position, "right", **details)
    return file.make(position, "wrong", most[0], **details)


def _answers(path: Path) -> Iterator[_Answer]:
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}") from error
    is_list = isinstance(records, list) and all(isinstance(each, dict) for each in records)
    if is_list and all("annotations" in each and "data" in each for each in records):
        read: Callable[[Mapping[str, Any]], _Answer | None] = _of_label_studio
    elif is_list and all("responses" in each and "fields" in each for each in records):
        read = _of_argilla
    else:
        raise DataError(
            f"{path} is neither Label Studio's export as JSON (not JSON-MIN), nor a file by "
            "argilla's records.to_json"
        )
    for number, record in enumerate(records):
        try:
            answer = read(record)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise DataError(
                f"{path}: entry {number} did not come from noisebound labels, or its question is "
                f"not called {_QUESTION!r}: {error!r}"
            ) from error
        if answer is not None:
            yield answer


def _of_label_studio(task: Mapping[str, Any]) -> _Answer | None:
    position, labels, people, times = int(task["data"][_POSITION]), [], [], []
    for annotation in task["annotations"]:
        chosen = [
            each["value"]["choices"][0]
            for each in annotation["result"]
            if each["type"] == "choices" and each["from_name"] == _QUESTION
        ]
        if chosen and not annotation.get("was_cancelled"):
            labels.append(chosen[-1])
            who = annotation.get("completed_by", "Label Studio")
            people.append(str(who.get("email", who.get("id")) if isinstance(who, dict) else who))
            times.append(annotation.get("updated_at") or annotation.get("created_at"))
    if not labels:
        return None
    return _Answer(position, tuple(labels), _joined(people), times[-1])


def _of_argilla(record: Mapping[str, Any]) -> _Answer | None:
    position = int(record["metadata"].get(_POSITION, record["id"]))
    answers = [
        each
        for each in record["responses"].get(_QUESTION, ())
        if each.get("status", "submitted") == "submitted" and each["value"] is not None
    ]
    if not answers:
        return None
    people = [str(each.get("user_id", "argilla")) for each in answers]
    return _Answer(position, tuple(str(each["value"]) for each in answers), _joined(people), None)


def _joined(people: list[str]) -> str:
    return ", ".join(dict.fromkeys(people))
