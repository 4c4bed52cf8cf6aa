"""The experiment on estimates: cells are done once, and tables say what they hold."""

import json

import pytest

from noisebound.errors import InvalidValueError
from noisebound.paper.protocol.sources import DataSources
from noisebound.paper.reproduce_estimates import EstimatesRequest, reproduce_estimates
from noisebound.paper.runner.workers import Workers

ONE = ["spheres-symmetric-0.2"]


def request(**changes):
    return EstimatesRequest(
        "dev", (0,), DataSources(), **({"columns": ONE, "methods": ["plain"]} | changes)
    )


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    out = tmp_path_factory.mktemp("estimates")
    return out, reproduce_estimates(request(), out, Workers(jobs=1, threads=1))


def test_every_part_is_measured(outcome):
    out, found = outcome
    assert not found.failures
    assert [table.name for table in found.tables] == ["rates", "suspects", "accuracy"]
    rates, suspects, accuracy = (table.records[0] for table in found.tables)
    assert rates["noise_rate"] == pytest.approx(0.2, abs=0.04)
    assert rates["one_set_low"] <= rates["one_set_rate"] <= rates["one_set_high"]
    assert suspects["auroc"] >= suspects["self_confidence_auroc"] - 1e-9
    assert 0.5 < accuracy["accuracy"] <= 1
    assert json.loads((out / "rates.json").read_text())["records"]


def test_what_is_done_is_not_done_again(outcome):
    out, _ = outcome
    kept = out / "cells" / f"{ONE[0]}-0-accuracy-plain.json"
    kept.write_text(json.dumps({"accuracy": 0.25, "chosen": ""}))
    again = reproduce_estimates(request(part="accuracy"), out, Workers(jobs=1, threads=1))
    assert again.tables[0].records[0]["accuracy"] == 0.25


def test_a_cell_that_fails_does_not_stop_the_others(tmp_path):
    asked = request(columns=["cifar10-none"], part="estimates")
    found = reproduce_estimates(asked, tmp_path, Workers(jobs=1, threads=1))
    (error,) = found.failures.values()
    assert "`backbone`" in error
    assert not found.tables


def test_cells_are_those_that_were_asked_for():
    names = [cell.key for cell in request(part="accuracy", methods=["auto", "plain"]).cells()]
    assert names == [f"{ONE[0]}-0-accuracy-auto", f"{ONE[0]}-0-accuracy-plain"]
    with pytest.raises(InvalidValueError, match="unknown method 'forest'"):
        request(methods=["forest"]).cells()
