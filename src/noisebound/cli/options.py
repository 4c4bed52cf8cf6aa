"""Options that several commands have."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

DataDir = Annotated[
    Path | None,
    Parameter(help="Where published files are looked for first [default: $NOISEBOUND_DATA]."),
]
Target = Annotated[str | None, Parameter(help="The column, or the array, that holds the labels.")]
ImageSize = Annotated[
    int | None,
    Parameter(
        validator=validators.Number(gte=1),
        help="Height and width to which a folder's images are brought.",
    ),
]
SkipBad = Annotated[
    bool,
    Parameter(negative=(), help="Leave out images that cannot be read, and rows without a label."),
]
Json = Annotated[bool, Parameter(negative=(), help="Print JSON.")]


def command_line() -> str:
    """The command as it was given, for a page that says how to repeat it from the beginning."""
    return shlex.join(["noisebound", *(word for word in sys.argv[1:] if word != "--resume")])
