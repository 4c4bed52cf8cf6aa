"""Options that several commands share, each declared once."""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, validators
from pydantic import BaseModel, SkipValidation

from noisebound.data.options import ReadingOptions, validated

if TYPE_CHECKING:
    from noisebound.data import Splits
    from noisebound.runs import MultiLabelRun, Run

Source = Annotated[
    str,
    Parameter(
        help="The data: a folder of images or .txt files; a CSV, TSV, JSONL, Parquet, Excel, npz "
        "or npy file; or the name of a published data set."
    ),
]
RunPath = Annotated[
    Path, Parameter(help="The folder that `noisebound fit` wrote, or hf:USER/NAME on the hub.")
]
TrainingSource = Annotated[
    str | None,
    Parameter(help="The training data of the run, if it was moved [default: where `fit` read it]."),
]
DataDir = Annotated[
    Path | None, Parameter(help="A folder with published data sets [default: $NOISEBOUND_DATA].")
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
        help="A pretrained encoder for images or texts: hf:NAME_OR_FOLDER, onnx:FILE, timm:NAME or "
        "package:NAME. With auto, folders of images or texts use one if it is installed; with "
        "none, a network is trained from scratch. Embeddings are computed once and cached.",
    ),
]
Json = Annotated[bool, Parameter(negative=(), help="Print the result as JSON.")]
_SEVERAL = Parameter(consume_multiple=True, negative=(), metavar="COLUMN...")
Columns = Annotated[tuple[str, ...], _SEVERAL]


def arrange(options: type[BaseModel], shown: Mapping[str, Parameter]) -> None:
    """Change how the fields of a command's model appear in its help, by the name of the field."""
    for name, parameter in shown.items():
        field = options.model_fields[name]
        field.metadata = [*field.metadata, parameter]


def show_only(options: type[BaseModel], *names: str, **shown: Parameter) -> None:
    """Hide the other fields of a command's model."""
    for name in options.model_fields.keys() - {*names, *shown}:
        shown[name] = Parameter(parse=False)
    arrange(options, shown)


class ReadingFlags(ReadingOptions):
    """The reading options as options of a command; their validators read these words."""

    types: Annotated[Columns, SkipValidation] = ()  # type: ignore[assignment]
    map_labels: Annotated[Columns, SkipValidation] = ()  # type: ignore[assignment]

    @property
    def options(self) -> ReadingOptions:
        return validated(ReadingOptions, dict(self))

    def load_run(self, path: Path, data: str | None) -> "tuple[Run | MultiLabelRun, Splits]":
        """Return a run and its training data, by default from where the run read it."""
        from noisebound.runs import load_run

        if data is None:
            self.refuse_all_but("data_dir", "id", what="a run without DATA")
        run, options = load_run(path), None if data is None else self.options
        if data is None and self.data_dir is not None:
            known = run.folder.read_origin().options
            options = known.model_copy(update={"data_dir": self.data_dir})
        return run, run.training_data(data, options).named_by(self.id)


arrange(
    ReadingFlags,
    dict.fromkeys(("item", "annotator", "id"), Parameter(metavar="COLUMN"))
    | {"groups": Parameter(name="--group", metavar="COLUMN")}
    | dict.fromkeys(("target", "targets", "text", "exclude"), _SEVERAL)
    | dict.fromkeys(("merge_labels", "skip_bad"), Parameter(negative=()))
    | {
        "types": Parameter(metavar="COLUMN=TYPE..."),
        "map_labels": Parameter(metavar="LABEL=NEW..."),
        "encoding": Parameter(metavar="NAME"),
        "image_size": Parameter(validator=validators.Number(gte=1)),
    },
)
Reading = Annotated[ReadingFlags | None, Parameter(name="*", group="Reading the data")]


def command_line() -> str:
    """Return the command as typed, without --resume, to show how to repeat a run."""
    return shlex.join(["noisebound", *(word for word in sys.argv[1:] if word != "--resume")])
