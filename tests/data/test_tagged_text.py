"""Sentences with tags, from CoNLL and JSONL files, and their probabilities from arrays."""

import gzip
import json
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from noisebound.data.tagged_text import read_tagged_text
from noisebound.errors import DataError

CONLL = """-DOCSTART- -X- O

# sent_id = a b
Ann NNP B-PER
Lee NNP I-PER
spoke VBD O

# NN O
2 CD O
"""
TAGS = ("B-PER", "I-PER", "O")
FIELDS = ("tokens", "tags", "probs")
PROBS = np.eye(3)[[0, 1, 2, 2, 2]]


def written(path, text):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf-8") as file:
        file.write(text)
    return path


def records(**changes):
    first = {"tokens": ["Ann", "Lee", "spoke"], "tags": ["B-PER", "I-PER", "O"]}
    return [first | changes, {"tokens": ["#", "2"], "tags": ["O", None]}]


def json_lines(path, rows):
    return written(path, "\n\n".join(json.dumps(row) for row in rows))


@pytest.mark.parametrize("name", ["a.conll", "a.txt.gz"])
@pytest.mark.parametrize("separator", [" ", "\t"])
def test_conll(tmp_path, name, separator):
    probs = tmp_path / "p.npy"
    np.save(probs, PROBS)
    lines = [line if line[:2] == "# " and "=" in line else line.replace(" ", separator)
             for line in CONLL.splitlines()]  # fmt: skip
    text = read_tagged_text(written(tmp_path / name, "\r\n".join(lines)), probs, TAGS)
    assert [each.words for each in text.sentences] == [("Ann", "Lee", "spoke"), ("#", "2")]
    assert text.class_names == TAGS
    assert [each.tolist() for each in text.labels] == [[0, 1, 2], [2, 2]]
    assert [each.shape for each in text.probs] == [(3, 3), (2, 3)]
    assert [text.line_of(0, 2), text.line_of(1, 0)] == [6, 8]


def test_half_an_emoji_is_replaced(tmp_path):
    np.save(tmp_path / "p.npy", PROBS)
    path = json_lines(tmp_path / "a.jsonl", records(tokens=["\ud83d", "Lee", 3]))
    assert read_tagged_text(path, tmp_path / "p.npy", TAGS).sentences[0].words == (
        "\ufffd",
        "Lee",
        "3",
    )


def test_json_lines_with_their_own_probabilities(tmp_path):
    rows = [row | {"probs": part.tolist()} for row, part in
            zip(records(), np.split(PROBS, [3]), strict=True)]  # fmt: skip
    text = read_tagged_text(json_lines(tmp_path / "a.jsonl", rows), class_names=TAGS)
    assert [each.tolist() for each in text.labels] == [[0, 1, 2], [2, -100]]
    assert text.line_of(1, 1) == 3
    assert np.array_equal(np.concatenate(text.probs), PROBS)


@pytest.mark.parametrize("form", ["rows", "padded", "one for each sentence"])
def test_forms_of_probabilities(tmp_path, form):
    path, parts = tmp_path / "p.npz", np.split(PROBS, [3])
    if form == "rows":
        np.savez(path, PROBS, classes=TAGS)
    elif form == "padded":
        np.savez(path, np.stack([parts[0], np.pad(parts[1], ((0, 1), (0, 0)))]), classes=TAGS)
    else:
        np.savez(path, *parts, classes=TAGS)
    first, second = records()
    rows = [first | {"tags": [0, 1, 2]}, second | {"tags": [2, -100]}]
    text = read_tagged_text(json_lines(tmp_path / "a.jsonl", rows), path)
    assert np.array_equal(np.concatenate(text.probs), PROBS)
    assert [each.tolist() for each in text.labels] == [[0, 1, 2], [2, -100]]
    named = read_tagged_text(json_lines(tmp_path / "b.jsonl", rows), path, ["X", "Y", "Z"])
    assert named.class_names == ("X", "Y", "Z")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no sentences"),
        ("word\n", "line 1 of .* has 1 columns, expected 2"),
        ("a O\nb c O\n", "line 2 of .* has 3 columns, expected 2: a word in the first"),
    ],
)
def test_conll_that_cannot_be_read(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_tagged_text(written(tmp_path / "a.conll", text))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tags": ["O"]}, "line 1 of .* has 3 tokens and 1 tags: expected one tag per token"),
        ({"tags": "O"}, "line 1 of .* needs a list 'tags'"),
        ({"probs": [[1], [1, 2]]}, "line 1 of .* is not a JSON record with numbers as probs"),
        ({"tags": ["B-PERS", "O", "O"]}, r"unknown tag 'B-PERS' in line 1 .*mean 'B-PER'"),
        ({"tags": [7, 0, 0]}, "unknown tag 7 in line 1"),
    ],
)
def test_records_that_cannot_be_read(tmp_path, changes, message):
    np.save(tmp_path / "p.npy", PROBS)
    path = json_lines(tmp_path / "a.jsonl", records(**changes))
    with pytest.raises(DataError, match=message):
        read_tagged_text(path, tmp_path / "p.npy", TAGS)


def test_probabilities_that_do_not_fit(tmp_path):
    path = json_lines(tmp_path / "a.jsonl", records())
    with pytest.raises(DataError, match="no probabilities for the sentence in line 1: pass a file"):
        read_tagged_text(path)
    np.save(tmp_path / "p.npy", PROBS[:4])
    with pytest.raises(DataError, match="one row for each of 5 words, or one array for each of 2"):
        read_tagged_text(path, tmp_path / "p.npy")
    np.save(tmp_path / "p.npy", PROBS[:, :2])
    with pytest.raises(DataError, match=r"each of the 2 columns .* as `classes`: 3 are known"):
        read_tagged_text(path, tmp_path / "p.npy", TAGS)
    with pytest.raises(DataError, match=r"`classes`: 0 are known; the tags .* are B-PER I-PER O"):
        read_tagged_text(path, tmp_path / "p.npy")
    (tmp_path / "b.jsonl").write_text("[1]\n{", encoding="utf-8")
    with pytest.raises(DataError, match=r"line 1 of .* needs a list 'tokens'"):
        read_tagged_text(tmp_path / "b.jsonl")


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(), name=st.sampled_from(["a.conll", "a.jsonl"]))
def test_any_text_has_sentences_or_a_data_error(tmp_path, text, name):
    (tmp_path / name).write_bytes(text.encode())
    np.save(tmp_path / "p.npy", PROBS)
    with suppress(DataError):
        assert read_tagged_text(tmp_path / name, tmp_path / "p.npy").sentences


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    record=st.recursive(
        st.none() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(FIELDS), inner),
    )
)
def test_any_record_has_a_sentence_or_a_data_error(tmp_path, record):
    with suppress(DataError):
        assert read_tagged_text(json_lines(tmp_path / "a.jsonl", [record])).sentences
