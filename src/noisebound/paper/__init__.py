"""Reproduction of the paper: columns, methods, presets, a runner, and all tables and figures.

The command line needs these names before it imports torch.
"""

from typing import Literal, TypeAlias

Target: TypeAlias = Literal[
    "table1", "table2", "open-set", "own", "offsets", "rate-sweep", "bound-table"
]
"""The tables that can be reproduced."""

FigureName: TypeAlias = Literal["sensitivity", "noise-models"]
"""The figures that need no training."""

Weights: TypeAlias = Literal["last", "averaged"]
"""The weights that a table evaluates: of the last epoch, as in the paper, or averaged."""
