"""All that decides a run's result, and the hash of it that names the run."""

import hashlib
import json
from functools import cached_property

from pydantic import BaseModel, ConfigDict

from noisebound.corruption import NoiseKind
from noisebound.experiments.protocol.columns import Column
from noisebound.experiments.protocol.contenders import Contender, Granularity, Knowledge
from noisebound.training import TrainingConfig


class RunConfig(BaseModel):
    """A column's data with its noise, one method, one seed.

    Attributes:
        column: the name of the column
        dataset: the name of the data set
        source: the folder's name where the data set is not the published one
        noise: what was put into its labels, or None
        noise_rate: of that noise
        train_examples: how many were drawn from the training set; None for all
        knows: what the method is told of the noise
        granularity: over what the mean loss is held at the bound
        prunes: whether cleanlab first takes out the labels that it finds wrong
        training: the loss, its network and its seed, which also decides the noise
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    column: str
    dataset: str
    source: str | None
    noise: NoiseKind | None
    noise_rate: float
    train_examples: int | None
    knows: Knowledge = "noise rate"
    granularity: Granularity = "batch"
    prunes: bool = False
    training: TrainingConfig

    @cached_property
    def key(self) -> str:
        """The hash that names the run's folder."""
        text = json.dumps(json.loads(self.model_dump_json()), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def description(self) -> str:
        """For people: what distinguishes it from others of its sweep."""
        training = self.training
        words = f"{self.column} {training.loss} seed {training.seed}"
        if training.bound_offset:
            words += f" offset {training.bound_offset:+g}"
        if self.believes is not None:
            words += f" told {self.believes:g}"
        if self.knows != "noise rate":
            words += f", knows {self.knows}"
        if self.granularity != "batch":
            words += f", by {self.granularity}"
        return words + (", pruned" if self.prunes else "")

    def is_by(self, contender: Contender) -> bool:
        """Whether it is a run of this contender's."""
        return (
            self.knows == contender.knows
            and self.prunes == contender.prunes
            and self.training.loss == contender.loss
            and self.granularity == contender.granularity
        )

    @property
    def judges_labels(self) -> bool:
        """Whether it is also asked how noisy the labels are, and which are wrong."""
        ours = self.training.loss == "fce+b" and self.granularity == "batch"
        return self.prunes or (ours and self.knows == "nothing")

    @property
    def believes(self) -> float | None:
        """The noise rate that the method is told, where it is not the column's."""
        told = self.training.given_rate
        return None if told == self.noise_rate else told


def make_run(
    column: Column,
    training: TrainingConfig,
    train_examples: int | None,
    source: str | None,
    *,
    knows: Knowledge = "noise rate",
    granularity: Granularity = "batch",
    prunes: bool = False,
) -> RunConfig:
    """A run of a column with a training."""
    return RunConfig(
        column=column.name,
        dataset=column.dataset,
        source=source,
        noise=column.noise,
        noise_rate=column.noise_rate,
        train_examples=train_examples,
        knows=knows,
        granularity=granularity,
        prunes=prunes,
        training=training,
    )
