"""``result.json``: the result of a finished run."""

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from noisebound.data import Dataset
from noisebound.estimation import (
    AnnotatorEstimate,
    BoundChoice,
    EstimatedNoise,
    Noise,
    estimate_annotators,
)
from noisebound.estimation.noise import BoundOrigin
from noisebound.estimation.predictions import are_several
from noisebound.runs.folder import RunFolder, read_model
from noisebound.runs.noise_record import StoredAnnotators, StoredNoise
from noisebound.search.choice import Choice
from noisebound.training.metrics import EpochMetrics


class ChecksUsed(BaseModel):
    """How a training used the decisions about its labels.

    The figures ``before`` are those of the reviewed run's model on the same examples and labels.
    """

    model_config = ConfigDict(frozen=True)

    trusted: int  # checked labels, all of which are trained on
    changed: int  # corrected ones among these
    unusable: int  # examples left out
    weight: float  # of a checked label; others count 1
    second_labels: int = 0  # by people who did not see the first
    before: Mapping[str, float] = Field(default_factory=dict)
    after: Mapping[str, float] = Field(default_factory=dict)

    @property
    def words(self) -> str:
        second = f"{self.second_labels:,} second labels were used beside the given ones."
        if self.second_labels and not self.trusted + self.unusable:
            return second
        confirmed = self.trusted - self.changed
        times = "" if self.weight == 1 else f"{self.weight:g} times "
        return (
            f"{self.trusted + self.unusable:,} examples were checked: {self.changed:,} labels "
            f"corrected, {confirmed:,} confirmed, {self.unusable:,} examples left out as unusable. "
            f"A checked label counts {times}as much as another."
            f"{f' {second}' if self.second_labels else ''}"
        )


def annotators_of(noise: Noise, train: Dataset) -> AnnotatorEstimate | None:
    """Return the annotators by their labels alone, unless the noise has them."""
    is_estimated = isinstance(noise, EstimatedNoise) and noise.annotators is not None
    if is_estimated or train.votes is None or not are_several(train.votes):
        return None
    return estimate_annotators(train.votes, names=train.annotators or None)


class RunResult(BaseModel):
    """The result of a run."""

    model_config = ConfigDict(frozen=True)

    format: Literal[3] = 3
    identity: str  # hash of the config, the data and the network's shapes
    inputs: str  # hash of all inputs that were given, including those of validation
    bound: float | None  # the level that training was held at
    bound_origin: BoundOrigin | None
    bound_reason: str | None  # why this bound was chosen, in words
    noise: StoredNoise
    choice: Choice | None  # the recipe and the evidence for it, unless a loss was named
    floor: float | None  # the least mean loss of an honest model; the bound if there is one
    memorizing_since: int | None  # the epoch from which plain training was below the floor
    final: EpochMetrics  # the last epoch
    best_on_validation: EpochMetrics | None  # the epoch with the highest validation accuracy
    checks: ChecksUsed | None = None  # how decisions about the labels were used
    examples: str | None = None  # hash of the images or texts behind embeddings
    annotators: StoredAnnotators | None = None  # by their labels alone, unless `noise` has them

    @property
    def of_annotators(self) -> AnnotatorEstimate | None:
        """The noise of each annotator, given several labels per example; without the consensus."""
        if isinstance(self.noise, EstimatedNoise) and self.noise.annotators is not None:
            return self.noise.annotators
        return self.annotators

    @property
    def chosen(self) -> BoundChoice | None:
        if self.bound is None or self.bound_origin is None:
            return None
        return BoundChoice(self.bound, self.bound_origin, self.bound_reason or "")

    @property
    def is_stuck(self) -> bool:
        """True if the training loss stayed above the out-of-fold loss of brief trainings.

        The forward correction's gradients vanish where a network is sure and wrong, and a high
        learning rate leads there. The margin is three standard errors, so chance alone exceeds it
        in one run of seven hundred.
        """
        if not isinstance(self.noise, EstimatedNoise):
            return False
        reached = self.noise.cross_entropy_floor
        is_forward = self.bound_origin == "estimated transition"
        return is_forward and self.final.train_loss > reached.level + 3 * reached.standard_error


def read_result(folder: RunFolder) -> RunResult | None:
    """Return the result of a finished run."""
    return read_model(folder.result, RunResult) if folder.result.exists() else None
