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
        help="The data: a folder of images or .txt files; a CSV, TSV, JSONL, Parquet, Excel, npz "
        "or npy file; or the name of a published data set."
    ),
]
RunPath = Annotated[Path, Parameter(help="The folder that `noisebound fit` wrote.")]
TrainingSource = Annotated[
    str | None,
    Parameter(help="The training data of the run, if it was moved [default: where `fit` read it]."),
]
DataDir = Annotated[
    Path | None, Parameter(help="A folder with published data sets [default: $NOISEBOUND_DATA].")
]
SkipBad = Annotated[
    bool,
    Parameter(
        negative=(),
        help="Skip images that cannot be read, lines with too many fields, and rows without a "
        "label. By default they are errors.",
    ),
]
Threads = Annotated[
    int | None,
    Parameter(
        validator=validators.Number(gte=1),
        help="The number of threads per device [default: all available cores].",
    ),
]
QuoteFormulas = Annotated[
    bool,
    Parameter(
        help="In CSV files, put an apostrophe before text that a spreadsheet would run as a "
        "formula, such as =1+1."
    ),
]
BackboneName = Annotated[
    str,
    Parameter(
        metavar="ENCODER",
        help="A pretrained encoder for images or texts: hf:NAME_OR_FOLDER, onnx:FILE, timm:NAME, "
        "package:NAME or none. With auto, folders of images and texts use one if it is available. "
        "Embeddings are computed once and cached.",
    ),
]
Encoding = Annotated[
    str | None,
    Parameter(
        metavar="NAME",
        help="The character encoding of tables and text files, such as latin-1 [default: UTF-8].",
    ),
]
Json = Annotated[bool, Parameter(negative=(), help="Print the result as JSON.")]
_SEVERAL = Parameter(consume_multiple=True, negative=(), metavar="COLUMN...")
Columns = Annotated[tuple[str, ...], _SEVERAL]


def as_share(given: Any) -> Any:
    """Convert a percentage, such as ``15%``, to a share; return anything else unchanged."""
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
    """Change how the fields of a command's model appear in its help, by the name of the field."""
    for name, parameter in shown.items():
        field = options.model_fields[name]
        field.metadata = [*field.metadata, parameter]


class ReadingFlags(ReadingOptions):
    """The reading options as options of a command."""

    types: Annotated[Columns, Parameter(metavar="COLUMN=TYPE...")] = ()  # type: ignore[assignment]
    map_labels: Annotated[Columns, Parameter(metavar="LABEL=NEW...")] = ()  # type: ignore[assignment]

    @field_validator("types", "map_labels", mode="before")
    @classmethod
    def _from_pairs(cls, given: Any, info: ValidationInfo) -> Any:
        return given

    @property
    def options(self) -> ReadingOptions:
        """The validated reading options."""
        return validated(ReadingOptions, self.model_dump())

    def origin(self, data: str) -> "DataOrigin":
        """Return the data together with the reading options."""
        from noisebound.data import DataOrigin

        return DataOrigin(data=data, **self.options.model_dump())

    def load_run(self, path: Path, data: str | None) -> "tuple[Run, Splits]":
        """Return a run and its training data, by default from where the run read it."""
        from noisebound.runs import load_run

        if data is None:
            self.refuse_all_but("data_dir", "id", what="a run without DATA")
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
    """Return the command as typed, without --resume, to show how to repeat a run."""
    return shlex.join(["noisebound", *(word for word in sys.argv[1:] if word != "--resume")])
