"""How to read a data set: the options that every command and every function shares."""

from collections.abc import Callable, Collection, Mapping
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from noisebound.data.column_types import ColumnType, did_you_mean
from noisebound.errors import DataError, InvalidValueError


class ReadingOptions(BaseModel):
    """How to read a data set.

    Attributes:
        data_dir: A folder with published data sets. By default, the environment variable
            NOISEBOUND_DATA names it.
        target: The column, or array, with the labels. Several columns have the labels of several
            annotators.
        targets: Labels of which an example may have several at once: columns of 0 and 1, one per
            label; or one column with a list in each row, such as drama;comedy. For a matrix of
            labels, the names of its columns.
        item: In a table with one row per label, the column that identifies the example.
        annotator: In a table with one row per label, the column that says who gave it.
        text: Columns of free text, to use their words as features.
        exclude: Columns to ignore.
        id: The column that identifies the rows, such as a customer number. It is not a feature.
        groups: The column that says which rows belong together, such as a patient. It is not a
            feature, and rows of one group are never in both training and held-out data.
        types: The types of columns, such as zip=category: text, number, category or date. By
            default they are inferred from the values.
        test: A table with clean labels and the same columns, to evaluate on.
        encoding: The character encoding of tables and text files, such as latin-1 or cp1252. By
            default UTF-8.
        map_labels: Labels to rename, such as Y=Yes N=No. Labels with the same new name become one
            class.
        merge_labels: Merge labels that differ only by case or spaces.
        image_size: The height and width in pixels that images are resized to.
        skip_bad: Skip images and texts that cannot be read, and rows without a label. By default
            they are errors.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    data_dir: Path | None = None
    target: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    item: str | None = None
    annotator: str | None = None
    text: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    id: str | None = None
    groups: str | None = Field(default=None, serialization_alias="group")  # as in the command
    types: dict[str, ColumnType] = Field(default_factory=dict)
    test: Path | None = None
    encoding: str | None = None
    map_labels: dict[str, str] = Field(default_factory=dict)
    merge_labels: bool = False
    image_size: int | None = None
    skip_bad: bool = False

    @field_validator("target", "targets", "text", "exclude", mode="before")
    @classmethod
    def _one_name_is_a_list(cls, given: Any) -> Any:
        return (given,) if isinstance(given, str) else given or ()

    @field_validator("types", "map_labels", mode="before")
    @classmethod
    def _from_pairs(cls, given: Any, info: ValidationInfo) -> Any:
        """Return a dict from pairs such as zip=category or Y=Yes, as a command line has them."""
        if isinstance(given, Mapping):
            return given
        words = [str(word) for word in ((given,) if isinstance(given, str) else given)]
        known = get_args(ColumnType)
        if info.field_name == "map_labels":
            pairs = [word.partition("=") for word in words]
            expected, are_right = "LABEL=NEW, such as Y=Yes", all(new for *_, new in pairs)
        else:
            pairs = [word.rpartition("=") for word in words]
            expected = f"COLUMN=TYPE with a type of {', '.join(known)}"
            are_right = all(kind in known for *_, kind in pairs)
        if not are_right or not all(name for name, *_ in pairs):
            raise InvalidValueError(f"expected {expected}")
        return {name: value for name, _, value in pairs}

    @property
    def column_types(self) -> dict[str, ColumnType]:
        return {**self.types, **dict.fromkeys(self.text, "text")}

    @property
    def raw_columns(self) -> frozenset[str]:
        """The columns to read as text even if they are all digits."""
        types = self.column_types
        names = {name for name, kind in types.items() if kind in ("category", "text")}
        return frozenset(names | {name for name in (self.id, self.groups) if name is not None})

    def refuse_all_but(self, *allowed: str, what: str) -> None:
        """Raise a `DataError` if an option is set that does not apply to this kind of data."""
        for name, field in type(self).model_fields.items():
            default = field.get_default(call_default_factory=True)
            if name not in allowed and getattr(self, name) != default:
                raise DataError(f"`{name}` does not apply to {what}: leave it out")


_Model = TypeVar("_Model", bound=BaseModel)


def validated(model: type[_Model], fields: Mapping[str, Any]) -> _Model:
    """Return a model of these fields, or an error that names the first wrong one."""
    try:
        return model.model_validate(dict(fields))
    except ValidationError as error:
        raise InvalidValueError(first_mistake(error, model.model_fields)) from error


def first_mistake(error: ValidationError, known: Collection[str] = ()) -> str:
    """Return the first error of a validation as a sentence, with the field in backticks.

    One of the ``known`` names of fields is suggested in place of an unknown one.
    """
    first, place = error.errors()[0], error.errors()[0]["loc"][:1]
    if not place:  # about several fields
        return first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        text = f": there is no such option{did_you_mean(str(place[0]), known)}"
    elif first["msg"].startswith("Input should be "):  # of a union, each type has an error
        expected = [each["msg"] for each in error.errors() if each["loc"][:1] == place]
        kinds = (text.removeprefix("Input should be ").split(", unable")[0] for text in expected)
        text = f" must be {' or '.join(dict.fromkeys(kinds))}"
    else:
        text = f": {first['msg'].removeprefix('Value error, ')}"
    got = str(first["input"]) if isinstance(first["input"], Path) else repr(first["input"])
    return f"`{place[0]}`{text}, got {got}"


_Function = TypeVar("_Function", bound=Callable[..., Any])


def with_options(*models: type[BaseModel]) -> Callable[[_Function], _Function]:
    """Show the fields of these models in a function's signature in place of ``**options``."""

    def decorate(function: _Function) -> _Function:
        shown = signature(function)
        own = [each for each in shown.parameters.values() if each.kind != Parameter.VAR_KEYWORD]
        fields = {name: field for model in models for name, field in model.model_fields.items()}
        options = [
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                default=field.get_default(call_default_factory=True),
                annotation=field.annotation,
            )
            for name, field in fields.items()
            if name not in shown.parameters
        ]
        vars(function)["__signature__"] = shown.replace(parameters=[*own, *options])
        return function

    return decorate
