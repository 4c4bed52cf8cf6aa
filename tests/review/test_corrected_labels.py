"""Labels after a review: as a table, for other tools and back."""

import json
from dataclasses import replace

import polars as pl
import pytest
import torch

from noisebound.data import Dataset, Splits
from noisebound.errors import DataError
from noisebound.estimation import Suspects
from noisebound.review import DecisionFile, ReviewedData, ReviewQueue
from noisebound.review.exports import (
    argilla_records,
    corrected_labels,
    label_studio_config,
    label_studio_tasks,
    read_answers,
)

CLASSES = ("cat", 'd"og')


@pytest.fixture
def splits():
    frame = pl.DataFrame({"size": [1, 2, 3, 4]})
    labels = torch.tensor([0, 0, 1, 1])
    train = Dataset(torch.zeros(4, 2), labels, CLASSES)
    return Splits("four", train, None, "made", frame=frame)


@pytest.fixture
def queue(splits, tmp_path):
    file = DecisionFile(tmp_path / "decisions.jsonl", ReviewedData.of(splits))
    suspects = Suspects(torch.tensor([2.0, 1.0, -1.0, 0.5]).double(), torch.tensor([1, 1, 0, 0]))
    return ReviewQueue(suspects, file)


def test_every_label_says_why(queue):
    queue.decisions.decide(0, "wrong", 'd"og', by="Ada", probability=0.9)
    queue.decisions.decide(1, "wrong", 'd"og', how="bulk", probability=0.8)
    queue.decisions.decide(2, "unusable")
    table = corrected_labels(queue.decisions)
    assert table["label"].to_list() == ["cat", "cat", 'd"og', 'd"og']
    assert table["corrected"].to_list() == ['d"og'] * 4
    assert table["why"].to_list() == ["person", "bulk", "unchanged", "unchanged"]
    assert table["verdict"].to_list() == ["wrong", "wrong", "unusable", None]
    assert table["probability_wrong"].to_list() == [0.9, 0.8, None, None]
    assert table["by"][0] == "Ada"
    kept = corrected_labels(queue.decisions, drop_unusable=True)
    assert kept["example"].to_list() == [0, 1, 3]


def photos(folder, names):
    """Return a file of decisions about images of cats and dogs, which are written as files."""
    for name in names:
        path = folder / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    labels = torch.tensor([("cat", "dog").index(name.split("/")[0]) for name in names])
    train = Dataset(torch.zeros(len(names), 2), labels, ("cat", "dog"))
    return DecisionFile(folder / "d.jsonl", ReviewedData(train, names))


def test_ids_stand_beside_rows(queue, splits):
    queue.decisions.data.ids = ["A-1", "A-2", "B-1", "B-2"]
    queue.decisions.decide(1, "unusable")
    kept = corrected_labels(queue.decisions, drop_unusable=True)
    assert kept.select("example", "id").rows() == [(0, "A-1"), (2, "B-1"), (3, "B-2")]
    by_row = {
        each["data"]["noisebound_position"]: each for each in label_studio_tasks(queue, splits)
    }
    assert by_row[2]["data"]["id"] == "B-1"
    assert {each["metadata"]["id"] for each in argilla_records(queue, splits)} == {
        "A-1", "A-2", "B-1", "B-2",
    }  # fmt: skip


def test_images_are_named_so_that_the_tools_find_them(tmp_path):
    names = ("cat/a b&c#1.png", "dog/1.png")
    file = photos(tmp_path, names)
    train = Dataset(torch.zeros(2, 1, 4, 4, dtype=torch.uint8), torch.tensor([0, 1]), CLASSES)
    splits = Splits("two", train, None, "made", train_names=names, folder=tmp_path / "photos")
    queue = ReviewQueue(Suspects(torch.tensor([1.0, 0.0]).double(), 1 - file.data.labels), file)
    item = label_studio_tasks(queue, splits)[0]["data"]["item"]
    assert item == "/data/local-files/?d=cat/a%20b%26c%231.png"
    image = argilla_records(queue, splits)[0]["fields"]["image"]
    assert image == str((tmp_path / "photos" / names[0]).resolve())
    with pytest.raises(DataError, match="other tools need texts, files or a table"):
        argilla_records(queue, replace(splits, folder=None, table=pl.DataFrame({"a": [1, 2]})))


def test_label_studio_and_back(queue, splits, tmp_path):
    queue.decisions.decide(3, "right")
    tasks = label_studio_tasks(queue, splits)
    assert [task["data"]["noisebound_position"] for task in tasks] == [0, 1, 2, 3]
    first = tasks[0]["predictions"][0]
    assert first["result"][0]["value"] == {"choices": ['d"og']}
    assert first["score"] == pytest.approx(torch.tensor(2.0).sigmoid().item())
    assert tasks[0]["data"]["item"] == "size: 1"
    assert tasks[3]["annotations"][0]["result"][0]["value"] == {"choices": ['d"og']}
    assert "<Choice value='d\"og'/>" in label_studio_config(splits)
    for task in tasks:  # as Label Studio exports what was annotated
        task.setdefault("annotations", [])
    chosen = tasks[0]["predictions"][0]["result"]
    about = {"was_cancelled": False, "completed_by": {"id": 1, "email": "ada@example.org"}}
    tasks[0]["annotations"] = [{"result": chosen, "updated_at": "2026-01-02T03:04:05Z", **about}]
    tasks[1]["annotations"] = [{"result": [], "was_cancelled": True}]
    path = tmp_path / "export.json"
    path.write_text(json.dumps(tasks))
    (made,) = read_answers(path, queue)
    assert (made.position, made.verdict, made.label) == (0, "wrong", 'd"og')
    assert (made.by, made.at) == ("ada@example.org", "2026-01-02T03:04:05Z")
    assert read_answers(path, queue) == []  # nothing is decided twice


def test_argilla_and_back(queue, splits, tmp_path):
    records = argilla_records(queue, splits)
    assert records[0]["suggestions"]["label"]["value"] == 'd"og'
    assert records[0]["fields"] == {"text": "size: 1"}

    def response(value, status="submitted"):
        return {"value": value, "user_id": "u1", "status": status}

    records[0]["responses"] = {"label": [response('d"og'), response('d"og'), response("cat")]}
    records[1]["responses"] = {"label": [response('d"og'), response("cat")]}
    records[2]["responses"] = {"label": [response("cat", "draft")]}
    path = tmp_path / "records.json"
    path.write_text(json.dumps(records))
    first, second = read_answers(path, queue)
    assert (first.verdict, first.label) == ("wrong", 'd"og')
    assert second.verdict == "unsure"  # one says this, one says that
    assert len(queue.decisions) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("nothing", "is not JSON"),
        ('[{"label": "cat"}]', "not JSON-MIN"),
        (
            '[{"annotations": [], "data": {}}]',
            "entry 0 is not of an export of what noisebound labels wrote",
        ),
    ],
)
def test_other_files_are_refused(queue, tmp_path, content, message):
    path = tmp_path / "export.json"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        read_answers(path, queue)
