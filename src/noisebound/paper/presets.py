"""Presets: the paper's settings, and those that two CPU cores can finish."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from noisebound.catalog import SPECS, LossName
from noisebound.errors import InvalidValueError
from noisebound.models import DEFAULT_HEAD, ModelName
from noisebound.paper.protocol import BASELINES, BOUNDED, COLUMNS, Column, choose
from noisebound.training import TrainingConfig
from noisebound.training.config import PAPER_LEARNING_RATE, Precision

Model = TypeVar("Model", bound=BaseModel)
Rate: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]

PAPER_LEARNING_RATES = {
    name: spec.learning_rate for name, spec in SPECS.items() if spec.learning_rate is not None
}


class Settings(BaseModel):
    """The training settings of a column; every field may differ between data sets.

    Attributes:
        train_examples: the number of examples drawn from the training set, or None for all
        model: the network
        epochs: the number of epochs, the same for every method
        batch_size: examples per step
        learning_rate: the learning rate of Adam
        learning_rates: the learning rates of methods that need another, by name
        drop_epoch: the epoch after which the learning rate is multiplied by ``drop_factor``
        drop_factor: the factor, in ``(0, 1]``
        average_epochs: the number of epochs that weights are averaged over; 0 turns it off
        measure_every: epochs between evaluations; the last epoch is always evaluated
        validation_share: the share of the training examples in the validation split
        precision: the number format of the computation
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    train_examples: int | None = Field(default=None, ge=1)
    model: ModelName = "resnet18"
    epochs: int = Field(default=100, ge=1)
    batch_size: int = Field(default=300, ge=1)
    learning_rate: Rate = PAPER_LEARNING_RATE
    learning_rates: dict[str, Rate] = PAPER_LEARNING_RATES
    drop_epoch: int | None = Field(default=60, ge=1)
    drop_factor: float = Field(default=0.6, gt=0, le=1)
    average_epochs: float = Field(default=5.0, ge=0, allow_inf_nan=False)
    measure_every: int = Field(default=1, ge=1)
    validation_share: float = Field(default=0.1, ge=0, lt=1)
    precision: Precision = "32-true"

    @field_validator("learning_rates")
    @classmethod
    def _of_methods(cls, rates: dict[str, float]) -> dict[str, float]:
        if rates:
            choose(rates, (*BASELINES, *BOUNDED), "method")
        return rates


class Preset(BaseModel):
    """Settings for all data sets, and the exceptions.

    Attributes:
        name: the name of the preset
        settings: the settings of all data sets
        for_dataset: the fields that differ for a data set, by its name
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    settings: Settings = Settings()
    for_dataset: dict[str, dict[str, Any]] = {}

    @model_validator(mode="after")
    def _of_datasets(self) -> "Preset":
        for dataset in self.for_dataset:
            check_dataset(dataset)
            self.settings_for(dataset)
        return self

    def settings_for(self, dataset: str) -> Settings:
        """Return the settings of a data set."""
        changes = self.for_dataset.get(dataset, {})
        return _checked(Settings.model_validate, self.settings.model_dump() | changes)

    def training(self, column: Column, method: str, seed: int) -> TrainingConfig:
        """Return the config of a method on a column."""
        settings = self.settings_for(column.dataset)
        name = LossName.parse(method)
        shared = settings.model_dump(exclude={"train_examples", "learning_rates", "precision"})
        rate = settings.learning_rates.get(name.spec.name, settings.learning_rate)
        return TrainingConfig(
            loss=method,
            noise_rate=column.noise_rate,
            bound_classes=column.bound_classes if name.is_bounded else None,
            seed=seed,
            **shared | {"learning_rate": rate},
        )

    def override(self, changes: Sequence[str]) -> "Preset":
        """Return the preset with changes.

        Args:
            changes: ``field=value`` for all data sets, or ``data-set.field=value`` for one
        """
        fields = self.model_dump()
        settings, exceptions = fields["settings"], fields["for_dataset"]
        for change in changes:
            place, equals, text = change.partition("=")
            dataset, _, name = place.rpartition(".")
            if not equals or name not in Settings.model_fields:
                raise InvalidValueError(
                    f"a setting must be written field=value, with a field out of "
                    f"{', '.join(Settings.model_fields)}; got {change!r}"
                )
            changed = exceptions.setdefault(dataset, {}) if dataset else settings
            value = _parsed(text)
            if name == "learning_rates" and isinstance(value, dict):
                value = (settings | changed)[name] | value  # other methods keep their rates
            if not dataset:  # the change replaces the exceptions of single data sets
                for exception in exceptions.values():
                    exception.pop(name, None)
            changed[name] = value
        return _checked(Preset.model_validate, fields)


def check_dataset(name: str) -> str:
    """Return the name, or raise an error if no column has that data set."""
    known = dict.fromkeys(column.dataset for column in COLUMNS.values())
    if name not in known:
        raise InvalidValueError(f"no column has a data set {name!r}; there are {', '.join(known)}")
    return name


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _checked(validate: Callable[[Any], Model], fields: object) -> Model:
    """Return the validated model, or raise an error of one line."""
    try:
        return validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        if "error" in (context := first.get("ctx", {})):  # raised by a validator of ours
            raise InvalidValueError(str(context["error"])) from error
        place = ".".join(map(str, first["loc"])).removeprefix("settings.")
        raise InvalidValueError(
            f"setting {place}: {first['msg']}, got {first['input']!r}"
        ) from error


_CIFAR10N = ("cifar10n-aggregate", "cifar10n-random1", "cifar10n-worst")
_CIFAR = ("cifar10", "cifar100", *_CIFAR10N)
_LARGE_IMAGES = ("tiny-imagenet", "animals-10n")

_LONGER = {"epochs": 120}
_LARGER = {"model": "resnet34", "batch_size": 200}
_PHOTOGRAPHS = {"model": "strided_cnn", "epochs": 30, "drop_epoch": 18}

PAPER = Preset(
    name="paper",
    for_dataset={
        **dict.fromkeys(("emnist", *_CIFAR), _LONGER),
        **dict.fromkeys(_LARGE_IMAGES, _LARGER),
    },
)
"""The paper's networks, epochs, batches, learning rates and schedule. We add a validation split of
10 % of the training data, and averaged weights; each table says which weights it evaluates."""

CPU = Preset(
    name="cpu",
    settings=Settings(
        train_examples=10_000,
        model="small_mlp",
        epochs=50,
        learning_rate=1e-3,  # ten times the paper's, for 1/13 of its steps
        learning_rates={"elr": 1e-2},  # MAE diverges at ten times the paper's rate
        drop_epoch=30,
        measure_every=5,
    ),
    for_dataset={
        "digits": {"train_examples": None},
        **dict.fromkeys((*_CIFAR, *_LARGE_IMAGES), _PHOTOGRAPHS),
    },
)
"""Settings that two cores can finish: 10,000 training images, small networks, 50 epochs."""

FEATURES = Preset(
    name="features",
    settings=Settings(
        model="wide_head",
        epochs=20,
        learning_rate=1e-3,
        learning_rates={},
        drop_epoch=12,
        measure_every=20,
        precision="bf16-mixed",  # nearly twice as fast, with the same accuracies
    ),
)
"""Settings for the embeddings of a pretrained backbone: all examples, a head that memorizes like
the paper's networks, and a fifth of the paper's epochs."""

HEADS = Preset(name="heads", settings=FEATURES.settings.model_copy(update={"model": DEFAULT_HEAD}))
"""The same with the default head of ``fit``, whose dropout hinders memorizing."""

PRESETS = {preset.name: preset for preset in (PAPER, CPU, FEATURES, HEADS)}


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
        return _checked(Preset.model_validate_json, path.read_text(encoding="utf-8"))
    except InvalidValueError as error:
        raise InvalidValueError(
            f"{path} is not a preset: {error}; print one with: noisebound preset cpu"
        ) from error
