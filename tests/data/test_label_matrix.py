import numpy as np
import pandas as pd
import polars as pl
import pytest
from PIL import Image

from noisebound.data import DataError, load
from noisebound.data.load import summarize

X = np.arange(16.0).reshape(8, 2)
MATRIX = np.array([[1, 0, 1], [0, 1, 1], [0, 0, 0], [1, 1, 1]] * 2)
NAMES = ("odd", "large", "loop")
LISTS = [[name for name, has in zip(NAMES, row, strict=True) if has] for row in MATRIX.tolist()]
COLUMNS = pl.DataFrame(MATRIX, NAMES, orient="row")


def table(labels):
    return pl.DataFrame({"x": X[:, 0], "y": X[:, 1]}).hstack(labels)


def lists(values):
    return table(pl.DataFrame({"labels": pl.Series(values)}))


def by_name(data):
    return {name: data.label_matrix[:, place] for place, name in enumerate(data.label_names)}


def as_lists(data):
    return [
        sorted(name for name, column in by_name(data).items() if column[row] == 1)
        for row in range(len(data))
    ]


@pytest.mark.parametrize(
    "columns",
    [
        COLUMNS,
        COLUMNS.cast(pl.Boolean),
        COLUMNS.cast(pl.Float64),
        COLUMNS.select(pl.all().replace_strict({1: " Yes", 0: "no"})),
    ],
    ids=["integers", "truth", "numbers", "words"],
)
def test_columns_of_0_and_1(tmp_path, columns):
    table(columns).write_csv(tmp_path / "t.csv")
    for source in (tmp_path / "t.csv", table(columns), table(columns).to_pandas()):
        data = load(source, targets=NAMES).train
        assert data.label_names == NAMES
        assert data.label_matrix.tolist() == MATRIX.tolist()
        assert data.inputs.shape == (8, 2)


@pytest.mark.parametrize(
    "cells",
    [LISTS, [";".join(each) or " ; " for each in LISTS], [" | ".join(each) + "|" for each in LISTS],
     [str(each).replace("'", '"') for each in LISTS]],
    ids=["lists", "semicolons", "bars", "JSON"],
)  # fmt: skip
def test_a_column_of_lists(cells):
    assert as_lists(load(lists(cells), targets="labels").train) == list(map(sorted, LISTS))


def test_lines_of_json_with_lists(tmp_path):
    lists(LISTS).write_ndjson(tmp_path / "t.jsonl")
    assert as_lists(load(tmp_path / "t.jsonl", targets="labels").train) == list(map(sorted, LISTS))


@pytest.mark.parametrize("targets", [(), NAMES])
def test_a_matrix_in_memory(targets, tmp_path):
    np.savez(tmp_path / "d.npz", X=X, y=MATRIX)
    texts = [f"text number {n}" for n in range(8)]
    for source in ((X, MATRIX), (X, MATRIX.astype(bool)), tmp_path / "d.npz", (texts, MATRIX)):
        splits = load(source, targets=targets)
        assert splits.train.label_names == (targets or ("0", "1", "2"))
        assert splits.train.label_matrix.tolist() == MATRIX.tolist()
        assert any("count as several labels of each example" in each for each in splits.notes) == (
            not targets
        )


def test_the_names_of_a_frame_of_labels():
    assert load((X, COLUMNS)).train.label_names == NAMES
    renamed = load((X, pd.DataFrame(MATRIX, columns=NAMES)), targets=["a", "b", "c"])
    assert renamed.train.label_names == ("a", "b", "c")


def test_annotators_of_one_label_stay_annotators():
    words = np.where(MATRIX == 1, "yes", "no")
    holed = np.where(MATRIX == 1, 1, -1) * np.array([1, 1, 0])  # 1, 0 and missing
    for labels in (words, holed, MATRIX + 1):
        data = load((X, labels)).train
        assert data.votes is not None
        assert data.label_matrix is None
    columns = load(table(COLUMNS), target=NAMES)
    assert columns.train.annotators == NAMES
    assert columns.train.label_matrix is None
    named = lists([["a", "b"], ["b"]] * 4)
    for splits in (columns, load(named, target="labels")):
        assert "name the columns as `targets`" in splits.notes[1]
    texts = table(COLUMNS.select(pl.all().replace_strict({1: "cat", 0: "dog"})))
    assert not any("`targets`" in note for note in load(texts, target=NAMES).notes)


def test_a_missing_label_takes_no_part():
    holed = MATRIX.astype(object)
    holed[0, 0], holed[3, 1] = None, float("nan")
    splits = load((X, holed), targets=NAMES)
    assert splits.train.label_matrix[0].tolist() == [-1, 0, 1]
    odd, loop = splits.of_label("odd"), splits.of_label("loop")
    assert odd.train.labels.tolist() == MATRIX[1:, 0].tolist()
    assert odd.train.class_names == ("absent", "present")
    assert odd.train_names == tuple(map(str, range(1, 8)))
    assert odd.train.inputs.shape[0] == 7
    assert loop.train.labels.tolist() == MATRIX[:, 2].tolist()
    assert loop.train_names is None


def test_a_test_table_has_the_labels_of_the_training_table(tmp_path):
    lists([["odd"], ["loop", "odd"], [], ["loop"]] * 2).write_ndjson(tmp_path / "test.jsonl")
    splits = load(lists(LISTS), targets="labels", test=tmp_path / "test.jsonl")
    assert splits.test.label_names == splits.train.label_names
    assert as_lists(splits.test)[:3] == [["odd"], ["loop", "odd"], []]
    assert splits.of_label("large").test.labels.tolist() == [0] * 8
    lists([["odd"], ["loup", "odd"], [], ["loop"]] * 2).write_ndjson(tmp_path / "test.jsonl")
    with pytest.raises(DataError, match="unknown labels 'loup'; the labels are 'large', 'loop'"):
        load(lists(LISTS), targets="labels", test=tmp_path / "test.jsonl")


def test_images_whose_labels_are_in_a_table(tmp_path):
    for place in range(9):
        Image.new("RGB", (4, 4), (place, 0, 0)).save(tmp_path / f"{place}.png")
    files = pl.DataFrame(
        {"by": ["ann"] * 8, "file": [f"{place}.png" for place in range(7, -1, -1)]}
    )
    files.hstack(COLUMNS).write_csv(tmp_path / "labels.csv")
    splits = load(tmp_path, targets=NAMES)
    assert splits.ids[0] == "7.png"
    assert splits.train.inputs[0, 0, 0, 0] == 7
    assert splits.train.label_matrix.tolist() == MATRIX.tolist()
    assert splits.notes == ("1 images are in no table and were left out",)
    alone = load(tmp_path, target="odd").train
    assert alone.labels.tolist() == MATRIX[:, 0].tolist()
    (tmp_path / "3.png").unlink()
    with pytest.raises(DataError, match=r"column 'file' .* are not there: 3.png"):
        load(tmp_path, targets=NAMES)
    (tmp_path / "labels.csv").unlink()
    with pytest.raises(DataError, match="`targets` does not apply to a folder of images without a"):
        load(tmp_path, targets=NAMES)


@pytest.mark.parametrize(
    ("source", "options", "complaint"),
    [
        (table(COLUMNS + 1), {"targets": NAMES}, "must hold 0 and 1.*column 'odd' holds 2"),
        (table(COLUMNS), {"targets": NAMES, "target": "x"}, "and `target` is for one label"),
        (table(COLUMNS), {"targets": ["odd", "lop"]}, "no column 'lop' .did you mean 'loop'"),
        (lists(["a", "b"] * 4), {"targets": "labels"}, "no row has more than one"),
        (lists(["[a, b"] * 8), {"targets": "labels"}, "a list that is not JSON"),
        (lists([["a"], None] * 4), {"targets": "labels"}, "4 of 8 rows .* have no value"),
        ((X, MATRIX), {"targets": ["odd"]}, "`targets` has 1 names, and the labels 3 columns"),
        ((X, MATRIX[:4]), {"targets": NAMES}, "8 inputs but 4 rows of labels"),
        ((X, MATRIX * 0.5), {"targets": NAMES}, "must hold 0 and 1"),
        ((X, MATRIX), {"targets": ["a", "b", "a"]}, "names a label twice, got a, b, a"),
        ((X, LISTS), {"targets": NAMES}, "put lists into one column of a table"),
        ((X, [[0, 1], [0, 1, 1]] * 4), {}, "must be equally long"),
    ],
)
def test_labels_that_cannot_be_used(source, options, complaint):
    with pytest.raises(DataError, match=complaint):
        load(source, **options)


def test_rows_without_labels_can_be_left_out():
    splits = load(lists([["a", "b"], None, ["b"], []] * 2), targets="labels", skip_bad=True)
    assert splits.train_names == ("0", "2", "3", "4", "6", "7")
    assert splits.notes[0] == "2 rows without a label were left out"


def test_lists_in_a_column_of_classes_are_noted():
    notes = load(lists(["a;b", "b", "a", "a;b"] * 2), target="labels").notes
    assert "labels such as 'a;b' look like lists" in notes[0]
    assert "name the column as `targets`" in notes[0]


def test_the_summary_counts_each_label():
    summary = summarize(load((X, MATRIX), targets=NAMES))
    assert summary["classes"] == 3
    assert summary["train"]["labels_per_example"] == 14 / 8
    assert summary["train"]["class_counts"] == {"odd": 4, "large": 4, "loop": 6}


def test_a_mask_is_of_missing_labels():
    masked = np.ma.masked_array(MATRIX, np.zeros_like(MATRIX))
    masked[0, 0] = np.ma.masked
    assert load((X, masked), targets=NAMES).train.label_matrix[0].tolist() == [-1, 0, 1]
    votes = load((X, masked)).train.votes
    assert votes[:2].tolist() == [[-1, 0, 1], [0, 1, 1]]


def test_one_column_of_test_labels_makes_a_matrix_one_of_votes(tmp_path):
    np.savez(tmp_path / "d.npz", X_train=X, y_train=MATRIX, X_test=X, y_test=MATRIX[:, 0])
    splits = load(tmp_path / "d.npz")
    assert splits.train.votes.tolist() == MATRIX.tolist()
    assert splits.test.labels.tolist() == MATRIX[:, 0].tolist()
    np.savez(tmp_path / "d.npz", X_train=X, y_train=MATRIX, X_test=X, y_test=MATRIX)
    assert load(tmp_path / "d.npz").test.label_matrix.tolist() == MATRIX.tolist()


def test_one_column_of_words_is_one_label(tmp_path):
    words = table(pl.DataFrame({"b": ["yes", "no", "no", None] * 2}))
    words.write_csv(tmp_path / "test.csv")
    splits = load(words, targets=["b"], test=tmp_path / "test.csv", skip_bad=True)
    for data in (splits.train, splits.test):
        assert data.label_names == ("b",)
        assert data.label_matrix[:, 0].tolist() == [1, 0, 0] * 2
