"""The research scripts run: each at its smallest scale."""

import importlib

import polars as pl
import pytest

from noisebound.estimation import UnknownNoiseWarning

SCRIPTS = [
    ("contests", "beyond"),
    ("contests", "backward"),
    ("contests", "losses"),
    ("contests", "bounds"),
    ("contests", "pretrained"),
    ("granularity", None),
    ("estimates", "rates"),
    ("estimates", "suspects"),
    ("estimates", "accuracy"),
    ("rules", None),
    ("review", None),
    ("memorizing", None),
    ("twins", None),
    ("annotators", None),
    ("multi_label", "suspects"),
    ("multi_label", "training"),
    ("tokens", None),
]


@pytest.mark.filterwarnings(f"ignore::{UnknownNoiseWarning.__module__}.UnknownNoiseWarning")
@pytest.mark.parametrize(("script", "part"), SCRIPTS, ids=lambda each: str(each))
def test_quick(script, part, tmp_path, capsys):
    arguments = [*([part] if part else []), "--quick", "--out", str(tmp_path)]
    main = importlib.import_module(script).main
    main(arguments)
    shown = capsys.readouterr().out
    frame = pl.read_csv(tmp_path / f"{part or script}.csv")
    assert len(frame) > 0
    assert "| --- |" in shown or "|---|" in shown
    main(arguments)  # finished cells and runs are not repeated
    assert capsys.readouterr().out == shown
