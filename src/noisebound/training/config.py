"""Everything that decides a training, as data: printed, saved, overridden, compared."""

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, field_validator

from noisebound.errors import InvalidValueError
from noisebound.models import ModelName

if TYPE_CHECKING:
    from noisebound.catalog import LossName  # which imports torch: options must be read without

# A literal, because pydantic, the command line and mypy read it; a test holds it to RECIPES.
RecipeName: TypeAlias = Literal[
    "plain", "regularized", "gce", "elr", "sce+b", "ce+b", "dropped", "replaced", "corrected"
]

Precision: TypeAlias = Literal["32-true", "16-mixed", "bf16-mixed", "64-true"]
"""The numbers that a training computes with, as Lightning Devices names them."""

_DEFAULT_LOSS = "fce+b"  # where neither a loss nor a recipe is named

PAPER_LEARNING_RATE = 1e-4
"""The paper's, for all losses whose spec has no other."""


ClassWeight: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class TrainingConfig(BaseModel):
    """How to train.

    Attributes:
        loss: The loss, such as sce. Append +b to bound it, as in sce+b. By default, the recipe
            determines the loss.
        recipe: The training recipe. With auto, trials compare all recipes, including plain
            training, and the one with the best held-out predictions is used. By default auto,
            unless a loss, a bound or the noise is given.
        noise_rate: The probability that a label is wrong, from 0 to 1. With auto, the noise is
            estimated before training.
        transition: A known transition matrix ``T[noisy, true]``, by rows. It replaces the noise
            rate.
        bound: The level that training is held at, instead of the noise-bound.
        bound_classes: The number of classes in the noise-bound. By default that of the data.
        bound_offset: A number that is added to the noise-bound.
        model: The network. With auto, it depends on the data.
        epochs: The number of epochs.
        batch_size: The number of examples per step, over all devices.
        accumulate: The number of micro-batches per step and device. More of them need less memory;
            the result is the same, except with batch norm or curriculum.
        learning_rate: The learning rate of Adam. With paper, that of the paper: 1e-4, but 1e-3 for
            MAE and 1e-2 for ELR.
        drop_epoch: The epoch after which the learning rate drops.
        drop_factor: The factor by which the learning rate drops, above 0 and at most 1.
        weight_decay: The weight decay of Adam.
        class_weight: The weight of each class by its name, or balanced for equal total weights. By
            default all examples have the same weight.
        unfreeze: Train the encoder of the backbone, not only a head on its embeddings.
        encoder_rate: The encoder's learning rate, as a multiple of the head's.
        warmup_epochs: The number of warm-up epochs, in which the learning rate rises from zero. By
            default 1 if the encoder is trained, else 0.
        augment: Crop and flip images at random.
        average_epochs: The number of epochs that weights are averaged over. 0 turns averaging off.
        cross_fit_epochs: The maximum number of epochs of the networks that estimate the noise. By
            default about a quarter of the epochs.
        measure_every: The number of epochs between evaluations. The last epoch is always evaluated.
        validation_share: The share of the training examples in the validation split.
        seed: The seed for the initial weights, the order of the examples and augmentation.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    loss: str | None = None
    recipe: RecipeName | Literal["auto"] | None = None
    noise_rate: Annotated[float, Field(ge=0, le=1)] | Literal["auto"] | None = "auto"
    transition: tuple[tuple[float, ...], ...] | None = None
    bound: float | None = Field(default=None, allow_inf_nan=False)
    bound_classes: int | None = Field(default=None, ge=2)
    bound_offset: float = Field(default=0.0, allow_inf_nan=False)
    model: ModelName | Literal["auto"] = "auto"
    epochs: int = Field(default=50, ge=1)
    batch_size: int = Field(default=300, ge=1)
    accumulate: int = Field(default=1, ge=1)
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] | Literal["paper"] = 1e-3
    drop_epoch: int | None = Field(default=60, ge=1)
    drop_factor: float = Field(default=0.6, gt=0, le=1)
    weight_decay: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    class_weight: Literal["balanced"] | dict[str, ClassWeight] | None = None
    unfreeze: bool = False
    encoder_rate: float = Field(default=0.03, gt=0, allow_inf_nan=False)
    warmup_epochs: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    augment: bool = False
    average_epochs: float = Field(default=5.0, ge=0, allow_inf_nan=False)
    cross_fit_epochs: int | None = Field(default=None, ge=1)
    measure_every: int = Field(default=1, ge=1)
    validation_share: float = Field(default=0.1, ge=0, lt=1)
    seed: int = Field(default=0, ge=0, lt=2**63)

    @field_validator("loss")
    @classmethod
    def _known_loss(cls, loss: str | None) -> str | None:
        if loss is None:
            return None
        name = _parsed(loss)
        if name.is_searched:
            raise InvalidValueError(
                f"{loss!r} is a search over many trainings, not one: choose '{name.bounded}'"
            )
        return str(name)

    @field_validator("class_weight", mode="before")
    @classmethod
    def _from_words(cls, given: Any) -> Any:
        """Return weights from the words of a command line: balanced, or CLASS=WEIGHT …."""
        if isinstance(given, tuple):
            if given in ((), ("balanced",)):
                return given[0] if given else None
            pairs = [str(word).rpartition("=") for word in given]
            if not all(sign for _, sign, _ in pairs):
                raise InvalidValueError("expected balanced, or CLASS=WEIGHT for each class")
            given = {name: weight for name, _, weight in pairs}
        if isinstance(given, dict) and not all(map(_is_weight, given.values())):
            # pydantic would only mention the first form, the word "balanced".
            raise InvalidValueError("the weight of a class must be finite and not negative")
        return given

    @property
    def method(self) -> RecipeName | Literal["auto", "loss"]:
        """The recipe, or ``"loss"`` if a loss, a bound or the noise replaces it."""
        if self.recipe is not None:
            return self.recipe
        bounds = (self.bound, self.bound_classes, self.bound_offset or None)
        is_open = self.loss is None and self.asks_for_estimate and bounds == (None, None, None)
        return "auto" if is_open else "loss"

    @property
    def loss_name(self) -> "LossName":
        """The loss, taken apart from its bound."""
        return _parsed(self.loss or _DEFAULT_LOSS)

    @property
    def given_rate(self) -> float | None:
        """The noise rate, where it is given as a number."""
        return None if isinstance(self.noise_rate, str) else self.noise_rate

    @property
    def asks_for_estimate(self) -> bool:
        """True if the noise is to be estimated, should the loss need it."""
        return self.noise_rate == "auto" and self.transition is None

    @property
    def warmup(self) -> float:
        """The number of epochs over which the learning rate rises."""
        if self.warmup_epochs is not None:
            return self.warmup_epochs
        return 1.0 if self.unfreeze else 0.0

    def learning_rate_at(self, epoch: int) -> float:
        """Return the learning rate of epoch number ``epoch``, counted from 0."""
        paper = self.loss_name.spec.learning_rate or PAPER_LEARNING_RATE
        first = paper if self.learning_rate == "paper" else self.learning_rate
        is_dropped = self.drop_epoch is not None and epoch >= self.drop_epoch
        return first * self.drop_factor if is_dropped else first


def _parsed(loss: str) -> "LossName":
    from noisebound.catalog import LossName

    return LossName.parse(loss)


def _is_weight(given: Any) -> bool:
    try:
        weight = float(given)
    except (TypeError, ValueError):
        return False
    return math.isfinite(weight) and weight >= 0
