"""Options that several commands share, each declared once."""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter, validators
from pydantic import BaseModel, ValidationInfo, field_validator

from noisebound.data.options import ReadingOptions, validated
from noisebound.errors import InvalidValueError

if TYPE_CHECKING:
    from noisebound.data import DataOrigin, Splits
    from noisebound.runs import Run

Source = Annotated[
    str,
    Parameter(
        help="The name of a data set; or a folder of images or of .txt files; or a CSV, TSV, "
        "JSONL, Parquet, Excel, npz or npy file."
    ),
]
RunPath = Annotated[Path, Parameter(help="The folder that `noisebound fit` wrote.")]
TrainingSource = Annotated[
    str | None,
    Parameter(help="The data that the run was trained on [default: the data that the run names]."),
]
DataDir = Annotated[
    Path | None,
    Parameter(help="The folder to look for published files in first [default: $NOISEBOUND_DATA]."),
]
SkipBad = Annotated[
    bool,
    Parameter(
        negative=(),
        help="Leave out images that cannot be read, lines with too many fields, and rows without a "
        "label.",
    ),
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
    str,
    Parameter(
        metavar="ENCODER",
        help="A pretrained encoder whose embeddings are used: hf:NAME_OR_FOLDER, onnx:FILE, "
        "timm:NAME, package:NAME or none. They are made once and cached. auto finds one for a "
        "folder of images and for texts.",
    ),
]
Encoding = Annotated[
    str | None,
    Parameter(
        metavar="NAME",
        help="The character encoding of a table or text file, such as latin-1 [default: UTF-8].",
    ),
]
Json = Annotated[bool, Parameter(negative=(), help="Print JSON.")]
_SEVERAL = Parameter(consume_multiple=True, negative=(), metavar="COLUMN...")
Columns = Annotated[tuple[str, ...], _SEVERAL]


def as_share(given: Any) -> Any:
    """Return a percentage, such as ``15%``, as a share of one; leave anything else as it is."""
    if not isinstance(given, str):
        return given
    try:
        number = float(given.removesuffix("%"))
    except ValueError:
        return given
    if given.endswith("%"):
        return number / 100
    if 1 < number <= 100:
        raise InvalidValueError(
            f"a rate lies between 0 and 1: pass {number / 100:g} or {number:g}%"
        )
    return given


def arrange(options: type[BaseModel], shown: Mapping[str, Parameter]) -> None:
    """Change how the fields of a model, which are options of a command, appear in its help.

    Args:
        options: a model of its own for the command
        shown: by the name of a field, what differs from the declaration of the field
    """
    for name, parameter in shown.items():
        field = options.model_fields[name]
        field.metadata = [*field.metadata, parameter]


class ReadingFlags(ReadingOptions):
    """How to read DATA, as options of a command."""

    types: Annotated[Columns, Parameter(metavar="COLUMN=TYPE...")] = ()  # type: ignore[assignment]
    map_labels: Annotated[Columns, Parameter(metavar="LABEL=NEW...")] = ()  # type: ignore[assignment]

    @field_validator("types", "map_labels", mode="before")
    @classmethod
    def _from_pairs(cls, given: Any, info: ValidationInfo) -> Any:
        return given

    @property
    def options(self) -> ReadingOptions:
        """How to read DATA."""
        return validated(ReadingOptions, self.model_dump())

    def origin(self, data: str) -> "DataOrigin":
        """Return the data with how to read it."""
        from noisebound.data import DataOrigin

        return DataOrigin(data=data, **self.options.model_dump())

    def load_run(self, path: Path, data: str | None) -> "tuple[Run, Splits]":
        """Return a run and its training data: from ``data``, or from where the run read it."""
        from noisebound.runs import load_run

        if data is None:
            self.refuse_all_but("data_dir", "id", what="data that is not named beside it")
        run = load_run(path)
        origin = run.folder.read_origin() if data is None else self.origin(data)
        if data is None and self.data_dir is not None:
            origin = origin.model_copy(update={"data_dir": self.data_dir})
        return run, run.load_again(origin).named_by(self.id)


arrange(
    ReadingFlags,
    dict.fromkeys(("target", "id"), Parameter(metavar="COLUMN"))
    | dict.fromkeys(("text", "exclude"), _SEVERAL)
    | dict.fromkeys(("merge_labels", "skip_bad"), Parameter(negative=()))
    | {
        "encoding": Parameter(metavar="NAME"),
        "image_size": Parameter(validator=validators.Number(gte=1)),
    },
)
Reading = Annotated[ReadingFlags | None, Parameter(name="*")]


def command_line() -> str:
    """Return the command as it was typed, without --resume, for pages that say how to repeat it."""
    return shlex.join(["noisebound", *(word for word in sys.argv[1:] if word != "--resume")])
