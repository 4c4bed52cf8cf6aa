"""The demo, for two epochs: it runs, and prints a row for each loss."""

import runpy
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits.py"


def test_prints_a_row_for_each_loss(capsys):
    names = runpy.run_path(str(EXAMPLE), run_name="digits")
    names["main"].__globals__["EPOCHS"] = 2
    names["main"]()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("digits: 1257 training images")
    assert [line.split()[0].lower() for line in lines[2:]] == list(names["NAMES"])
