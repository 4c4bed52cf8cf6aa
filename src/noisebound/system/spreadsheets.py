"""Protect tables from spreadsheets, which run cells that look like formulas.

A spreadsheet takes a cell such as ``=cmd|' /C calc'!A0`` for a formula, even if it is the name of a
class. An apostrophe before it makes it text. To undo this, one apostrophe is removed from each text
that begins with apostrophes and then a sign of a formula.
"""

import polars as pl

# The signs that Excel, LibreOffice and Google Sheets begin formulas with, in both widths, and the
# white space that they skip.
_SIGNS = r"[=+\-@\t\r\n＝＋－＠]"
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


def quote_formulas(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the table with an apostrophe before each text that a spreadsheet would compute.

    Numbers such as ``-1`` do not change, even if they are names of classes.

    Example:
        >>> quote_formulas(pl.DataFrame({"label": ["=1+1", "-1", "'tis"]}))["label"].to_list()
        ["'=1+1", '-1', "'tis"]
    """
    return frame.with_columns(map(_quoted, _text_columns(frame)))


def unquote_formulas(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the table as it was before :func:`quote_formulas`.

    Example:
        >>> quoted = quote_formulas(pl.DataFrame({"label": ["=1+1", "'=1+1", "-1"]}))
        >>> unquote_formulas(quoted)["label"].to_list()
        ['=1+1', "'=1+1", '-1']
    """
    return frame.with_columns(map(_unquoted, _text_columns(frame)))


def _text_columns(frame: pl.DataFrame) -> list[pl.Expr]:
    return [pl.col(name) for name, dtype in frame.schema.items() if dtype == pl.String]


def _quoted(text: pl.Expr) -> pl.Expr:
    is_formula = text.str.contains(f"^'*{_SIGNS}") & ~text.str.contains(_NUMBER)
    return pl.when(is_formula).then(pl.lit("'") + text).otherwise(text).name.keep()


def _unquoted(text: pl.Expr) -> pl.Expr:
    is_quoted = text.str.contains(f"^'+{_SIGNS}")
    return pl.when(is_quoted).then(text.str.slice(1)).otherwise(text).name.keep()
