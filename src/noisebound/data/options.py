"""How to read a data set: the options that every command and every function shares."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
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

from noisebound.data.column_types import ColumnType
from noisebound.errors import DataError, InvalidValueError


class ReadingOptions(BaseModel):
    """How to read a data set.

    Attributes:
        data_dir: A folder with published data sets. By default, the environment variable
            NOISEBOUND_DATA names it.
        target: The column, or array, with the labels.
        text: Columns of free text, to use their words as features.
        exclude: Columns to ignore.
        id: The column that identifies the rows, such as a customer number. It is not a feature.
        types: The types of columns, such as zip=category: text, number, category or date. By
            default they are inferred from the values.
        test: A table with clean labels and the same columns, to evaluate on.
        encoding: The character encoding of tables and text files, such as latin-1 or cp1252. By
            default UTF-8.
        map_labels: Labels to rename, such as Y=Yes N=No. Labels with the same new name become one
            class.
        merge_labels: Merge labels that differ only by case or spaces.
        image_size: The height and width in pixels that images are resized to.
        skip_bad: Skip images that cannot be read, lines with too many fields, and rows without a
            label. By default they are errors.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    data_dir: Path | None = None
    target: str | None = None
    text: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    id: str | None = None
    types: dict[str, ColumnType] = Field(default_factory=dict)
    test: Path | None = None
    encoding: str | None = None
    map_labels: dict[str, str] = Field(default_factory=dict)
    merge_labels: bool = False
    image_size: int | None = None
    skip_bad: bool = False

    @field_validator("text", "exclude", mode="before")
    @classmethod
    def _one_name_is_a_list(cls, given: Any) -> Any:
        return (given,) if isinstance(given, str) else given

    @field_validator("types", "map_labels", mode="before")
    @classmethod
    def _from_pairs(cls, given: Any, info: ValidationInfo) -> Any:
        """Return a dict from pairs such as zip=category or Y=Yes, as a command line has them."""
        if isinstance(given, Mapping):
            return given
        words = [str(word) for word in ((given,) if isinstance(given, str) else given)]
        if info.field_name == "map_labels":
            pairs = [word.partition("=") for word in words]
            if not all(label and new for label, _, new in pairs):
                raise InvalidValueError("expected LABEL=NEW, such as Y=Yes")
        else:
            pairs = [word.rpartition("=") for word in words]
            known = get_args(ColumnType)
            if not all(name and kind in known for name, _, kind in pairs):
                raise InvalidValueError(f"expected COLUMN=TYPE with a type of {', '.join(known)}")
        return {name: value for name, _, value in pairs}

    @property
    def column_types(self) -> dict[str, ColumnType]:
        """The types that the user gave, including texts."""
        return {**self.types, **dict.fromkeys(self.text, "text")}

    @property
    def raw_columns(self) -> frozenset[str]:
        """The columns to read as text even if they are all digits."""
        types = self.column_types
        names = {name for name, kind in types.items() if kind in ("category", "text")}
        return frozenset(names | ({self.id} if self.id is not None else set()))

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
        first = error.errors()[0]
        where, got = str(first["loc"][0]) if first["loc"] else "options", first["input"]
        message = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            near = get_close_matches(where, model.model_fields, n=1)
            message = "there is no such option" + (f"; did you mean `{near[0]}`?" if near else "")
        raise InvalidValueError(f"`{where}`: {message}, got {got!r}") from error


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
