"""Tables without training: the lowest attainable losses, and the noise-bounds."""

from collections.abc import Sequence
from itertools import product

import torch

from noisebound.bounds import noise_bound
from noisebound.catalog import create_loss
from noisebound.estimation import GivenRate
from noisebound.paper.frame import Record, pivot
from noisebound.paper.presets import PAPER
from noisebound.paper.protocol import BOUNDED, Column, label_of
from noisebound.report.table import Cell, Table, number_cell
from noisebound.training.objective import make_objective

_RATE, _CLASSES = 0.4, 2
_COMPARED = ("ce", "fce", "gce", "sce")
_PAPER = {"ce": (0.0, 0.673), "fce": (0.511, 0.673), "fce+b": (0.673, 0.673)}


def comparison_table() -> Table:
    """Return the paper's example: two separable classes with 40 % symmetric noise.

    The first number is the loss of a model that has memorized the labels. The second is that of the
    best model that has not seen them.
    """
    records: list[Record] = []
    for name in _COMPARED:
        loss = create_loss(name, noise_rate=_RATE, num_classes=_CLASSES)
        floor = float(noise_bound(loss, _RATE, _CLASSES))
        logits = torch.tensor([[1e3, 0.0]], dtype=torch.float64)
        lowest = float(loss(logits, torch.zeros(1, dtype=torch.long)))
        for method, attainable in ((name, lowest), (f"{name}+b", floor)):
            theirs = _PAPER.get(method, (None, None))
            records.append(
                {
                    "method": method,
                    "lowest_attainable": attainable,
                    "optimal": floor,
                    "paper_lowest_attainable": theirs[0],
                    "paper_optimal": theirs[1],
                }
            )
    headings = {
        "lowest_attainable": "lowest attainable",
        "optimal": "optimal without seeing the labels",
    }
    methods = {each["method"]: label_of(each["method"]) for each in records}
    cells = {}
    for each, name in product(records, headings):
        paper = each[f"paper_{name}"]
        beside = "" if paper is None else f"{paper:.3f}"
        cells[each["method"], name] = Cell(f"{each[name]:.3f}", beside, each[name])
    return Table(
        name="bound-comparison",
        title="Training loss on two separable classes with 40 % symmetric label noise",
        header=("loss", *headings.values()),
        rows=pivot(cells, methods, headings, shaded=[m for m in methods if m.endswith("+b")]),
        records=tuple(records),
        notes=("in brackets the paper's",),
    )


def noise_bound_table(columns: Sequence[Column]) -> Table:
    """Return the noise-bounds of the five losses on each column."""
    records: list[Record] = []
    for name, column in product(BOUNDED, columns):
        config = PAPER.training(column, f"{name}+b", seed=0)
        noise = GivenRate(column.noise_rate, column.num_classes, column.bound_classes)
        records.append(
            {
                "loss": name,
                "column": column.name,
                "noise_rate": column.noise_rate,
                "classes": column.bound_classes or column.num_classes,
                "bound": make_objective(config, column.num_classes, 1, noise).bound,
            }
        )
    return Table(
        name="bound-table",
        title="The noise-bound of each loss on each column",
        header=("loss", *(column.title for column in columns)),
        rows=pivot(
            {(r["loss"], r["column"]): number_cell(r["bound"], ".3f") for r in records},
            {name: label_of(name) for name in BOUNDED},
            [column.name for column in columns],
        ),
        records=tuple(records),
        notes=("non-uniform EMNIST: c = 2 in the bound, as in the paper",),
    )
