"""The types of a table's columns, and the notes about them."""

from datetime import date, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from noisebound.cli.options import ReadingFlags
from noisebound.data import DataError, DataOrigin, TableEncoder, load, read
from noisebound.data.column_types import decide_type
from noisebound.data.options import ReadingOptions, validated
from noisebound.errors import InvalidValueError

RNG = np.random.default_rng(0)
KINDS = ["u", "v"] * 100


def frame_of(**columns):
    return pl.DataFrame({**columns, "y": KINDS})


def loaded(tmp_path, frame, suffix="csv", **options):
    path = tmp_path / f"x.{suffix}"
    {"csv": frame.write_csv, "parquet": frame.write_parquet}[suffix](path)
    return load(path, target="y", **options)


@pytest.mark.parametrize("word", ["n/a", "N/A", "-", "n.a.", "None"])
def test_numbers_with_a_few_words_for_missing_stay_numbers(tmp_path, word):
    values = [str(value) for value in RNG.normal(size=200).round(3)]
    values[::20] = [word] * 10
    splits = loaded(tmp_path, frame_of(a=values))
    assert splits.encoder.feature_names == ["a", "a is missing"]
    assert splits.train.inputs[:, 1].sum() == 10


def test_a_typo_counts_as_missing_with_a_note(tmp_path):
    values = [str(value) for value in RNG.normal(size=200).round(3)]
    values[7] = "12,5 or so"
    splits = loaded(tmp_path, frame_of(a=values))
    assert splits.encoder.feature_names == ["a", "a is missing"]
    assert any("1 values such as '12,5 or so' are not numbers" in note for note in splits.notes)


def test_codes_that_are_often_letters_are_categories(tmp_path):
    splits = loaded(tmp_path, frame_of(a=["1", "2", "B", "4"] * 50))
    assert splits.encoder.feature_names == ["a = 1", "a = 2", "a = 4", "a = B"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("pattern", ["%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%d/%m/%Y"])
def test_dates_as_strings_are_dates(tmp_path, suffix, pattern):
    days = [date(2024, 1, 1) + timedelta(int(days)) for days in RNG.integers(0, 90, 200)]
    frame = frame_of(day=[day.strftime(pattern) for day in days])
    splits = loaded(tmp_path, frame, suffix)
    assert splits.encoder.types == {"day": "date"}
    numbers = torch.tensor([day.toordinal() for day in days]).double()
    standard = (numbers - numbers.mean()) / numbers.std(correction=0)
    torch.testing.assert_close(splits.train.inputs[:, 0], standard.float())


WRITTEN_DAYS = (
    "%m/%d/%Y",
    "%m/%d/%y",
    "%d.%m.%Y",
    "%d-%b-%Y",
    "%B %d, %Y",
    "%m/%d/%Y %I:%M %p",
    "%Y-%m-%dT%H:%M:%SZ",
    "%Y-%m-%d %H:%M:%S+00:00",
)


@pytest.mark.parametrize("pattern", WRITTEN_DAYS)
def test_dates_as_people_write_them(tmp_path, pattern):
    days = [date(2024, 1, 1) + timedelta(int(days)) for days in RNG.integers(0, 90, 200)]
    splits = loaded(tmp_path, frame_of(day=[day.strftime(pattern) for day in days]))
    assert splits.encoder.types == {"day": "date"}
    assert splits.notes == ()
    exact = splits.encoder.transform(pl.DataFrame({"day": days}))
    torch.testing.assert_close(splits.train.inputs, exact)


def test_new_dates_are_read_in_the_order_of_those_trained_on(tmp_path):
    days = [date(2024, 3, 1) + timedelta(int(days)) for days in RNG.integers(0, 90, 200)]
    frame = frame_of(day=[day.strftime("%m/%d/%Y") for day in days])
    encoder = loaded(tmp_path, frame).encoded_by(torch.arange(200) < 150).encoder
    new = encoder.transform(pl.DataFrame({"day": ["3/4/2024"]}))
    assert new.item() == encoder.transform(pl.DataFrame({"day": [date(2024, 3, 4)]})).item()


def test_ambiguous_dates_get_a_note(tmp_path):
    frame = frame_of(day=[f"{1 + int(k)}/{1 + int(k) % 5}/2024" for k in RNG.integers(0, 12, 200)])
    note = loaded(tmp_path, frame).notes[0]
    assert "is read as 2024-" in note
    assert "could mean 2024-" in note


@pytest.mark.parametrize(
    "written",
    [
        lambda number: f"{number:.2f}".replace(".", ","),
        lambda number: f"{1000 * number:,.2f}",
        lambda number: f"{1000 * number:,.2f}".translate(str.maketrans(",.", ".,")),
        lambda number: f"${number:.4f}",
        lambda number: f"{number:.4f} %",
        lambda number: f"{number:.4f}",
    ],
)
def test_numbers_as_people_write_them(tmp_path, written):
    numbers = RNG.uniform(0, 5000, 200)
    splits = loaded(tmp_path, frame_of(a=[written(number) for number in numbers]))
    assert splits.encoder.types == {"a": "number"}
    assert splits.notes == ()
    standard = torch.from_numpy((numbers - numbers.mean()) / numbers.std()).float()
    torch.testing.assert_close(splits.train.inputs[:, 0], standard, atol=1e-4, rtol=0)


def test_new_numbers_are_read_in_the_style_of_those_trained_on(tmp_path):
    values = [f"{value:.2f}".replace(".", ",") for value in RNG.uniform(0, 5000, 200)]
    trained = loaded(tmp_path, frame_of(a=values))
    frame_of(a=["1.234", "2.000"] * 100).write_csv(tmp_path / "test.csv")
    tested = loaded(tmp_path, frame_of(a=values), test=tmp_path / "test.csv")
    expected = trained.encoder.transform(pl.DataFrame({"a": [1234.0, 2000.0]}))
    torch.testing.assert_close(tested.test.inputs[:2], expected)


def test_a_nearly_numeric_column_gets_a_note(tmp_path):
    values = [str(value) for value in RNG.integers(0, 9, 200)]
    values[::40] = ["12 kg"] * 5
    splits = loaded(tmp_path, frame_of(a=values))
    assert splits.encoder.types == {"a": "category"}
    assert "is taken for categories, because 5 values such as '12 kg'" in splits.notes[0]
    assert (
        loaded(tmp_path, frame_of(a=values), types={"a": "number"}).encoder.types["a"] == "number"
    )


def test_merged_labels_have_a_name_without_spaces_around_it(tmp_path):
    frame = pl.DataFrame({"a": RNG.normal(size=200), "y": [" stay", " stay", "stay", "go"] * 50})
    assert loaded(tmp_path, frame, merge_labels=True).train.class_names == ("go", "stay")


@pytest.mark.parametrize(
    "index",
    [
        range(200),
        range(1000, 800, -1),
        [0.5 * i for i in range(200)],
        [date(2024, 1, 1) + timedelta(i) for i in range(200)],
    ],
)
def test_a_column_that_follows_the_row_order_is_left_out(tmp_path, index):
    frame = frame_of(a=RNG.normal(size=200), index=list(index))
    splits = loaded(tmp_path, frame, "parquet")
    assert splits.encoder.feature_names == ["a"]
    assert "'index' was left out: it follows the order of the rows" in splits.notes[0]
    kind = "date" if frame["index"].dtype == pl.Date else "number"
    kept = loaded(tmp_path, frame, "parquet", types={"index": kind})
    assert kept.encoder.feature_names == ["a", "index"]


def test_an_identifier_is_left_out(tmp_path):
    shuffled = RNG.permutation(200)
    frame = frame_of(a=RNG.normal(size=200), key=shuffled, customer_id=shuffled * 977 + 5)
    splits = loaded(tmp_path, frame)
    assert splits.encoder.feature_names == ["a"]
    assert [note.split("'")[1] for note in splits.notes] == ["key", "customer_id"]
    assert all("an identifier" in note for note in splits.notes)


@pytest.mark.parametrize("name", ["CustomerId", "userID", "ID", "order id"])
def test_an_identifier_is_known_by_its_name(tmp_path, name):
    frame = frame_of(a=RNG.normal(size=200), **{name: RNG.permutation(200) * 977 + 5})
    assert loaded(tmp_path, frame).encoder.feature_names == ["a"]


@pytest.mark.parametrize("values", [range(200), RNG.permutation(200)])
@pytest.mark.parametrize("name", ["id", "index"])
def test_an_identifier_may_lack_a_value(name, values):
    frame = pd.DataFrame({"a": RNG.normal(size=200), name: [*values[:-1], None], "y": KINDS})
    assert load(frame, target="y").encoder.feature_names == ["a"]


@pytest.mark.parametrize("name", ["Unnamed: 0", "__index_level_0__", ""])
def test_the_index_of_frames_one_after_another_is_left_out(tmp_path, name):
    frame = frame_of(a=RNG.normal(size=200), **{name: [*range(100), *range(100)]})
    assert loaded(tmp_path, frame).encoder.feature_names == ["a"]


def test_counts_and_prices_are_not_identifiers(tmp_path):
    paid, index = RNG.permutation(200) * 977.0, RNG.integers(0, 100, 200)
    frame = frame_of(age=RNG.integers(18, 90, 200), price=RNG.integers(0, 10**6, 200))
    frame = frame.with_columns(Paid=pl.Series(paid), index=pl.Series(index))
    assert loaded(tmp_path, frame).encoder.feature_names == ["age", "price", "Paid", "index"]


def test_texts_are_noticed_and_not_made_categories(tmp_path):
    words = ["good", "bad", "soup", "film", "long", "slow", "warm", "dull"]
    reviews = [" ".join(RNG.choice(words, 12)) for _ in range(200)]
    frame = frame_of(a=RNG.normal(size=200), review=reviews)
    splits = loaded(tmp_path, frame)
    assert splits.encoder.feature_names == ["a"]
    assert splits.notes == (
        "column 'review' holds texts, nearly every row one of its own, and was left out: to learn "
        "from its words, name it: `text`",
    )


def test_columns_are_excluded(tmp_path):
    frame = frame_of(a=RNG.normal(size=200), b=RNG.normal(size=200))
    assert loaded(tmp_path, frame, exclude="b").encoder.feature_names == ["a"]
    with pytest.raises(DataError, match="no column 'c'; it has the columns a, b, y"):
        loaded(tmp_path, frame, exclude=["b", "c"])
    with pytest.raises(DataError, match="'y' holds the labels and cannot be excluded"):
        loaded(tmp_path, frame, exclude=["y"])


def test_types_that_are_given(tmp_path):
    frame = frame_of(zip=["01234", "99999"] * 100, a=["1", "x"] * 100)
    splits = loaded(tmp_path, frame, types={"zip": "category"}, exclude="a")
    assert splits.encoder.feature_names == ["zip = 01234", "zip = 99999"]
    as_numbers = loaded(tmp_path, frame, types={"a": "number"}, exclude="zip")
    assert as_numbers.encoder.feature_names == ["a", "a is missing"]
    with pytest.raises(DataError, match="'zip' cannot be read as dates: it has values such as"):
        loaded(tmp_path, frame.with_columns(zip=pl.lit("abc")), types={"zip": "date"})
    with pytest.raises(ValueError, match="`types` must be 'number', 'category'"):
        loaded(tmp_path, frame, types={"zip": "float"})


def test_new_rows_that_happen_to_be_digits_are_still_categories(tmp_path):
    encoder = loaded(tmp_path, frame_of(a=["1", "2", "B", "4"] * 50)).encoder
    for new in (["1", "4"], [1, 4], [1.0, 4.0]):
        features = encoder.transform(pl.DataFrame({"a": new}))
        assert features.tolist() == [[1, 0, 0, 0], [0, 0, 1, 0]]


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([10.0, 20.0, None, 0.0], ["code = 0", "code = 10", "code = 20", "code is missing"]),
        ([1.5, 2.0, 2.5, -3.0], ["code = -3", "code = 1.5", "code = 2", "code = 2.5"]),
        ([True, False, None, True], ["code = false", "code = true", "code is missing"]),
        (["TRUE", "False", "no", None], ["code = false", "code = no", "code = true"]),
        (["007", "7", "7.0", "7.00"], ["code = 007", "code = 7", "code = 7.00"]),
    ],
)
def test_a_category_has_one_spelling_wherever_it_comes_from(tmp_path, values, names):
    frame = pd.DataFrame({"code": values * 50, "y": KINDS})
    frame.to_csv(tmp_path / "x.csv", index=False)
    settings = {"target": "y", "types": {"code": "category"}}
    own, written = load(frame, **settings), load(tmp_path / "x.csv", **settings)
    assert own.encoder.feature_names[: len(names)] == names
    assert written.encoder == own.encoder
    assert written.train.inputs.equal(own.train.inputs)
    assert own.encoder.transform(written.frame).equal(own.train.inputs)


def test_a_missing_number_is_no_category():
    frame = pl.DataFrame({"code": [10.0, float("nan")] * 100})
    encoder = TableEncoder.fit(frame, {"code": "category"})
    assert encoder.feature_names == ["code = 10", "code is missing"]
    assert encoder.transform(frame)[:2].tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("word", ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "?"])
def test_words_for_missing_mean_the_same_in_every_format(tmp_path, word):
    table = frame_of(code=["a", word, "b", "a"] * 50, note=[word, "a b", "c, d", "NA e"] * 50)
    table = table.with_columns(pl.col("code").cast(pl.Categorical))
    table.write_ndjson(tmp_path / "x.jsonl")
    table.write_excel(tmp_path / "x.xlsx")
    settings = {"target": "y", "text": "note"}
    own = loaded(tmp_path, table, text="note")
    assert own.encoder.feature_names[:3] == ["code = a", "code = b", "code is missing"]
    assert own.frame["note"].to_list()[:4] == [None, "a b", "c, d", "NA e"]
    others = [loaded(tmp_path, table, "parquet", text="note"), load(table, **settings)]
    others += [load(tmp_path / name, **settings) for name in ("x.jsonl", "x.xlsx")]
    others.append(load(pd.DataFrame(table.to_dict(as_series=False)), **settings))
    for other in others:
        assert other.encoder == own.encoder
        assert other.frame["note"].equals(own.frame["note"])
    features = own.encoder.transform(table.with_columns(note=pl.lit("c")))
    assert features.dense(torch.arange(4))[:, 2].tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize("kind", ["csv", "parquet", "frame"])
def test_words_for_missing_are_no_classes(tmp_path, kind):
    frame = pl.DataFrame({"a": RNG.normal(size=6), "y": ["u", "v", "NA", "u", "?", "v"]})

    def read(**options):
        if kind == "frame":
            return load(frame, target="y", **options)
        return loaded(tmp_path, frame, kind, **options)

    with pytest.raises(DataError, match=r"2 of 6 rows .* have no label in column 'y'"):
        read()
    splits = read(skip_bad=True)
    assert splits.train.class_names == ("u", "v")
    assert splits.train_names == ("0", "1", "3", "5")


def test_texts_stay_as_they_are_written():
    texts = pl.Series(["True", "10.0", "NaN"])
    assert decide_type(texts, "text").values.to_list() == ["True", "10.0", "NaN"]


def test_new_rows_whose_numbers_are_all_missing_words():
    encoder = TableEncoder.fit(pl.DataFrame({"a": [1.0, 2.0, None]}))
    assert encoder.transform(pl.DataFrame({"a": ["-", "n/a"]}))[:, 1].tolist() == [1, 1]


def test_new_truth_values_may_be_text(tmp_path):
    encoder = loaded(tmp_path, frame_of(a=[True, False, False, True] * 50)).encoder
    assert encoder.types == {"a": "number"}
    for words in (["True", "False", "-"], ["true", "FALSE", "-"], ["1", "0", None]):
        features = encoder.transform(pl.DataFrame({"a": words}))
        assert features[:, 0].tolist() == [1, -1, 0]
    with pytest.raises(DataError, match="'a' must hold numbers, got String"):
        encoder.transform(pl.DataFrame({"a": ["yes", "no"]}))


def test_labels_that_differ_by_case_or_spaces(tmp_path):
    labels = ["stay", "go"] * 97 + [" stay", "Stay", "GO", "go", "stay", "stay"]
    frame = pl.DataFrame({"a": RNG.normal(size=200), "y": labels})
    splits = loaded(tmp_path, frame)
    assert splits.train.num_classes == 5
    assert splits.notes == (
        "labels differ by case or spaces only, and count as different classes: "
        "'stay', 'Stay', ' stay'; 'go', 'GO'; to make them one: `merge_labels`",
    )
    merged = loaded(tmp_path, frame, merge_labels=True)
    assert merged.train.class_names == ("go", "stay")
    assert merged.notes[0].startswith("labels that differ by case or spaces only were merged")


def test_a_test_table(tmp_path):
    train = frame_of(a=RNG.normal(size=200), code=["01", "x"] * 100)
    test = pl.DataFrame({"y": ["v", "u"], "code": ["01", "01"], "a": [0.0, 1.0], "more": [1, 2]})
    test.write_csv(tmp_path / "test.csv")
    splits = loaded(tmp_path, train, test=tmp_path / "test.csv")
    assert splits.test.labels.tolist() == [1, 0]
    assert splits.test.inputs[:, 1:].tolist() == [[1, 0], [1, 0]]
    half = splits.encoded_by(torch.arange(200) < 100)
    torch.testing.assert_close(
        half.test.inputs[:, 0].diff(), torch.tensor([1 / train["a"][:100].std(ddof=0)]).float()
    )
    pl.DataFrame({"a": [1], "code": ["x"], "y": ["w"]}).write_csv(tmp_path / "odd.csv")
    with pytest.raises(DataError, match="unknown labels 'w'"):
        loaded(tmp_path, train, test=tmp_path / "odd.csv")
    pl.DataFrame({"a": [1], "y": ["u"]}).write_csv(tmp_path / "less.csv")
    with pytest.raises(DataError, match=r"less\.csv has no column 'code'"):
        loaded(tmp_path, train, test=tmp_path / "less.csv")
    with pytest.raises(DataError, match="is not there"):
        loaded(tmp_path, train, test=tmp_path / "none.csv")


def test_labels_of_a_test_table_are_merged_to_the_classes(tmp_path):
    train = pl.DataFrame({"a": RNG.normal(size=200), "y": ["stay", "go", "stay ", "go"] * 50})
    test = pl.DataFrame({"a": [0.0, 1.0, 2.0], "y": ["Stay", " GO", "Stay"]})
    test.write_csv(tmp_path / "test.csv")
    splits = loaded(tmp_path, train, test=tmp_path / "test.csv", merge_labels=True)
    assert splits.test.labels.tolist() == [1, 0, 1]
    assert splits.notes[-1] == (
        "labels that differ by case or spaces only were merged: 'go', ' GO'; 'stay', 'Stay'"
    )
    message = r"column 'y' of .*test\.csv: unknown labels ' GO', 'Stay'; .* for one: `merge_labels`"
    with pytest.raises(DataError, match=message):
        loaded(tmp_path, train, test=tmp_path / "test.csv")


def test_whole_numbers_in_a_test_table_are_no_class_indices(tmp_path):
    train = pl.DataFrame(
        {"a": RNG.normal(size=200), "y": [f"{n % 5 + 1} stars" for n in range(200)]}
    )
    pl.DataFrame({"a": [0.0, 1.0], "y": [1, 4]}).write_csv(tmp_path / "test.csv")
    with pytest.raises(DataError, match="unknown labels '1', '4'; the classes are '1 stars', "):
        loaded(tmp_path, train, test=tmp_path / "test.csv")


@pytest.mark.parametrize(
    ("classes", "found"),
    [
        (["01", "02", "A1"], ["02", "01"]),
        (["TRUE", "FALSE", "?!"], ["TRUE", "FALSE"]),
        ([3, 12], [12]),
    ],
)
def test_labels_of_a_test_table_are_read_as_those_of_the_training_table(tmp_path, classes, found):
    labels = [classes[n % len(classes)] for n in range(200)]
    train = pl.DataFrame({"a": RNG.normal(size=200), "y": labels})
    pl.DataFrame({"a": range(len(found)), "y": found}).write_csv(tmp_path / "test.csv")
    splits = loaded(tmp_path, train, test=tmp_path / "test.csv")
    names = [splits.test.class_names[index] for index in splits.test.labels]
    assert names == [str(label) for label in found]


def test_none_among_the_labels_of_frames():
    values = {"a": [1.0, 2.0, 3.0, 5.0], "y": ["u", None, "v", "u"]}
    for frame in (pl.DataFrame(values), pd.DataFrame(values)):
        with pytest.raises(DataError, match="1 of 4 rows of the data frame have no label"):
            load(frame, target="y")
        assert len(load(frame, target="y", skip_bad=True).train) == 3


def test_labels_that_are_several_values():
    frame = pl.DataFrame({"a": [1.0, 2.0, 3.0, 5.0], "y": [{"b": 1}, {"b": 2}] * 2})
    with pytest.raises(DataError, match=r"'y' of the data frame must hold one label.*, got Struct"):
        load(frame, target="y")


def test_frames_that_are_refused():
    twice = pd.DataFrame([[1.0, 2.0, "u"], [3.0, 1.0, "v"]], columns=[1, "1", "y"])
    with pytest.raises(DataError, match="several columns called '1'"):
        load(twice, target="y")


@pytest.mark.parametrize("suffix", ["parquet", "frame"])
def test_nan_among_the_labels(tmp_path, suffix):
    frame = pl.DataFrame({"a": [1.0, 2.0, 3.0, 5.0], "y": [0.0, float("nan"), 1.0, 0.0]})
    path = tmp_path / "x.parquet"
    frame.write_parquet(path)
    source = frame if suffix == "frame" else path
    with pytest.raises(DataError, match=r"1 of 4 rows of .* have no label"):
        load(source, target="y")
    splits = load(source, target="y", skip_bad=True)
    assert splits.train.class_names == ("0", "1")
    assert splits.train_names == ("0", "2", "3")
    assert splits.frame["a"].to_list() == [1.0, 3.0, 5.0]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pd.period_range("2020-01", periods=200, freq="D")[RNG.permutation(200)], "date"),
        (pd.cut(RNG.normal(size=200), 4), "category"),
        ([pd.Timestamp("2024-01-01"), "x"] * 100, "category"),
        (pd.Categorical(RNG.integers(0, 4, 200)), "number"),
        (pd.array([1, None] * 50 + [2, 3] * 50, dtype="Int64"), "number"),
    ],
)
def test_columns_that_only_pandas_has(values, kind):
    frame = pd.DataFrame({"a": values, "y": KINDS})
    assert load(frame, target="y").encoder.types == {"a": kind}


ZIPS = ["04398", "10115", "80331", "20095"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_leading_zeros_mean_a_code(tmp_path, suffix):
    frame = frame_of(a=RNG.normal(size=200), zip=ZIPS * 50)
    splits = loaded(tmp_path, frame, suffix)
    assert splits.encoder.types == {"a": "number", "zip": "category"}
    assert "zip = 04398" in splits.encoder.feature_names
    assert splits.notes == ()
    numbers = loaded(tmp_path, frame, suffix, types={"zip": "number"})
    assert numbers.encoder.feature_names == ["a", "zip"]


def test_a_leading_zero_in_any_row_means_a_code(tmp_path):
    """The first rows, from which a CSV file's types are taken, have none."""
    zips = ["10115", "80331"] * 6000 + ["04398"] * 2
    frame = pl.DataFrame({"zip": zips, "a": RNG.normal(size=12_002), "y": ["u", "v"] * 6001})
    assert "zip = 04398" in loaded(tmp_path, frame).encoder.feature_names
    odd = frame.with_columns(pl.Series("n", ["1"] * 12_001 + ["x"]))  # all is read as text first
    assert "zip = 04398" in loaded(tmp_path, odd).encoder.feature_names


def test_leading_zeros_of_labels_stay(tmp_path):
    frame = pl.DataFrame({"a": RNG.normal(size=200), "y": ["01", "2"] * 100})
    assert loaded(tmp_path, frame).train.class_names == ("01", "2")


def test_new_names_for_labels(tmp_path):
    frame = pl.DataFrame({"a": RNG.normal(size=200), "y": ["Y", "N", "yes", "N"] * 50})
    frame[:2].write_csv(tmp_path / "test.csv")
    new = {"Y": "Yes", "N": "No", "yes": "Yes"}
    splits = loaded(tmp_path, frame, map_labels=new, test=tmp_path / "test.csv")
    assert splits.train.class_names == ("No", "Yes")
    assert splits.train.labels[:4].tolist() == [1, 0, 1, 0]
    assert splits.test.labels.tolist() == [1, 0]
    with pytest.raises(
        DataError, match=r"`map_labels`: .* no label 'yess' \(did you mean 'yes'\?\)"
    ):
        loaded(tmp_path, frame, map_labels={"yess": "Yes"})
    numbers = pl.DataFrame({"a": RNG.normal(size=200), "y": [0, 1] * 100})
    assert loaded(tmp_path, numbers, map_labels={"1": "sick", "0": "well"}).train.class_names == (
        "sick",
        "well",
    )
    texts = (["good one", "bad one"] * 3, ["p", "n"] * 3)
    assert load(texts, map_labels={"p": "plus"}).train.class_names == ("n", "plus")


def test_new_names_for_labels_are_remembered(tmp_path):
    assert validated(ReadingOptions, {"map_labels": ("Y=Yes", "N=No=0")}).map_labels == {
        "Y": "Yes",
        "N": "No=0",
    }
    flags = ReadingFlags(map_labels=("Y=Yes", "N=No"))  # as --map-labels Y=Yes N=No
    assert flags.options.map_labels == {"Y": "Yes", "N": "No"}
    with pytest.raises(InvalidValueError, match="`map_labels`: expected LABEL=NEW, such as Y=Yes"):
        validated(ReadingOptions, {"map_labels": ("Y",)})
    frame_of(a=RNG.normal(size=200)).write_csv(tmp_path / "x.csv")
    origin = DataOrigin(data=str(tmp_path / "x.csv"), target="y", map_labels={"u": "up"})
    again = DataOrigin.model_validate_json(origin.model_dump_json())
    assert read(again.data, again.options).train.class_names == ("up", "v")


def test_unseen_categories_of_a_test_table(tmp_path):
    train = frame_of(a=RNG.normal(size=200), city=["Rome", "Oslo"] * 100)
    pl.DataFrame({"a": [0.0, 1.0], "city": ["Rome", "Bern"], "y": ["u", "v"]}).write_csv(
        tmp_path / "test.csv"
    )
    assert loaded(tmp_path, train, test=tmp_path / "test.csv").notes == (
        "column 'city': 1 of 2 rows have categories that the training data lacks: 'Bern'",
    )


@pytest.mark.parametrize(
    "options", [{"target": "spiecies"}, {"target": "y", "exclude": "Speces"}, {"target": "SPECIES"}]
)
def test_a_misspelled_column(tmp_path, options):
    pl.DataFrame({"a": [1, 2], "species": ["u", "v"], "y": ["u", "v"]}).write_csv(
        tmp_path / "x.csv"
    )
    with pytest.raises(DataError, match=r"\(did you mean 'species'\?\); it has the columns a, sp"):
        load(tmp_path / "x.csv", **options)
