"""Options that several commands share."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter, validators
from pydantic import ValidationInfo, field_validator

from noisebound.data import DataOrigin, ReadingOptions
from noisebound.data.options import reading_options

DataDir = Annotated[
    Path | None,
    Parameter(help="The folder to look for published files in first [default: $NOISEBOUND_DATA]."),
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
Encoding = Annotated[
    str | None,
    Parameter(help="How a table or text file writes letters as bytes, such as latin-1."),
]
_SEVERAL = Parameter(consume_multiple=True, negative=(), show_default=False)
Names = Annotated[tuple[str, ...], _SEVERAL]


class ReadingFlags(ReadingOptions):
    """How to read DATA, as options of a command."""

    text: Names = ()
    exclude: Names = ()
    types: Names = ()  # type: ignore[assignment]  # COLUMN=TYPE, as words of a command line
    map_labels: Names = ()  # type: ignore[assignment]  # LABEL=NEW
    merge_labels: Annotated[bool, Parameter(negative=())] = False
    image_size: Annotated[int | None, Parameter(validator=validators.Number(gte=1))] = None
    skip_bad: Annotated[bool, Parameter(negative=())] = False

    @field_validator("types", "map_labels", mode="before")
    @classmethod
    def _from_pairs(cls, given: Any, info: ValidationInfo) -> Any:
        return given

    @property
    def options(self) -> ReadingOptions:
        """How to read DATA."""
        return reading_options(self.model_dump())  # type: ignore[arg-type]

    def origin(self, data: str) -> DataOrigin:
        """Return the data with how to read it."""
        return DataOrigin(data=data, **self.options.model_dump())


Reading = Annotated[ReadingFlags | None, Parameter(name="*")]
Json = Annotated[bool, Parameter(negative=(), help="Print JSON.")]


def command_line() -> str:
    """Return the command as it was typed, without --resume, for pages that say how to repeat it."""
    return shlex.join(["noisebound", *(word for word in sys.argv[1:] if word != "--resume")])
