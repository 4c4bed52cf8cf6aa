"""Protect tables from spreadsheets, which run cells that look like formulas.

A spreadsheet takes a cell such as ``=cmd|' /C calc'!A0`` for a formula, even if it is the name of a
class. An apostrophe before it makes it text. Text that begins with apostrophes and then a sign of a
formula gets one more, so that no two texts become the same.
"""

import polars as pl

# The signs that Excel, LibreOffice and Google Sheets begin formulas with, in both widths, and the
# white space that they skip.
_FORMULA = r"^'*[=+\-@\t\r\n＝＋－＠]"
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


def quote_formulas(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the table with an apostrophe before each text that a spreadsheet would compute.

    Numbers such as ``-1`` do not change, even if they are names of classes.

    Example:
        >>> quote_formulas(pl.DataFrame({"label": ["=1+1", "-1", "'tis"]}))["label"].to_list()
        ["'=1+1", '-1', "'tis"]
    """
    text = pl.col(pl.String)
    is_formula = text.str.contains(_FORMULA) & ~text.str.contains(_NUMBER)
    return frame.with_columns(pl.when(is_formula).then("'" + text).otherwise(text).name.keep())
