"""Decisions: on disk at once, whole or not at all, and never lost to another writer."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch

from noisebound.data import Dataset
from noisebound.errors import DataError, InvalidValueError
from noisebound.review import DecisionFile, ReviewedData

CLASSES = ("cat", "dog", "<b>owl")


def examples(n=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return Dataset(torch.randn(n, 3, generator=generator), torch.arange(n) % 3, CLASSES)


@pytest.fixture
def data():
    return ReviewedData(examples())


@pytest.fixture
def file(tmp_path, data):
    return DecisionFile(tmp_path / "decisions.jsonl", data)


def lines(file):
    return [json.loads(line) for line in file.path.read_text(encoding="utf-8").splitlines()]


def test_a_decision_is_on_disk_when_the_call_returns(file, data):
    made = file.decide(1, "wrong", "<b>owl", by="Zoë", where="audit", probability=0.75)
    header, line = lines(file)
    assert header["noisebound"] == "decisions"
    assert line["label"] == "<b>owl"
    assert line["by"] == "Zoë"
    assert line["at"].endswith("+00:00")
    again = DecisionFile(file.path, data)
    assert list(again) == [made]
    assert again.get(1).where == "audit"
    assert again.get(2) is None


def test_nothing_is_written_before_the_first_decision(file):
    assert not file.path.exists()
    assert len(file) == 0


def test_the_later_of_two_decisions_counts_and_both_stay(file):
    file.decide(0, "wrong", "dog")
    file.decide(0, "right")
    assert file.get(0).verdict == "right"
    assert len(file) == 1
    assert [each.verdict for each in file.history] == ["wrong", "right"]
    assert len(lines(file)) == 3


def test_undoing_adds_a_line_and_restores_the_earlier_decision(file, data):
    file.decide(0, "wrong", "dog")
    second = file.decide(0, "unsure")
    assert file.undo(second.key) == second
    assert file.get(0).verdict == "wrong"
    assert lines(file)[-1]["undo"] == second.key
    assert DecisionFile(file.path, data).get(0).verdict == "wrong"
    with pytest.raises(InvalidValueError, match="no decision"):
        file.undo(second.key)


def test_two_writers_see_and_keep_each_others_decisions(file, data):
    other = DecisionFile(file.path, data)
    file.decide(0, "right")
    other.decide(1, "right")
    mine = file.decide(2, "unusable")
    assert [each.position for each in other.refresh()] == [0, 1, 2]
    other.decide(2, "right")
    file.undo(mine.key)  # one's own, although the other one has decided since
    assert file.get(2).verdict == "right"


def test_many_writers_lose_nothing(tmp_path, data):
    path = tmp_path / "decisions.jsonl"

    def decide_all(_):
        file = DecisionFile(path, data)
        for position in range(12):
            file.decide(position, "right")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(decide_all, range(4)))
    found = DecisionFile(path, data)
    assert len(found.history) == 48
    assert found.notes == []
    assert sum("noisebound" in line for line in lines(found)) == 1


def test_a_line_that_was_cut_off_is_ignored_and_said(file, data):
    file.decide(0, "right")
    file.decide(1, "right")
    whole = file.path.read_bytes()
    file.path.write_bytes(whole[:-20])
    found = DecisionFile(file.path, data)
    assert [each.position for each in found] == [0]
    assert "cut off" in found.notes[0]
    found.decide(2, "right")  # the rest of the line must not swallow it
    again = DecisionFile(file.path, data)
    assert [each.position for each in again] == [0, 2]
    assert again.notes == [f"Line 3 of {file.path} is not JSON, and is ignored."]


def test_lines_of_older_versions_and_copied_by_hand_count(file, data):
    """Fields with a default may lack, and a copied line has the key of another."""
    first = file.decide(0, "right")
    line = {"position": 1, "verdict": "wrong", "label": "cat", "by": "Ada", "at": first.at}
    copied = line | {"position": 2, "key": first.key}
    with file.path.open("a", encoding="utf-8") as added:
        added.writelines(json.dumps(each) + "\n" for each in (line, copied))
    again = DecisionFile(file.path, data)
    assert [each.position for each in again.history] == [0, 1, 2]
    assert again.notes == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"position": 99}, "`position` must be"),
        ({"label": "cow"}, "name of a class"),
        ({"verdict": "maybe"}, "`verdict` must be 'right', "),
        ({"by": None}, "`by` must be"),
        ({"comment": "sure"}, "`comment`"),
    ],
)
def test_a_line_that_is_no_decision_is_noted(file, data, changed, message):
    record = {"position": 1, "verdict": "wrong", "label": "cat", "by": "Ada", "at": "now"}
    file.decide(0, "right")
    with file.path.open("a", encoding="utf-8") as added:
        added.write(json.dumps(record | changed) + "\n")
    again = DecisionFile(file.path, data)
    assert [each.position for each in again] == [0]
    (note,) = again.notes
    assert note.startswith(f"Line 3 of {file.path} is not a decision about this data: ")
    assert message in note


def test_a_header_that_was_cut_off_is_written_again(file, data):
    file.path.write_bytes(b'{"noisebound": "deci')
    file.decide(3, "right")
    assert [each.position for each in DecisionFile(file.path, data)] == [3]


def test_a_writer_that_is_killed_leaves_whole_lines(tmp_path):
    program = """
import sys, torch
from pathlib import Path
from noisebound.data import Dataset
from noisebound.review import DecisionFile, ReviewedData
train = Dataset(torch.zeros(1000, 2), torch.arange(1000) % 2, ("a", "b"))
file = DecisionFile(Path(sys.argv[1]), ReviewedData(train))
for position in range(1000):
    file.decide(position, "right")
    print(position, flush=True)
"""
    path = tmp_path / "decisions.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-c", program, path], stdout=subprocess.PIPE, text=True
    )
    with process:
        while (count := int(process.stdout.readline())) < 5:
            pass
        os.kill(process.pid, signal.SIGKILL)
    train = Dataset(torch.zeros(1000, 2), torch.arange(1000) % 2, ("a", "b"))
    found = DecisionFile(path, ReviewedData(train))
    assert set(range(count + 1)) <= {each.position for each in found}
    assert found.notes == []


def test_a_full_disk_leaves_the_file_as_it_was(file, monkeypatch):
    file.decide(0, "right")
    before = file.path.read_bytes()
    write = os.write

    def half(descriptor, content):
        if len(content) > 10:
            return write(descriptor, content[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(OSError, match="No space left"):
        file.add([file.make(1, "right"), file.make(2, "right")])
    monkeypatch.undo()
    assert file.path.read_bytes() == before
    assert len(file) == 1


def test_decisions_about_other_data_are_refused(file):
    file.decide(0, "right")
    with pytest.raises(DataError, match="12 examples, and this data has 13"):
        DecisionFile(file.path, ReviewedData(examples(13)))
    other = replace(examples(seed=1), labels=torch.arange(12).flip(0) % 3)
    with pytest.raises(DataError, match="other examples"):
        DecisionFile(file.path, ReviewedData(other))


def test_the_same_examples_are_known_by_inputs_or_by_labels(file):
    file.decide(0, "right")
    corrected = replace(examples(), labels=torch.zeros(12, dtype=torch.long))
    assert len(DecisionFile(file.path, ReviewedData(corrected))) == 1
    embedded_anew = replace(examples(), inputs=torch.zeros(12, 5))
    assert len(DecisionFile(file.path, ReviewedData(embedded_anew))) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"position": 0}\n', "is not a file of decisions"),
        ('{"noisebound": "decisions", "format": 9}\n', "another version"),
    ],
)
def test_a_file_of_another_kind_is_refused(file, data, content, message):
    file.path.write_text(content)
    with pytest.raises(DataError, match=message):
        DecisionFile(file.path, data)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((12, "right"), "`position` must be"),
        ((True, "right"), "`position` must be"),
        ((0, "wrong"), "needs the `label`"),
        ((0, "right", "dog"), "needs the `label`"),
        ((0, "wrong", "cat"), "already"),
        ((0, "wrong", "dgo"), "did you mean 'dog'"),
        ((0, "maybe"), "`verdict` must be 'right', "),
    ],
)
def test_invalid_decisions_are_refused(file, arguments, message):
    with pytest.raises(InvalidValueError, match=message):
        file.decide(*arguments)
    assert not file.path.exists()
