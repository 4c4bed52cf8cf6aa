"""Theory without training: how low a training loss can get, and how low it should get."""

from collections.abc import Sequence

import torch

from noisebound.bounds import noise_bound
from noisebound.catalog import LossName, create_loss
from noisebound.estimation import GivenRate
from noisebound.paper.protocol.columns import Column
from noisebound.paper.protocol.methods import BOUNDED, label_of
from noisebound.paper.protocol.presets import PAPER
from noisebound.report.table import Cell, Row, Table, Value
from noisebound.training.objective import make_objective

_RATE, _CLASSES = 0.4, 2
_COMPARED = ("ce", "fce", "gce", "sce")
_PAPER = {"ce": (0.0, 0.673), "fce": (0.511, 0.673), "fce+b": (0.673, 0.673)}


def comparison_table() -> Table:
    """Return the paper's example: two separable classes with 40 % symmetric noise.

    The first figure is the loss of a model that has memorized the labels; the second is the loss of
    the best model that has not seen them.
    """
    rows: list[Row] = []
    records: list[dict[str, Value]] = []
    for name in _COMPARED:
        loss = create_loss(name, noise_rate=_RATE, num_classes=_CLASSES)
        floor = float(noise_bound(loss, _RATE, _CLASSES))
        label = torch.zeros(1, dtype=torch.long)
        lowest = float(loss(torch.tensor([[1e3, 0.0]], dtype=torch.float64), label))
        for method, attainable in ((name, lowest), (f"{name}+b", floor)):
            levels = (attainable, floor)
            paper = _PAPER.get(method)
            beside = ("", "") if paper is None else tuple(f"{level:.3f}" for level in paper)
            rows.append(
                Row(
                    label_of(method),
                    tuple(
                        Cell(f"{level:.3f}", theirs, level)
                        for level, theirs in zip(levels, beside, strict=True)
                    ),
                    is_shaded=LossName.parse(method).is_bounded,
                )
            )
            records.append(
                {
                    "method": method,
                    "lowest_attainable": attainable,
                    "optimal": floor,
                    "paper_lowest_attainable": paper[0] if paper else None,
                    "paper_optimal": paper[1] if paper else None,
                }
            )
    return Table(
        name="bound-comparison",
        title="Training loss on two separable classes with 40 % symmetric label noise",
        header=("loss", "lowest attainable", "optimal without seeing the labels"),
        rows=tuple(rows),
        records=tuple(records),
        notes=("in brackets the paper's",),
    )


def noise_bound_table(columns: Sequence[Column]) -> Table:
    """Return the noise-bound of the five losses on every column."""
    records: list[dict[str, Value]] = []
    rows = []
    for name in BOUNDED:
        cells = []
        for column in columns:
            config = PAPER.training(column, f"{name}+b", seed=0)
            noise = GivenRate(column.noise_rate, column.num_classes, column.bound_classes)
            level = make_objective(config, column.num_classes, 1, noise).bound
            assert level is not None
            cells.append(Cell(f"{level:.3f}", "", level))
            records.append(
                {
                    "loss": name,
                    "column": column.name,
                    "noise_rate": column.noise_rate,
                    "classes": column.bound_classes or column.num_classes,
                    "bound": level,
                }
            )
        rows.append(Row(label_of(name), tuple(cells)))
    return Table(
        name="bound-table",
        title="The noise-bound of each loss on each column",
        header=("loss", *(column.title for column in columns)),
        rows=tuple(rows),
        records=tuple(records),
        notes=("non-uniform EMNIST: c = 2 in the bound, as in the paper",),
    )
