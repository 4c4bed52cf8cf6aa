"""The options of a training.

Each is declared here once: the flags of the commands, the keywords of `noisebound.fit`, the presets
of the paper and the hash of a run follow from its field.
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from noisebound.errors import InvalidValueError
from noisebound.models.names import DEFAULT_HEAD, ModelName

if TYPE_CHECKING:
    from noisebound.catalog import LossName  # which imports torch: options must be read without

# A literal, because pydantic, the command line and mypy read it; a test holds it to RECIPES.
RecipeName: TypeAlias = Literal[
    "plain", "regularized", "gce", "elr", "sce+b", "ce+b", "dropped", "replaced", "corrected",
    "votes", "consensus",
]  # fmt: skip

LearnerName: TypeAlias = Literal["network", "linear", "boosting", "trees", "neighbors", "estimator"]
"""The learners; `estimator` is the user's own."""

LABEL_USES: tuple[RecipeName, ...] = (
    "plain", "dropped", "replaced", "corrected", "votes", "consensus",
)  # fmt: skip
"""The recipes of all learners; the others set a loss, which only networks have. The last two use
several labels per example."""

Precision: TypeAlias = Literal["32-true", "16-mixed", "bf16-mixed", "64-true"]
"""Number formats, as Lightning Fabric names them."""

_DEFAULT_LOSS = "fce+b"  # if neither a loss nor a recipe is given

ClassWeight: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class TrainingConfig(BaseModel):
    """How to train.

    Attributes:
        loss: The loss, such as sce. Append +b to bound it, as in sce+b. By default, the recipe
            determines the loss.
        recipe: The training recipe. With auto, trials compare all recipes, including plain
            training, by their held-out predictions. A loss, a bound or a noise rate replaces it.
        learner: The learner: network, linear, boosting, trees or neighbors. With auto, trials
            compare all of them, or only networks if a recipe, a loss or a model is given.
        quick: Try only linear models, trees and neighbors, without recipes, on one division of the
            examples. Images are tried with networks.
        ensemble_size: The maximum number of learners whose predictions are averaged.
        noise_rate: The probability that a label is wrong, such as 0.2 or 20%. With auto, the noise
            is estimated before training.
        transition: A known transition matrix T[noisy, true], as a .csv or .npy file; in Python,
            also by rows. It replaces the noise rate.
        bound: The level that training is held at, instead of the noise-bound.
        bound_classes: The number of classes in the noise-bound. By default that of the data.
        bound_offset: A number that is added to the noise-bound.
        model: The network. With auto, it depends on the data.
        epochs: The number of epochs.
        batch_size: The number of examples per step, over all devices.
        accumulate: The number of micro-batches per step and device. More of them need less memory.
            The result is the same, except with batch norm or curriculum.
        learning_rate: The learning rate of Adam.
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
        seed: The seed of the initial weights, the order of the examples and augmentation.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    loss: str | None = None
    recipe: RecipeName | Literal["auto"] | None = None
    learner: LearnerName | Literal["auto"] = "auto"
    quick: bool = False
    ensemble_size: int = Field(default=3, ge=1)
    noise_rate: Annotated[float, Field(ge=0, le=1)] | Literal["auto"] | None = "auto"
    transition: tuple[tuple[float, ...], ...] | None = None
    bound: float | None = Field(default=None, allow_inf_nan=False)
    bound_classes: int | None = Field(default=None, ge=2)
    bound_offset: float = Field(default=0.0, allow_inf_nan=False)
    model: ModelName | Literal["auto"] = "auto"
    epochs: int = Field(default=50, ge=1)
    batch_size: int = Field(default=300, ge=1)
    accumulate: int = Field(default=1, ge=1)
    learning_rate: float = Field(default=1e-3, gt=0, allow_inf_nan=False)
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

    @field_validator("noise_rate", "validation_share", mode="before")
    @classmethod
    def _from_percent(cls, given: Any) -> Any:
        return as_share(given)

    @field_validator("transition", mode="before")
    @classmethod
    def _from_file(cls, given: Any) -> Any:
        return _read_matrix(Path(given)) if isinstance(given, str | Path) else given

    @field_validator("class_weight", mode="before")
    @classmethod
    def _from_words(cls, given: Any) -> Any:
        """Return weights from the words of a command line: balanced, or CLASS=WEIGHT …."""
        if isinstance(given, list | tuple):
            if list(given) in ([], ["balanced"]):
                return given[0] if given else None
            pairs = [str(word).rpartition("=") for word in given]
            if not all(sign for _, sign, _ in pairs):
                raise InvalidValueError("expected balanced, or CLASS=WEIGHT for each class")
            given = {name: weight for name, _, weight in pairs}
        if isinstance(given, dict) and not all(map(_is_weight, given.values())):
            # pydantic would only mention the first form, the word "balanced".
            raise InvalidValueError("the weight of a class must be finite and not negative")
        return given

    @model_validator(mode="after")
    def _consistent(self) -> "TrainingConfig":
        """Refuse options that contradict each other."""
        for name in ("loss", "noise_rate", "transition", "bound", "bound_offset"):
            is_given = getattr(self, name) != type(self).model_fields[name].default
            if self.recipe is not None and is_given:
                raise InvalidValueError(
                    f"a `recipe` brings its own `{name}`: leave out one of the two options"
                )
        if self.learner not in ("auto", "network"):
            self._check_without_network()
        if self.method == "loss":
            self._check_loss()
        return self

    def _check_without_network(self) -> None:
        others = f"{self.learner!r} is named: leave it out, or choose the learner 'network'"
        if self.method == "loss":
            raise InvalidValueError(
                "a loss, a bound or the noise is given, which is for networks, but the learner "
                f"{others}"
            )
        if self.method not in ("auto", *LABEL_USES):
            raise InvalidValueError(
                f"the recipe {self.method!r} is for networks, but the learner {others}; other "
                f"learners take the recipes {', '.join(LABEL_USES)}"
            )
        if self.unfreeze:
            raise InvalidValueError(
                f"`unfreeze` trains an encoder with a network, but the learner {others}"
            )

    def _check_loss(self) -> None:
        name, spec = self.loss_name, self.loss_name.spec
        has_bound = self.bound is not None
        if spec.mixes and name.is_bounded:
            raise InvalidValueError(
                "mixup has no noise-bound: its labels are blends; leave out '+b'"
            )
        if not name.is_bounded and (has_bound or self.bound_classes or self.bound_offset):
            raise InvalidValueError(
                f"a `bound` is given, but {str(name)!r} is not bounded: ask for "
                f"'{name.bounded}', or leave it out"
            )
        if name.is_bounded and not spec.has_floor and not has_bound:
            raise InvalidValueError(
                f"{spec.name} has no noise-bound, because its loss depends on its memory or on "
                "the batch: give a `bound`, or leave out '+b'"
            )
        if self.transition is not None and self.given_rate is not None:
            raise InvalidValueError(
                "`noise_rate` and `transition`, which contains the rate, are both given: give "
                "one of them, not both"
            )
        uses_matrix = spec.from_transition is not None or (name.is_bounded and not has_bound)
        if self.transition is not None and not uses_matrix:
            raise InvalidValueError(f"{name} does not use a `transition` matrix: leave it out")
        if self.bound_classes is not None and (self.given_rate is None or has_bound):
            raise InvalidValueError(
                "`bound_classes` enters the noise-bound of a given rate, and none is used here: "
                "give `noise_rate`, or leave it out"
            )

    @property
    def is_network(self) -> bool:
        """True if only a network can be trained in this way."""
        if self.learner != "auto":
            return self.learner == "network"
        is_named = self.model not in ("auto", DEFAULT_HEAD)  # the latter is the default of its own
        return self.method != "auto" or is_named or self.unfreeze

    @property
    def method(self) -> RecipeName | Literal["auto", "loss"]:
        """The recipe, or ``"loss"`` if a loss, a bound or the noise is given."""
        if self.recipe is not None:
            return self.recipe
        is_bound_given = self.bound is not None or self.bound_classes is not None
        is_given = self.loss is not None or is_bound_given or bool(self.bound_offset)
        return "auto" if self.asks_for_estimate and not is_given else "loss"

    @property
    def loss_name(self) -> "LossName":
        """The loss, taken apart from its bound."""
        return _parsed(self.loss or _DEFAULT_LOSS)

    @property
    def given_rate(self) -> float | None:
        return None if isinstance(self.noise_rate, str) else self.noise_rate

    @property
    def asks_for_estimate(self) -> bool:
        """True if the noise is to be estimated, should the loss need it."""
        return self.noise_rate == "auto" and self.transition is None

    @property
    def needs_noise(self) -> bool:
        """True if the loss, or its bound unless it is given, depends on the noise."""
        name = self.loss_name
        return (name.plain if self.bound is not None else name).needs_noise_rate

    @property
    def warmup(self) -> float:
        if self.warmup_epochs is not None:
            return self.warmup_epochs
        return 1.0 if self.unfreeze else 0.0

    def learning_rate_at(self, epoch: int) -> float:
        """Return the learning rate of epoch number ``epoch``, counted from 0."""
        is_dropped = self.drop_epoch is not None and epoch >= self.drop_epoch
        return self.learning_rate * (self.drop_factor if is_dropped else 1.0)


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


def _read_matrix(path: Path) -> list[list[float]]:
    import numpy as np

    try:
        is_binary = path.suffix.lower() == ".npy"
        matrix = np.load(path, allow_pickle=False) if is_binary else np.loadtxt(path, delimiter=",")
        rows: list[list[float]] = matrix.astype(float).tolist()
    except (ValueError, TypeError) as error:
        raise InvalidValueError(
            "expected a file with a matrix of numbers T[noisy, true], as .npy or separated by "
            "commas"
        ) from error
    return rows


def _parsed(loss: str) -> "LossName":
    from noisebound.catalog import LossName

    return LossName.parse(loss)


def _is_weight(given: Any) -> bool:
    try:
        weight = float(given)
    except (TypeError, ValueError):
        return False
    return math.isfinite(weight) and weight >= 0
