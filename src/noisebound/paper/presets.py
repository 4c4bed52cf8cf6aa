"""Presets: the paper's settings, and those that two CPU cores can finish."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import Field, field_validator, model_validator

from noisebound.catalog import SPECS, LossName
from noisebound.data.options import validated
from noisebound.errors import InvalidValueError
from noisebound.models import ModelName
from noisebound.paper.protocol import BASELINES, BOUNDED, COLUMNS, Column, choose, read_data
from noisebound.training import TrainingConfig
from noisebound.training.config import Precision

Rate: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]

PAPER_LEARNING_RATES = {
    name: spec.learning_rate for name, spec in SPECS.items() if spec.learning_rate is not None
}  # of all other losses 1e-4

OF_THE_METHOD = {
    *("loss", "recipe", "learner", "quick", "ensemble_size", "seed"),
    *("noise_rate", "transition", "bound", "bound_classes", "bound_offset"),
}
"""Fields of a config that the method, the column and the seed determine, not the preset."""


class Settings(TrainingConfig):
    """How all methods are trained on a column: a `TrainingConfig` without its method."""

    train_examples: int | None = Field(default=None, ge=1)  # drawn from the training set
    model: ModelName = "resnet18"
    epochs: int = Field(default=100, ge=1)
    learning_rate: Rate = 1e-4
    learning_rates: dict[str, Rate] = PAPER_LEARNING_RATES  # of methods that need another
    precision: Precision = "32-true"

    @field_validator("learning_rates")
    @classmethod
    def _of_methods(cls, rates: dict[str, float]) -> dict[str, float]:
        if rates:
            choose(rates, (*BASELINES, *BOUNDED), "method")
        return rates

    @model_validator(mode="after")
    def _without_method(self) -> "Settings":
        for name in OF_THE_METHOD:
            if getattr(self, name) != TrainingConfig.model_fields[name].default:
                raise InvalidValueError(f"`{name}` is determined by the columns and methods")
        return self


_OWN_FIELDS = Settings.model_fields.keys() - TrainingConfig.model_fields.keys()
_NAMES = [name for name in Settings.model_fields if name not in OF_THE_METHOD]


@dataclass(frozen=True)
class Preset:
    """Settings for all data sets, and the exceptions."""

    name: str
    settings: Settings
    for_dataset: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # changed fields

    def __post_init__(self) -> None:
        for dataset in self.for_dataset:
            check_dataset(dataset)
            self.settings_for(dataset)

    def settings_for(self, dataset: str) -> Settings:
        return validated(Settings, dict(self.settings) | dict(self.for_dataset.get(dataset, {})))

    def training(self, column: Column, method: str, seed: int) -> TrainingConfig:
        settings = self.settings_for(column.dataset)
        name = LossName.parse(method)
        fields = settings.model_dump(exclude={*OF_THE_METHOD, *_OWN_FIELDS}) | {
            "learning_rate": settings.learning_rates.get(name.spec.name, settings.learning_rate),
            "loss": method,
            "noise_rate": column.noise_rate,
            "bound_classes": column.bound_classes if name.is_bounded else None,
            "seed": seed,
        }
        return TrainingConfig.model_validate(fields)

    def override(self, changes: Sequence[str]) -> "Preset":
        """Return the preset with changes such as ``field=value`` or ``data-set.field=value``."""
        settings = dict(self.settings)
        exceptions = {name: dict(fields) for name, fields in self.for_dataset.items()}
        for change in changes:
            place, equals, text = change.partition("=")
            dataset, _, name = place.rpartition(".")
            if not equals or name not in _NAMES:
                raise InvalidValueError(
                    f"a setting must be written field=value, with a field out of "
                    f"{', '.join(_NAMES)}; got {change!r}"
                )
            changed = exceptions.setdefault(dataset, {}) if dataset else settings
            try:
                value = json.loads(text)
            except json.JSONDecodeError:
                value = text
            if name == "learning_rates" and isinstance(value, dict):
                value = (settings | changed)[name] | value  # other methods keep their rates
            if not dataset:  # the change replaces the exceptions of single data sets
                for exception in exceptions.values():
                    exception.pop(name, None)
            changed[name] = value
        return Preset(self.name, validated(Settings, settings), exceptions)

    def to_json(self) -> str:
        """Return JSON that `find_preset` reads."""
        settings = self.settings.model_dump(mode="json", exclude=OF_THE_METHOD)
        return json.dumps(vars(self) | {"settings": settings}, indent=2)


def check_dataset(name: str) -> str:
    """Return the name, or raise an error if no column has that data set."""
    known = dict.fromkeys(column.dataset for column in COLUMNS.values())
    if name not in known:
        raise InvalidValueError(f"no column has a data set {name!r}; there are {', '.join(known)}")
    return name


def _parsed(content: Mapping[str, Any]) -> Preset:
    settings = validated(Settings, content.get("settings", {}))
    return Preset(content["name"], settings, content.get("for_dataset", {}))


PRESETS = {each["name"]: _parsed(each) for each in json.loads(read_data("presets.json"))}
"""The presets by name.

- paper: the paper's networks, epochs, batches, learning rates and schedule, with a validation split
  of 10 % of the training data and averaged weights; each table says which weights it evaluates.
- cpu: what two cores can finish, 10,000 images, small networks and 50 epochs. The learning rate is
  ten times the paper's, for 1/13 of its steps, except for MAE, which would diverge.
- features: for the embeddings of a pretrained backbone, all examples, a head that memorizes like
  the paper's networks, and a fifth of the paper's epochs. bf16 is nearly twice as fast.
- heads: the same with the default head of ``fit``, whose dropout hinders memorizing.
"""

PAPER, CPU, FEATURES = PRESETS["paper"], PRESETS["cpu"], PRESETS["features"]


def find_preset(name_or_path: str) -> Preset:
    """Return the preset with this name, or the one in a JSON file."""
    if name_or_path in PRESETS:
        return PRESETS[name_or_path]
    path = Path(name_or_path)
    if not path.is_file():
        raise InvalidValueError(
            f"{name_or_path!r} is neither a preset ({', '.join(PRESETS)}) nor a file that holds one"
        )
    try:
        return _parsed({"name": path.stem} | json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise InvalidValueError(
            f"{path} is not a preset: {error}; print one with: noisebound preset cpu"
        ) from error
