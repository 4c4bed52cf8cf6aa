"""Tables as files: common forms, and files that would fill the memory."""

import gzip

import polars as pl
import pytest

from noisebound.data import DataError, load

DRINKS = ("caf\xe9", "th\xe9")
ROWS = [f"{i % 7}.5,{DRINKS[i % 3 == 0]},{'u' if i % 2 else 'v'}" for i in range(40)]
TEXT = "\n".join(["a,drink,y", *ROWS]) + "\n"


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16"])
def test_encodings(tmp_path, encoding):
    (tmp_path / "x.csv").write_bytes(TEXT.encode(encoding))
    splits = load(tmp_path / "x.csv", target="y", encoding=encoding)
    assert splits.encoder.feature_names == ["a", "drink = caf\xe9", "drink = th\xe9"]


def test_a_file_that_is_not_utf8_says_so(tmp_path):
    (tmp_path / "x.csv").write_bytes(TEXT.encode("latin-1"))
    message = r"x\.csv is not written in UTF-8: .*latin-1 or cp1252: `encoding`"
    with pytest.raises(DataError, match=message):
        load(tmp_path / "x.csv", target="y")
    for name in ("klingon", "rot13", "base64", "undefined", "a\0b"):
        with pytest.raises(DataError, match="`encoding` must be a name such as utf-8"):
            load(tmp_path / "x.csv", target="y", encoding=name)
    (tmp_path / "y.csv").write_text("a,y\n\N{SNOWMAN},u\n")
    with pytest.raises(DataError, match="is not written in ascii"):
        load(tmp_path / "y.csv", target="y", encoding="ascii")


@pytest.mark.parametrize("packed", [False, True])
def test_json_lines_that_are_not_utf8_say_so(tmp_path, packed):
    lines = ['{"a": 1, "y": "u"}', '{"a": 2, "y": "caf\xe9"}', '{"a": 3, "y": "u"}']
    content = "\n".join(lines).encode("latin-1")
    path = tmp_path / ("x.jsonl.gz" if packed else "x.jsonl")
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(DataError, match=r"not written in UTF-8: .*`encoding`"):
        load(path, target="y")
    assert load(path, target="y", encoding="latin-1").train.class_names == ("caf\xe9", "u")


def test_ragged_lines(tmp_path):
    (tmp_path / "x.csv").write_text('a,y\n1,u\n"2\n3",v\n4,u,more,and more\n5,v\n6,u\n')
    message = r"the record that ends in line 5 has 4 fields, and the header has 2; .*remove "
    with pytest.raises(DataError, match=message):
        load(tmp_path / "x.csv", target="y")


def test_rows_after_one_that_was_left_out_keep_their_numbers(tmp_path):
    lines = [f"{7 * n % 11},{'uv'[n % 2]}" for n in range(12)]
    lines[5], lines[8] = "6,", ""
    (tmp_path / "x.csv").write_text("\n".join(["a,y", *lines]))
    splits = load(tmp_path / "x.csv", target="y", skip_bad=True, test=tmp_path / "x.csv")
    assert splits.train_names == ("0", "1", "2", "3", "4", "6", "7", "9", "10", "11")
    assert splits.notes[0] == "2 rows without a label were left out"
    assert len(splits.test) == 10


def test_a_text_far_below_many_numbers(tmp_path):
    rows = "".join(f"{i % 7},{i % 5},{'u' if i % 2 else 'v'}\n" for i in range(300))
    (tmp_path / "x.csv").write_text(f"a,b,y\n{rows}2.5,many,u\n")
    splits = load(tmp_path / "x.csv", target="y")
    assert splits.encoder.types == {"a": "number", "b": "number"}
    assert splits.notes[0] == (
        "column 'b': 1 values such as 'many' are not numbers and count as missing"
    )


@pytest.mark.parametrize("words", [("True", "False"), ("TRUE", "FALSE"), ("true", "false")])
def test_truth_values_of_a_file_that_is_read_as_text_first(tmp_path, words):
    rows = "".join(f"{words[i % 3 == 0]},{i % 5},{'uv'[i % 2]}\n" for i in range(300))
    (tmp_path / "x.csv").write_text(f"a,b,y\n{rows}{words[0]},2.5,u\n")
    splits = load(tmp_path / "x.csv", target="y")
    assert splits.encoder.types == {"a": "number", "b": "number"}
    is_true = [i % 3 != 0 for i in range(300)] + [True]
    assert (splits.train.inputs[:, 0] > 0).tolist() == is_true


@pytest.mark.parametrize("suffix", ["xlsx", "jsonl"])
def test_excel_and_json_lines(tmp_path, suffix):
    frame = pl.DataFrame({"a": [1.5, 2.0, None, 4.0], "b": ["x", "y", "x", "x"], "y": [0, 1, 0, 1]})
    path = tmp_path / f"x.{suffix}"
    if suffix == "xlsx":
        frame.write_excel(path)
    else:
        frame.write_ndjson(path)
    splits = load(path, target="y")
    assert splits.encoder.feature_names == ["a", "a is missing", "b = x", "b = y"]
    assert splits.train.class_names == ("0", "1")


def test_a_broken_excel_file(tmp_path):
    (tmp_path / "x.xlsx").write_bytes(b"no workbook")
    with pytest.raises(DataError, match=r"x\.xlsx cannot be read"):
        load(tmp_path / "x.xlsx", target="y")


def test_a_compressed_table_that_would_fill_the_disk(tmp_path, monkeypatch):
    rows = b"0.0,u\n1.0,v\n" * 50_000
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"a,y\n" + rows))
    monkeypatch.setattr("noisebound.data.files._ALWAYS_ALLOWED", 100_000)
    with pytest.raises(
        DataError, match=r"would unpack to .* or more.*: if you trust it, unpack it"
    ):
        load(tmp_path / "x.csv.gz", target="y")
    monkeypatch.setattr("noisebound.data.files._ALWAYS_ALLOWED", 1_000_000)
    assert len(load(tmp_path / "x.csv.gz", target="y").train) == 100_000


def test_spaces_around_the_names_of_columns(tmp_path):
    (tmp_path / "x.csv").write_text("code , size, y \n" + "01, 2.5,u\n02, 3.5,v\n" * 10)
    splits = load(tmp_path / "x.csv", target="y", types={"code": "category"})
    assert splits.encoder.feature_names == ["code = 01", "code = 02", "size"]
