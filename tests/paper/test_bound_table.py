"""The paper's example, and the bounds that its tables were trained against."""

import pytest

import noisebound as nb
from noisebound.paper.bound_table import comparison_table, noise_bound_table
from noisebound.paper.protocol import COLUMNS


def test_the_papers_example():
    records = {record["method"]: record for record in comparison_table().records}
    for method in ("ce", "fce", "fce+b"):
        record = records[method]
        for name in ("lowest_attainable", "optimal"):
            assert record[name] == pytest.approx(record[f"paper_{name}"], abs=5e-4)


def test_bounds_by_column():
    table = noise_bound_table(tuple(COLUMNS.values()))
    found = {(record["loss"], record["column"]): record for record in table.records}
    assert len(found) == 5 * len(COLUMNS)
    assert found["sce", "cifar100-0.4"]["bound"] == pytest.approx(
        nb.noise_bound(nb.SymmetricCrossEntropy(), 0.4, 100)
    )
    # 0.6 with two classes is 0.4 with two classes
    assert found["ce", "nonuniform-emnist-0.6"]["bound"] == pytest.approx(
        nb.noise_bound(nb.CrossEntropy(), 0.4, 2)
    )
