"""Options that several commands share."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

DataDir = Annotated[
    Path | None,
    Parameter(help="The folder to look for published files in first [default: $NOISEBOUND_DATA]."),
]
Target = Annotated[str | None, Parameter(help="The column, or the array, that holds the labels.")]
ImageSize = Annotated[
    int | None,
    Parameter(
        validator=validators.Number(gte=1),
        help="The height and width, in pixels, to which images of a folder are brought.",
    ),
]
SkipBad = Annotated[
    bool,
    Parameter(negative=(), help="Leave out images that cannot be read, and rows without a label."),
]
Threads = Annotated[
    int | None,
    Parameter(
        validator=validators.Number(gte=1),
        help="The number of threads per device [default: this process's share of the cores].",
    ),
]
QuoteFormulas = Annotated[
    bool,
    Parameter(
        help="Write an apostrophe before text in a CSV file that a spreadsheet would take for a "
        "formula, such as a class that is called =1+1."
    ),
]
BackboneName = Annotated[
    str | None,
    Parameter(
        help="A pretrained encoder whose embeddings are used: hf:NAME_OR_FOLDER, onnx:FILE or "
        "timm:NAME. They are made once and cached."
    ),
]
Json = Annotated[bool, Parameter(negative=(), help="Print JSON.")]


def command_line() -> str:
    """Return the command as it was typed, without --resume, for pages that say how to repeat it."""
    return shlex.join(["noisebound", *(word for word in sys.argv[1:] if word != "--resume")])
