"""At what scale the experiments are run: the paper's, or that of two CPU cores."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from noisebound.catalog import SPECS, LossName
from noisebound.errors import InvalidValueError
from noisebound.experiments.protocol.columns import COLUMNS, Column
from noisebound.experiments.protocol.methods import BASELINES, BOUNDED
from noisebound.models import ModelName
from noisebound.training import TrainingConfig
from noisebound.training.config import PAPER_LEARNING_RATE

Rate: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]

PAPER_LEARNING_RATES = {
    name: spec.learning_rate for name, spec in SPECS.items() if spec.learning_rate is not None
}


class Settings(BaseModel):
    """How a column is trained; every field may differ from data set to data set.

    Attributes:
        train_examples: how many are drawn from the training set; None for all
        model: the network
        epochs: of every method alike
        batch_size: examples a step
        learning_rate: Adam's
        learning_rates: for methods that need another
        drop_epoch: after which epoch the rate is multiplied by ``drop_factor``
        drop_factor: see there
        average_epochs: over about how many epochs the weights are averaged; 0 for not at all
        measure_every: after how many epochs accuracies are measured
        validation_share: held out of the training set, with its noisy labels
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

    @field_validator("learning_rates")
    @classmethod
    def _of_methods(cls, rates: dict[str, float]) -> dict[str, float]:
        for name in rates:
            if name not in (*BASELINES, *BOUNDED):
                raise InvalidValueError(
                    f"{name!r} is no method: {', '.join((*BASELINES, *BOUNDED))}"
                )
        return rates


class Preset(BaseModel):
    """Settings, and where data sets need others.

    Attributes:
        name: of the preset
        settings: for all data sets
        for_dataset: fields of the settings that are others for a data set
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    settings: Settings = Settings()
    for_dataset: dict[str, dict[str, Any]] = {}

    @field_validator("for_dataset")
    @classmethod
    def _of_datasets(cls, particular: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        for dataset, fields in particular.items():
            check_dataset(dataset)
            _revised(Settings(), fields)
        return particular

    def settings_for(self, dataset: str) -> Settings:
        """With what the data set needs in particular."""
        return _revised(self.settings, self.for_dataset.get(dataset, {}))

    def training(self, column: Column, method: str, seed: int) -> TrainingConfig:
        """How a method is trained on a column."""
        settings = self.settings_for(column.dataset)
        name = LossName.parse(method)
        return TrainingConfig(
            loss=method,
            noise_rate=column.noise_rate,
            bound_classes=column.bound_classes if name.is_bounded else None,
            model=settings.model,
            epochs=settings.epochs,
            batch_size=settings.batch_size,
            learning_rate=settings.learning_rates.get(name.spec.name, settings.learning_rate),
            drop_epoch=settings.drop_epoch,
            drop_factor=settings.drop_factor,
            average_epochs=settings.average_epochs,
            measure_every=settings.measure_every,
            validation_share=settings.validation_share,
            seed=seed,
        )

    def override(self, changes: Sequence[str]) -> "Preset":
        """With ``field=value`` for all data sets, or ``data-set.field=value`` for one."""
        preset = self
        for change in changes:
            preset = _with_change(preset, change)
        return preset


def check_dataset(name: str) -> str:
    """The name, if a column has that data set."""
    known = dict.fromkeys(column.dataset for column in COLUMNS.values())
    if name not in known:
        raise InvalidValueError(f"no column has a data set {name!r}; there are {', '.join(known)}")
    return name


def _with_change(preset: Preset, change: str) -> Preset:
    field, equals, text = change.partition("=")
    dataset, dot, name = field.rpartition(".")
    if not equals or name not in Settings.model_fields:
        raise InvalidValueError(
            f"a setting must be written field=value, with a field out of "
            f"{', '.join(Settings.model_fields)}; got {change!r}"
        )
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        value = text
    particular, settings = preset.for_dataset, preset.settings
    if name == "learning_rates" and isinstance(value, dict):  # the others keep theirs
        value = (preset.settings_for(dataset) if dot else settings).learning_rates | value
    if dot:
        check_dataset(dataset)
        _revised(settings, {name: value})  # complains now rather than at the first run
        particular = particular | {dataset: particular.get(dataset, {}) | {name: value}}
    else:  # for all means for those too that had their own
        settings = _revised(settings, {name: value})
        particular = {
            key: {other: old for other, old in fields.items() if other != name}
            for key, fields in particular.items()
        }
    return preset.model_copy(update={"settings": settings, "for_dataset": particular})


def _revised(settings: Settings, changes: dict[str, Any]) -> Settings:
    try:
        return Settings.model_validate(settings.model_dump() | changes)
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidValueError(
            f"setting {'.'.join(map(str, first['loc']))}: {first['msg']}, got {first['input']!r}"
        ) from error


_LONGER = {"epochs": 120}
_LARGE_IMAGES = {"model": "resnet34", "batch_size": 200}

PAPER = Preset(
    name="paper",
    for_dataset={
        "emnist": _LONGER,
        "cifar10": _LONGER,
        "cifar100": _LONGER,
        "cifar10n-aggregate": _LONGER,
        "cifar10n-random1": _LONGER,
        "cifar10n-worst": _LONGER,
        "tiny-imagenet": _LARGE_IMAGES,
        "animals-10n": _LARGE_IMAGES,
    },
)
"""Its networks, epochs, batches, rates and schedule. Holding out a tenth of the training data and
averaging weights beside are ours; the tables say which weights they judge."""

_OF_PHOTOGRAPHS = (
    "cifar10",
    "cifar100",
    "cifar10n-aggregate",
    "cifar10n-random1",
    "cifar10n-worst",
    "tiny-imagenet",
    "animals-10n",
)
_PHOTOGRAPHS = {"model": "strided_cnn", "epochs": 30, "drop_epoch": 18}

CPU = Preset(
    name="cpu",
    settings=Settings(
        train_examples=10_000,
        model="small_mlp",
        epochs=50,
        learning_rate=1e-3,  # ten times the paper's, for a thirteenth of its steps
        learning_rates={"elr": 1e-2},  # MAE diverges at ten times the paper's
        drop_epoch=30,
        measure_every=5,
    ),
    for_dataset={
        "digits": {"train_examples": None},
        **dict.fromkeys(_OF_PHOTOGRAPHS, _PHOTOGRAPHS),
    },
)
"""What two cores finish: 10,000 training images, small networks, 50 epochs."""

PRESETS = {preset.name: preset for preset in (PAPER, CPU)}


def find_preset(name_or_path: str) -> Preset:
    """One of ours by name, or one that was saved as JSON."""
    if name_or_path in PRESETS:
        return PRESETS[name_or_path]
    path = Path(name_or_path)
    if not path.is_file():
        raise InvalidValueError(
            f"{name_or_path!r} is neither a preset ({', '.join(PRESETS)}) nor a file that holds one"
        )
    try:
        return Preset.model_validate_json(path.read_text(encoding="utf-8"))
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidValueError(
            f"{path} is not a preset: {'.'.join(map(str, first['loc']))}: {first['msg']}; "
            "print one with: noisebound preset cpu"
        ) from error
