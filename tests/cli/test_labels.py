"""``noisebound labels`` and ``noisebound fit --corrections``, from files to files."""

import json

import numpy as np
import polars as pl
import pytest

from noisebound.cli import app
from noisebound.errors import DataError
from noisebound.runs import load_run

pytestmark = pytest.mark.filterwarnings("ignore::noisebound.training.UnknownNoiseWarning")


def call(*words):
    app([str(word) for word in words], result_action="return_value")


@pytest.fixture
def fitted(tmp_path):
    generator = np.random.default_rng(0)
    labels = np.array(["no", "yes"])[np.arange(150) % 2]
    table = pl.DataFrame({"size": generator.normal(size=150) + np.arange(150) % 2, "y": labels})
    table.write_csv(tmp_path / "data.csv")
    quick = ("--target", "y", "--epochs", 2, "--model", "linear", "--noise-rate", 0.1)
    call("fit", tmp_path / "data.csv", "--out", tmp_path / "run", *quick)
    return tmp_path


def test_from_decisions_to_labels_to_a_second_run(fitted, capsys):
    run = load_run(fitted / "run")
    run.decide(0, "yes", by="Ada")
    run.decide(1, None)
    call("labels", fitted / "run", "--out", fitted / "labels.csv", "--drop-unusable")
    table = pl.read_csv(fitted / "labels.csv")
    assert len(table) == 149
    assert table.row(0, named=True)["corrected"] == "yes"
    assert "1 are corrected" in capsys.readouterr().out
    call(
        *("fit", fitted / "data.csv", "--out", fitted / "again", "--target", "y"),
        *("--epochs", 2, "--model", "linear", "--noise-rate", 0.1),
        *("--corrections", fitted / "run" / "decisions.jsonl"),
    )
    used = "2 examples were checked: 1 labels corrected, 0 confirmed, 1 examples left out"
    assert used in capsys.readouterr().out
    assert "Before and after" in (fitted / "again" / "report.html").read_text()


def test_other_tools_and_back(fitted, capsys):
    for tool in ("label-studio", "argilla"):
        call("labels", fitted / "run", "--out", fitted / f"{tool}.json", "--format", tool)
    assert (fitted / "label-studio.xml").read_text().startswith("<View>")
    records = json.loads((fitted / "argilla.json").read_text())
    assert len(records) == 150
    records[0]["responses"] = {"label": [{"value": "yes", "user_id": "u"}]}
    (fitted / "export.json").write_text(json.dumps(records))
    call("labels", fitted / "run", "--read", fitted / "export.json")
    assert "1 decisions were read" in capsys.readouterr().out
    assert len(load_run(fitted / "run").decisions) == 1


def test_ids_may_be_named_after_the_training(fitted):
    sizes = pl.read_csv(fitted / "data.csv")["size"].cast(pl.String).to_list()
    for command in ("labels", "suspects"):
        call(command, fitted / "run", "--out", fitted / f"{command}.csv", "--id", "size")
        table = pl.read_csv(fitted / f"{command}.csv", schema_overrides={"id": pl.String})
        assert table.columns[:2] == ["example", "id"]
        assert table["id"].to_list() == [sizes[row] for row in table["example"]]
    page = (fitted / "suspects.html").read_text()
    assert f"{table['id'][0]} (#{table['example'][0]})" in page
    with pytest.raises(DataError, match="has no column 'sizes'"):
        load_run(fitted / "run").training_data().named_by("sizes")
