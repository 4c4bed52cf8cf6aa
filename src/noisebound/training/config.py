"""Everything that decides a training run, as data: printed, saved, overridden, compared."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from noisebound.granularity import Granularity
from noisebound.models import ModelName

PAPER_LEARNING_RATE = 1e-4
PAPER_LEARNING_RATES = {"mae": 1e-3, "elr": 1e-2}  # of the methods that have another


class TrainingConfig(BaseModel):
    """How to train; what to train on is given beside it.

    Attributes:
        loss: a name of ``create_loss``, with ``+b`` for its bound; or ``mixup``
        noise_rate: the probability that a label is wrong; for bounds, FCE, CEP and the like.
            ``"auto"`` estimates it, and the structure of the noise with it, before training
        transition: ``T[noisy, true]`` by rows, where it is known; in place of the noise rate
        bound: a level of one's own, in place of the noise-bound
        bound_classes: c in the noise-bound, where it is not the number of classes
        bound_offset: added to the noise-bound, to train above or below it
        granularity: whose mean loss is held against the bound: a batch's, each example's, each
            class's, or a running mean's
        model: one of the networks by name
        epochs: how often the training examples are seen
        batch_size: examples a step, over all ranks
        accumulate: parts in which a rank computes its share of a batch; changes memory, not results
            (but for batch norm, curriculum, and a granularity of class or running, which look at a
            part at a time)
        learning_rate: Adam's; ``"paper"`` for the paper's: 1e-4, for MAE 1e-3, for ELR 1e-2
        drop_epoch: after which epoch the learning rate is multiplied by ``drop_factor``
        drop_factor: see there
        weight_decay: Adam's
        augment: whether images are cropped and flipped at random
        average_epochs: over about how many epochs the weights are averaged; 0 for not at all
        measure_every: after every how many epochs, and after the last, accuracies are measured
        validation_share: of the training examples, held out with the labels they have
        seed: decides weights, orders and augmentation
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    loss: str = "fce+b"
    noise_rate: Annotated[float, Field(ge=0, le=1)] | Literal["auto"] | None = "auto"
    transition: tuple[tuple[float, ...], ...] | None = None
    bound: float | None = Field(default=None, allow_inf_nan=False)
    bound_classes: int | None = Field(default=None, ge=2)
    bound_offset: float = Field(default=0.0, allow_inf_nan=False)
    granularity: Granularity = "batch"
    model: ModelName = "mlp"
    epochs: int = Field(default=50, ge=1)
    batch_size: int = Field(default=300, ge=1)
    accumulate: int = Field(default=1, ge=1)
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] | Literal["paper"] = 1e-3
    drop_epoch: int | None = Field(default=60, ge=1)
    drop_factor: float = Field(default=0.6, gt=0, le=1)
    weight_decay: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    augment: bool = False
    average_epochs: float = Field(default=5.0, ge=0, allow_inf_nan=False)
    measure_every: int = Field(default=1, ge=1)
    validation_share: float = Field(default=0.1, ge=0, lt=1)
    seed: int = Field(default=0, ge=0, lt=2**63)

    @field_validator("loss")
    @classmethod
    def _spelled_small(cls, loss: str) -> str:
        return loss.lower()

    @property
    def base_loss(self) -> str:
        """The loss without its bound."""
        return self.loss.removesuffix("+b")

    @property
    def is_bounded(self) -> bool:
        """Whether it has one."""
        return self.loss.endswith("+b")

    def learning_rate_at(self, epoch: int) -> float:
        """The rate of epoch number ``epoch``, counted from 0."""
        paper = PAPER_LEARNING_RATES.get(self.base_loss, PAPER_LEARNING_RATE)
        first = paper if self.learning_rate == "paper" else self.learning_rate
        is_dropped = self.drop_epoch is not None and epoch >= self.drop_epoch
        return first * self.drop_factor if is_dropped else first
