"""Several labels per example, from every form of data that can hold them."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given, strategies as st

from noisebound.data import DataError, load
from noisebound.data.votes import check_votes, majority_vote

X = np.arange(12.0).reshape(6, 2)
VOTES = [["a", "a", "b"], ["b", "b", None], ["a", None, None], ["b", "b", "b"], ["a", "a", "a"],
         ["b", "a", "b"]]  # fmt: skip
CODES = [[-1 if each is None else "ab".index(each) for each in row] for row in VOTES]
MAJORITY = [0, 1, 0, 1, 0, 1]
NAMES = ("ann", "bob", "cy")


def wide():
    columns = dict(zip(NAMES, zip(*VOTES, strict=True), strict=True))
    return pl.DataFrame({"x": X[:, 0], "w": X[:, 1], **columns})


def long(columns=("task", "worker", "label")):
    rows = [
        (f"t{place}", X[place, 0], X[place, 1], 0.5 * place + other, NAMES[other], label)
        for place, labels in enumerate(VOTES)
        for other, label in enumerate(labels)
        if label is not None
    ]
    task, worker, label = columns
    schema = [task, "x", "w", "seconds", worker, label]
    return pl.DataFrame(rows, schema=schema, orient="row")


def check(data, *, named=True):
    assert data.votes.tolist() == CODES
    assert data.labels.tolist() == MAJORITY
    assert data.class_names == ("a", "b")
    assert data.annotators == (NAMES if named else ())


def test_several_columns(tmp_path):
    wide().write_csv(tmp_path / "x.csv")
    splits = load(tmp_path / "x.csv", target=NAMES)
    check(splits.train)
    assert splits.encoder.feature_names == ["x", "w"]
    assert "15 labels by 3 annotators: 5 of 6 examples" in splits.notes[0]
    check(load(wide().to_pandas(), target=list(NAMES)).train)


@pytest.mark.parametrize("shuffled", [False, True])
def test_one_row_per_label(shuffled):
    frame = long(("row", "who", "y"))
    frame = frame.sample(fraction=1, shuffle=True, seed=1) if shuffled else frame
    splits = load(frame, item="row", annotator="who", target="y")
    order = [splits.ids.index(f"t{place}") for place in range(6)]
    check(splits.train.subset(torch.tensor(order)))
    assert splits.encoder.feature_names == ["x", "w"]
    assert any("'seconds' differs among the labels of one item" in note for note in splits.notes)


def test_a_value_may_stand_in_any_row_of_its_item():
    frame = long()
    is_first = pl.int_range(pl.len()).over("task") == 0
    is_bare = is_first & (pl.len().over("task") > 1)
    gappy = frame.with_columns(pl.when(~is_bare).then(pl.col("x", "w")).name.keep())
    assert load(gappy).table.equals(load(frame).table)


def test_a_column_that_differs_within_an_item_can_be_excluded():
    assert load(long(), exclude="seconds").encoder.feature_names == ["x", "w"]
    assert load(long(), exclude="worker").encoder.feature_names == ["x", "w"]


def test_a_table_of_crowd_kit_is_recognized():
    check(load(long()).train)


def test_an_export_of_label_studio(tmp_path):
    def annotation(name, label):
        value = {"choices": [label]}
        return {
            "completed_by": {"id": NAMES.index(name), "email": name},
            "result": [{"type": "choices", "from_name": "kind", "value": value}],
        }

    tasks = [
        {
            "id": 100 + place,
            "data": {"x": X[place, 0], "w": X[place, 1], "boxes": [1, 2]},
            "annotations": [annotation(name, each) for name, each in zip(NAMES, row, strict=True)
                            if each],
        }
        for place, row in enumerate(VOTES)
    ]  # fmt: skip
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    splits = load(tmp_path / "export.json")
    check(splits.train)
    assert splits.ids[0] == "100"
    for task in tasks:
        task["annotations"] = []
    (tmp_path / "empty.json").write_text(json.dumps(tasks))
    with pytest.raises(DataError, match="no answers of the type choices"):
        load(tmp_path / "empty.json")


def test_one_label_each_by_people_with_names():
    frame = long().unique("task", keep="first", maintain_order=True)
    for options in ({}, {"target": "label", "annotator": "worker", "exclude": "task"}):
        splits = load(frame, **options)
        assert splits.train.votes is None
        assert splits.train.labels.tolist() == [0, 1, 0, 1, 0, 1]
        assert any("annotators cannot be compared" in note for note in splits.notes)


def test_annotators_that_are_not_known():
    data = load(long().drop("worker"), item="task", target="label").train
    assert data.annotators == ()
    assert data.labels.tolist() == MAJORITY


def test_a_list_of_labels_in_each_line(tmp_path):
    lines = [
        json.dumps({"x": x, "w": w, "labels": [each for each in row if each]})
        for (x, w), row in zip(X.tolist(), VOTES, strict=True)
    ]
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    data = load(tmp_path / "x.jsonl", target="labels").train
    check(data, named=False)


def test_nulls_in_lists_of_labels_keep_the_places_of_the_others():
    frame = wide().select("x", "w", labels=pl.concat_list("cy", pl.lit(None), "ann", "bob"))
    votes = load(frame, target="labels").train.votes
    assert votes.tolist() == [[row[2], row[0], row[1]] for row in CODES]


@pytest.mark.parametrize(
    "labels",
    [
        np.array(CODES),
        torch.tensor(CODES),
        np.where(np.array(CODES) < 0, np.nan, np.array(CODES)),
        np.ma.masked_less(CODES, 0),
        CODES,
        pd.DataFrame(CODES, columns=NAMES),
    ],
    ids=["integers", "tensor", "NaN", "masked", "lists", "frame"],
)
def test_a_matrix_in_memory(labels):
    data = load((X, labels)).train
    assert data.votes.tolist() == CODES
    assert data.labels.tolist() == MAJORITY
    assert data.annotators == (NAMES if isinstance(labels, pd.DataFrame) else ())


def as_frame(labels):
    return pl.DataFrame(labels, NAMES, orient="row")


@pytest.mark.parametrize("labels", [VOTES, CODES, as_frame(VOTES), as_frame(CODES).to_pandas()])
def test_texts_have_the_votes_and_notes_of_arrays(labels):
    texts = [f"{'good' if k else 'bad'} text {n}" for n, k in enumerate(MAJORITY)]
    expected, found = load((X, labels)), load((texts, labels))
    assert found.train.votes.tolist() == expected.train.votes.tolist() == CODES
    assert found.train.labels.tolist() == MAJORITY
    assert found.train.annotators == expected.train.annotators
    assert found.notes[: len(expected.notes)] == expected.notes


def test_labels_of_texts_in_a_frame():
    texts = [f"text {n}" for n in range(6)]
    data = load((texts, pl.DataFrame({"y": list("abbaab")}))).train
    assert data.labels.tolist() == [0, 1, 1, 0, 0, 1]
    with pytest.raises(DataError, match="no annotator can be called 'text'"):
        load((texts, as_frame(VOTES).rename({"bob": "text"})))


def test_clean_labels_of_the_test_set_are_in_one_of_the_columns(tmp_path):
    wide().drop("bob", "cy").with_columns(ann=pl.lit("b")).write_csv(tmp_path / "test.csv")
    splits = load(wide(), target=NAMES, test=tmp_path / "test.csv")
    assert splits.test.labels.tolist() == [1] * 6
    assert splits.test.votes is None


def test_votes_follow_their_examples():
    data = load(wide(), target=NAMES).train
    assert data.subset(torch.tensor([5, 0])).votes.tolist() == [CODES[5], CODES[0]]
    assert data.with_labels(1 - data.labels).votes is None


def constant(value):
    return pl.lit(value, pl.String)


@pytest.mark.parametrize(
    ("frame", "options", "complaint"),
    [
        (wide().with_columns(cy=constant(None)), {"target": NAMES}, "'cy' holds no label"),
        (wide().with_columns(cy=pl.lit(7)), {"target": NAMES}, "'ann' holds text.*'cy' holds numb"),
        (wide(), {"target": ("ann", "ann")}, "twice"),
        (wide(), {"target": NAMES, "item": "x"}, "either one row per label"),
        (
            wide().with_columns(pl.lit(None, pl.String).alias(name) for name in NAMES),
            {"target": NAMES},
            "6 of 6 rows .* have no label in columns 'ann', 'bob', 'cy'",
        ),
        (
            wide()
            .with_columns(
                pl.when(pl.col("x") % 3 == n).then(pl.col("ann")).alias(name)
                for n, name in enumerate(NAMES)
            )
            .filter(pl.any_horizontal(pl.col(NAMES).is_not_null())),
            {"target": NAMES},
            "each example has one label only",
        ),
        (pl.concat([long(), long().head(1)]), {}, "'ann' has labeled 't0' more than once"),
        (long(), {"groups": "seconds"}, "'seconds' differs among the labels of one item"),
        (long(), {"id": "seconds"}, "'seconds' differs among the labels of one item"),
        (long(), {"groups": "worker"}, "'worker' names annotators, so it cannot name rows"),
        (long().with_columns(worker=constant(None)), {}, "15 of 15 rows .* no value in 'worker'"),
    ],
)
def test_labels_that_cannot_be_used(frame, options, complaint):
    with pytest.raises(DataError, match=complaint):
        load(frame, **options)


@pytest.mark.parametrize(
    ("labels", "complaint"),
    [
        (np.full((6, 2), -1), "all 12 labels are missing"),
        ([[0, -1]] * 3 + [[1, None]] * 3, "both -1 and None"),
        ([["a", 0]] * 6, "partly text and partly numbers"),
        ([[0, 1], [-1, -1]] * 3, "3 of 6 examples have no label"),
        ([[0, -1], [-1, 1]] * 3, "each example has one label only"),
    ],
)
def test_matrices_that_cannot_be_used(labels, complaint):
    with pytest.raises(DataError, match=complaint):
        load((X, labels))


def test_a_tie_goes_to_the_annotator_who_agrees_with_the_others():
    # The last two agree everywhere else, and the first with nobody.
    votes = torch.tensor([[0, 1, 1]] * 5 + [[1, 0, 0]] * 5 + [[1, 0, -1]])
    assert majority_vote(votes, 2, are_named=True)[-1] == 0
    assert majority_vote(votes, 2, are_named=False)[-1] == 1  # the first


@given(st.data())
def test_the_majority_has_as_many_votes_as_any(data):
    n, k, c = (data.draw(st.integers(1, 6)) for _ in range(3))
    votes = torch.tensor(data.draw(st.lists(
        st.lists(st.integers(-1, c - 1), min_size=k, max_size=k).filter(lambda row: max(row) >= 0),
        min_size=n, max_size=n,
    )))  # fmt: skip
    chosen = majority_vote(votes, c, are_named=data.draw(st.booleans()))
    for row, label in zip(votes, chosen, strict=True):
        counts = row[row >= 0].bincount(minlength=c)
        assert counts[label] == counts.max()


def test_columns_of_other_things_are_no_annotators():
    votes = torch.tensor([[0, 0, 2], [1, 1, 3], [0, 1, 2], [1, 1, 3], [0, 0, 2]]).repeat(2, 1)
    with pytest.raises(DataError, match="x: 'color' has no label in common with the other"):
        check_votes(votes, ("ann", "bob", "color"), "x")
    check_votes(votes[:, :2], ("ann", "bob"), "x")
    check_votes(votes[:5], ("ann", "bob", "color"), "x")  # five labels say little
