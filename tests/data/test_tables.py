import gzip

import polars as pl
import pytest
import torch

from noisebound.data import DataError, TableEncoder, load

FRAME = pl.DataFrame(
    {
        "age": [20.0, None, 40.0, 60.0],
        "city": ["Rome", "Oslo", None, "Rome"],
        "member": [True, False, True, True],
        "kind": ["b", "a", "b", "a"],
    }
)


def write(frame, path):
    {"csv": frame.write_csv, "parquet": frame.write_parquet}[path.suffix[1:]](path)
    return path


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_columns_become_numbers(tmp_path, suffix):
    splits = load(write(FRAME, tmp_path / f"x.{suffix}"), target="kind")
    data = splits.train
    assert data.class_names == ("a", "b")
    assert data.labels.tolist() == [1, 0, 1, 0]
    assert splits.encoder.feature_names == [
        "age", "age is missing", "city = Oslo", "city = Rome", "city is missing", "member",
    ]  # fmt: skip
    age, is_missing = data.inputs[:, 0], data.inputs[:, 1]
    # 20, 40, 60: mean 40, deviation sqrt(800/3)
    torch.testing.assert_close(age, torch.tensor([-20.0, 0, 0, 20]) / (800 / 3) ** 0.5)
    assert is_missing.tolist() == [0, 1, 0, 0]
    assert data.inputs[:, 2:5].tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert splits.notes == ("column 'age': 1 missing numbers became the mean",)


def test_tsv_and_compressed_csv(tmp_path):
    (tmp_path / "x.tsv").write_text("a\tb\ty\n1\t2\tu\n3\t5\tv\n1\t1\tu\n2\t2\tv\n")
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"a,b,y\n1,2,u\n3,5,v\n1,1,u\n2,2,v\n"))
    one, other = (load(tmp_path / name, target="y").train for name in ("x.tsv", "x.csv.gz"))
    assert torch.equal(one.inputs, other.inputs)
    assert one.class_names == ("u", "v")


def test_numbers_as_classes_are_in_their_order(tmp_path):
    frame = pl.DataFrame({"x": [1, 2, 3, 4], "y": [10, 9, 10, 9]})
    data = load(write(frame, tmp_path / "x.csv"), target="y").train
    assert data.class_names == ("9", "10")
    assert data.labels.tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("text", ["", "NA", "N/A", "NaN", "nan", "null", "?"])
def test_words_for_missing(tmp_path, text):
    (tmp_path / "x.csv").write_text(f"a,y\n1,u\n{text},v\n3,u\n4,v\n")
    assert load(tmp_path / "x.csv", target="y").train.inputs[:, 1].tolist() == [0, 1, 0, 0]


def test_infinite_numbers_count_as_missing(tmp_path):
    frame = pl.DataFrame({"x": [1.0, float("inf"), 3.0, 4.0], "y": [0, 1, 0, 1]})
    inputs = load(write(frame, tmp_path / "x.parquet"), target="y").train.inputs
    assert torch.isfinite(inputs).all()
    assert inputs[:, 1].tolist() == [0, 1, 0, 0]


def test_dates_become_numbers(tmp_path):
    (tmp_path / "x.csv").write_text(
        "day,y\n2024-01-01,u\n2024-01-02,v\n2024-01-03,u\n2024-01-04,v\n"
    )
    day = load(tmp_path / "x.csv", target="y").train.inputs[:, 0]
    torch.testing.assert_close(day.diff(), torch.full((3,), 1.25**-0.5))


def test_a_late_fraction_is_a_number(tmp_path):
    rows = "".join(f"{i},u\n{i},v\n" for i in range(600))
    (tmp_path / "x.csv").write_text(f"a,y\n{rows}0.5,u\n")
    assert load(tmp_path / "x.csv", target="y").train.inputs.shape == (1201, 1)


def test_high_cardinality_is_reported(tmp_path):
    common = [f"c{i % 40:02}" for i in range(400)]
    frame = pl.DataFrame(
        {
            "id": [f"user-{i}" for i in range(400)],
            "city": common,
            "constant": ["same"] * 400,
            "empty": pl.Series([None] * 400, dtype=pl.String),
            "list": [[1, 2]] * 400,
            "x": [(7 * i) % 40 for i in range(400)],
            "y": ["u", "v"] * 200,
        }
    )
    splits = load(write(frame, tmp_path / "x.parquet"), target="y")
    notes = "\n".join(splits.notes)
    assert "'id' was left out: nearly every row has a text of its own (400 in 400)" in notes
    assert "'city' has 40 categories: the 32 most frequent (80% of the rows) are kept" in notes
    assert "'constant' never varies" in notes
    assert "'empty' is empty" in notes
    assert "'list' of type List(Int64) was left out" in notes
    assert splits.train.inputs.shape == (400, 32 + 1 + 1)
    assert splits.train.inputs[:, 32].sum() == 80  # the rows of the eight others


def test_encoder_survives_json_and_meets_new_rows():
    encoder = TableEncoder.fit(FRAME.drop("kind"))
    again = TableEncoder.model_validate_json(encoder.model_dump_json())
    assert again == encoder
    new = pl.DataFrame({"city": ["Bern"], "age": [40], "extra": [1], "member": [False]})
    features = dict(zip(again.feature_names, again.transform(new)[0].tolist(), strict=True))
    assert features["age"] == 0
    assert features["city = Rome"] == features["city = Oslo"] == features["city is missing"] == 0


def test_a_new_category_counts_as_rare():
    frame = pl.DataFrame({"city": [f"c{i % 40}" for i in range(400)]})
    encoder = TableEncoder.fit(frame)
    features = encoder.transform(pl.DataFrame({"city": ["never seen", None]}))
    assert encoder.feature_names[-1] == "city is another"
    assert features[:, -1].tolist() == [1, 0]
    assert features[:, :-1].sum() == 0


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (pl.DataFrame({"age": [1], "member": [True]}), "lacks the columns city"),
        (pl.DataFrame({"age": ["x"], "member": [True], "city": ["a"]}), "'age' must hold numbers"),
        (pl.DataFrame({"age": [1], "member": [True], "city": [[7]]}), "'city' must hold text"),
    ],
)
def test_new_rows_of_another_shape(frame, complaint):
    with pytest.raises(DataError, match=complaint):
        TableEncoder.fit(FRAME.drop("kind")).transform(frame)


def test_times_in_another_unit():
    frame = pl.DataFrame({"t": ["2024-01-01", "2024-01-02", "2024-01-04"]})
    days = frame.select(pl.col("t").str.to_date())
    encoder = TableEncoder.fit(days)
    for unit in ("ms", "us", "ns"):
        cast = days.cast(pl.Datetime(unit))
        assert torch.equal(encoder.transform(cast), encoder.transform(days))
    with pytest.raises(DataError, match="'t' must hold dates or times, got Int64"):
        encoder.transform(pl.DataFrame({"t": [1]}))


def test_constant_that_is_missing_at_times():
    encoder = TableEncoder.fit(pl.DataFrame({"x": [0.1, 0.1, 0.1, None]}))
    new = encoder.transform(pl.DataFrame({"x": [0.1, 0.2]}))
    torch.testing.assert_close(new[:, 0], torch.tensor([0.0, 0.1]))


def test_column_called_count(tmp_path):
    (tmp_path / "x.csv").write_text("count,y\na,0\nb,1\na,0\nb,1\n")
    assert load(tmp_path / "x.csv", target="y").encoder.feature_names == ["count = a", "count = b"]


@pytest.mark.parametrize("name", ["rows", "label", "count"])
def test_labels_in_a_column_of_any_name(tmp_path, name):
    frame = FRAME.rename({"kind": name})
    assert load(write(frame, tmp_path / "x.csv"), target=name).train.class_names == ("a", "b")


def test_other_separators(tmp_path):
    (tmp_path / "x.csv").write_text("a;b;y\n1;2,5;u\n3;4;v\n")
    data = load(tmp_path / "x.csv", target="y").train
    assert data.class_names == ("u", "v")


@pytest.mark.parametrize("rows", [2, 50])
def test_commas_in_the_names_of_a_file_of_semicolons(tmp_path, rows):
    lines = [f"{7 * n % 5},5;{n % 3};{'uv'[n % 2]}" for n in range(rows)]
    (tmp_path / "x.csv").write_text("\n".join(["price, EUR;area;y", *lines]))
    splits = load(tmp_path / "x.csv", target="y")
    assert splits.train.class_names == ("u", "v")
    assert splits.encoder.feature_names == ["price, EUR", "area"]


def test_ragged_line_does_not_change_the_separator(tmp_path):
    (tmp_path / "x.csv").write_text("a,y\n1;2,u\n3;4,v\n5;6,u,7\n")
    with pytest.raises(DataError, match="line 4 has 3 fields, and the header has 2"):
        load(tmp_path / "x.csv", target="y")


def test_byte_order_mark_and_quoted_lines(tmp_path):
    (tmp_path / "x.csv").write_text('\ufeffy,a\nu,"1"\n"v\nw",2\nu,3\n', encoding="utf-8")
    assert load(tmp_path / "x.csv", target="y").train.class_names == ("u", "v\nw")


def test_numbers_beyond_64_bits_as_classes(tmp_path):
    (tmp_path / "x.csv").write_text("a,y\n1,18446744073709551615\n2,1\n")
    assert load(tmp_path / "x.csv", target="y").train.class_names == ("1", "18446744073709551615")


def test_column_of_lists_where_text_was():
    encoder = TableEncoder.fit(pl.DataFrame({"x": ["a", "b"]}))
    with pytest.raises(DataError, match="'x' must hold text, got List"):
        encoder.transform(pl.DataFrame({"x": [[1], [2]]}))


def test_new_rows_may_lack_all_values_of_a_column():
    new = pl.DataFrame({"age": [None, None], "member": [True, True], "city": [None, None]})
    assert torch.isfinite(TableEncoder.fit(FRAME.drop("kind")).transform(new)).all()


@pytest.mark.parametrize(
    ("text", "target", "complaint"),
    [
        ("a,y\n1,u\n2,v\n", None, "name the column of labels: `target`; .* columns a, y"),
        ("a,y\n1,u\n2,v\n", "z", "no column 'z'; it has the columns a, y"),
        ("a,y\n1,u\n2,u\n", "y", "one class only, 'u'"),
        ("a,y\n1,u\n2,\n3,v\n", "y", "1 of 3 rows of .* have no label .*`skip_bad`"),
        ("a,y\n1,0.5\n2,1.5\n3,0.25\n4,9.5\n", "y", "got numbers like 0.5"),
        ("a,y\n" + "".join(f"{i},t{i}\n" for i in range(30)), "y", "30 distinct values in 30"),
        ("y,a,y\nu,1,v\nv,2,u\n", "y", "several columns called 'y'"),
        ("a,y\n", "y", "no rows"),
        ("", "y", "cannot be read"),
        ("a,y\n1,u\n2,v,w,x\n", "y", "cannot be read"),
        ("y\nu\nv\nu\nv\n", "y", "no column can be used as a feature"),
    ],
)
def test_broken_tables(tmp_path, text, target, complaint):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(DataError, match=complaint):
        load(tmp_path / "x.csv", target=target)


@pytest.mark.parametrize("blank", ["", " "])
def test_rows_without_a_label_are_left_out_on_request(tmp_path, blank):
    (tmp_path / "x.csv").write_text(f"a,y\n1,u\n2,{blank}\n3,v\n5,u\n4,v\n")
    with pytest.raises(DataError, match=r"1 of 5 rows of .* have no label"):
        load(tmp_path / "x.csv", target="y")
    splits = load(tmp_path / "x.csv", target="y", skip_bad=True)
    assert len(splits.train) == 4
    assert splits.train.class_names == ("u", "v")
    assert splits.notes == ("1 rows without a label were left out",)


def test_truncated_parquet(tmp_path):
    path = write(FRAME, tmp_path / "x.parquet")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"x\.parquet cannot be read"):
        load(path, target="kind")
