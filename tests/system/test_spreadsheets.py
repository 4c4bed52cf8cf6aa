import polars as pl
import pytest
from hypothesis import given, strategies as st

from noisebound.runs.predict import write_frame
from noisebound.system.spreadsheets import quote_formulas

TRIGGERS = "=+-@\t\r\n＝＋－＠"
FORMULA = "=cmd|' /C calc'!A0"
texts = st.text(st.sampled_from(f"'{TRIGGERS}aé1.,\" \U0001f600"), max_size=6)


@given(st.lists(texts, min_size=1))
def test_no_formula_is_left_and_no_two_texts_become_the_same(cells):
    quoted = quote_formulas(pl.DataFrame({"label": cells}))["label"]
    assert len(set(quoted)) == len(set(cells))
    for text in quoted:
        assert not text.startswith(tuple(TRIGGERS)) or _is_number(text)


def _is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip()


@pytest.mark.parametrize("label", ["-1", "+1", "-2.5e-3", "cat", "'tis", "", "a=b"])
def test_other_text_is_unchanged(label):
    assert quote_formulas(pl.DataFrame({"label": [label]}))["label"].to_list() == [label]


def test_other_columns_and_missing_texts_stay():
    frame = pl.DataFrame({"position": [1, 2], "label": [None, FORMULA], "score": [-1.5, 2.0]})
    quoted = quote_formulas(frame)
    assert quoted.drop("label").equals(frame.drop("label"))
    assert quoted["label"].to_list() == [None, f"'{FORMULA}"]


@pytest.mark.parametrize("is_quoted", [True, False])
def test_a_csv_is_safe_unless_asked_otherwise(tmp_path, is_quoted):
    frame = pl.DataFrame({"example": ["@SUM(A1).png"], "label": [FORMULA]})
    write_frame(frame, tmp_path / "out.csv", quotes_formulas=is_quoted)
    (found,) = pl.read_csv(tmp_path / "out.csv").rows()
    mark = "'" if is_quoted else ""
    assert found == (f"{mark}@SUM(A1).png", f"{mark}{FORMULA}")


def test_parquet_is_exact(tmp_path):
    frame = pl.DataFrame({"label": [FORMULA]})
    write_frame(frame, tmp_path / "out.parquet")
    assert pl.read_parquet(tmp_path / "out.parquet").equals(frame)
