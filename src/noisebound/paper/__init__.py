"""The paper's protocol: its columns, methods and presets, a runner, and every table and figure.

The names here serve the command line, which must not import torch to print its help.
"""

from typing import Literal, TypeAlias

Target: TypeAlias = Literal[
    "table1", "table2", "open-set", "own", "offsets", "rate-sweep", "bound-table"
]
"""The tables that can be reproduced."""

FigureName: TypeAlias = Literal["sensitivity", "noise-models", "rate-sweep"]
"""The figures that can be drawn."""

Weights: TypeAlias = Literal["last", "averaged"]
"""The weights that a table evaluates: the last epoch's, as in the paper, or the averaged ones."""
