"""Labels for other tools and back: the JSON that Label Studio and argilla import and export."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from noisebound.data import Splits
from noisebound.data.class_folders import find_trees
from noisebound.errors import DataError
from noisebound.review.decisions import Decision
from noisebound.review.queue import ReviewQueue

Tool: TypeAlias = Literal["label-studio", "argilla"]

_POSITION = "noisebound_position"
_QUESTION = "label"  # the name of the control, or of the question, that asks for the class
_ITEM = "item"
_AGENT = "noisebound"


@dataclass(frozen=True)
class _Answer:
    """What people have answered about one example in another tool."""

    position: int
    labels: tuple[str, ...]
    by: str
    at: str | None


def label_studio_tasks(queue: ReviewQueue, splits: Splits) -> list[dict[str, Any]]:
    """Return a task per example, the most suspect first: decided ones annotated, others predicted.

    The project needs the labeling configuration that :func:`label_studio_config` returns.
    """
    content, tasks = _content(splits), []
    for position in _in_order(queue):
        suspect, made = queue.suspect(position), queue.decisions.get(position)
        label, probability = _likeliest(queue, position)
        task: dict[str, Any] = {
            "data": {
                **_for_label_studio(content(position), has_pictures=splits.has_pictures),
                "given": suspect.label,
                "probability_wrong": suspect.probability,
                _POSITION: position,
            }
        }
        if made is not None and made.is_trusted:
            result = [_choice(made.label or suspect.label)]
            task["annotations"] = [{"result": result, "was_cancelled": False}]
        else:
            task["predictions"] = [
                {"model_version": _AGENT, "score": probability, "result": [_choice(label)]}
            ]
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
    """Return a record per example, the most suspect first, as ``Dataset.records.from_json`` reads.

    The likeliest class, or what was decided, is the suggestion for the question ``label``.
    """
    content, records = _content(splits), []
    field = "image" if splits.has_pictures else "text"
    folder = _image_folder(splits) if splits.has_pictures else None
    for position in _in_order(queue):
        suspect, made = queue.suspect(position), queue.decisions.get(position)
        label, score = _likeliest(queue, position)
        agent = _AGENT
        if made is not None and made.is_trusted:
            label, score, agent = made.label or suspect.label, 1.0, made.by
        records.append(
            {
                "id": str(position),
                "fields": {field: _for_argilla(content(position), folder)},
                "metadata": {
                    "given": suspect.label,
                    "probability_wrong": suspect.probability,
                    _POSITION: position,
                },
                "suggestions": {_QUESTION: {"value": label, "score": score, "agent": agent}},
                "responses": {},
                "vectors": {},
            }
        )
    return records


def read_answers(path: Path, queue: ReviewQueue) -> list[Decision]:
    """Write what was answered in Label Studio or argilla to the decisions, and return it.

    Of several answers about an example the one that most people gave counts; if none is, the
    example is unsure. Answers that say what was decided already are left out.

    Args:
        path: the JSON export of a project whose tasks or records came from noisebound
        queue: of the run that was exported
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
    file, given = queue.decisions, queue.data.given(answer.position)
    most, *others = Counter(answer.labels).most_common(2)
    about = {
        "by": answer.by,
        "at": answer.at,
        "probability": float(queue.probability[answer.position]),
    }
    if others and others[0][1] == most[1]:
        return file.make(answer.position, "unsure", **about)  # type: ignore[arg-type]
    if most[0] == given:
        return file.make(answer.position, "right", **about)  # type: ignore[arg-type]
    return file.make(answer.position, "wrong", most[0], **about)  # type: ignore[arg-type]


def _answers(path: Path) -> Iterator[_Answer]:
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is no JSON: {error}") from error
    is_list = isinstance(records, list) and all(isinstance(each, dict) for each in records)
    if is_list and all("annotations" in each and "data" in each for each in records):
        read: Callable[[Mapping[str, Any]], _Answer | None] = _of_label_studio
    elif is_list and all("responses" in each and "fields" in each for each in records):
        read = _of_argilla
    else:
        raise DataError(
            f"{path} is neither Label Studio's export as JSON (not JSON-MIN), nor what argilla's "
            "records.to_json writes"
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


def _in_order(queue: ReviewQueue) -> list[int]:
    """Return the positions that wait, in order, and then those that are decided."""
    return [*queue.positions().tolist(), *(each.position for each in queue.decisions)]


def _likeliest(queue: ReviewQueue, position: int) -> tuple[str, float]:
    """Return the likelier of the label and the suggestion, with its probability."""
    suspect = queue.suspect(position)
    if suspect.probability > 0.5:
        return suspect.suggested, suspect.probability
    return suspect.label, 1 - suspect.probability


def _content(splits: Splits) -> Callable[[int], str]:
    """Return a function from a position to what another tool shows: a text, a file, or a row."""
    texts, names = splits.texts(), splits.train_names
    if texts is not None:
        return lambda position: texts[position]
    if splits.has_pictures and names is not None:
        return lambda position: names[position]
    if splits.frame is not None:
        rows = splits.frame.collect()
        return lambda position: "\n".join(
            f"{column}: {value}" for column, value in rows.row(position, named=True).items()
        )
    raise DataError(
        "other tools need texts, files or a table to show, and this data was arrays: review it "
        "with noisebound review"
    )


def _for_label_studio(content: str, *, has_pictures: bool) -> dict[str, str]:
    """Return the item; an image is looked for in the local files that Label Studio may serve."""
    return {_ITEM: f"/data/local-files/?d={quote(content)}" if has_pictures else content}


def _for_argilla(content: str, folder: Path | None) -> str:
    """Return the item; argilla reads an image from its path, in whatever folder it is started."""
    return content if folder is None else str(folder / content)


def _image_folder(splits: Splits) -> Path:
    """Return the folder to which the names of images are relative."""
    return find_trees(Path(splits.source))[0].files.path.resolve()


def _choice(label: str) -> dict[str, Any]:
    return {
        "from_name": _QUESTION,
        "to_name": _ITEM,
        "type": "choices",
        "value": {"choices": [label]},
    }
