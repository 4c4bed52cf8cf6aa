"""Everything that decides the result of a run, and its hash, which names the run."""

import hashlib
import json
from functools import cached_property

from pydantic import BaseModel, ConfigDict

from noisebound.corruption import NoiseKind
from noisebound.paper.protocol.columns import Column
from noisebound.paper.protocol.contenders import Contender, Granularity, Knowledge, Learner
from noisebound.training import TrainingConfig
from noisebound.training.config import Precision

_ADDED_LATER = {
    "recipe": None,
    "class_weight": None,
    "unfreeze": False,
    "encoder_rate": 0.03,
    "warmup_epochs": None,
}
"""Settings that runs of earlier versions did not have; unset, they leave the hash as it was."""

_FIELDS_ADDED_LATER = {
    "learner": "network",
    "only_right": False,
    "backbone": None,
    "precision": "32-true",
}
"""The same of the run's own fields, with the values that stand for what runs did before."""


class RunConfig(BaseModel):
    """One method on one column with one seed.

    Attributes:
        column: the name of the column
        dataset: the name of the data set
        source: the name of the data's file or folder; None for the published data set
        noise: the kind of noise that is put into the labels; None for none
        noise_rate: the probability that a label is wrong
        train_examples: the number of examples drawn from the training set; None for all
        knows: what the method is told of the noise
        granularity: over what the mean loss is taken that is held at the bound
        prunes: True if the examples whose labels cleanlab finds wrong are left out of training
        learner: what learns
        only_right: True if the examples whose labels are wrong are left out of training
        backbone: the hash of the backbone whose embeddings are the inputs; None for the data as it
            is
        precision: the numbers that the network computes with
        training: the loss, the network and the seed, which also decides the noise
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
    learner: Learner = "network"
    only_right: bool = False
    backbone: str | None = None
    precision: Precision = "32-true"
    training: TrainingConfig

    @cached_property
    def key(self) -> str:
        """The hash that names the run's folder."""
        settings = json.loads(self.model_dump_json())
        for name, unset in _ADDED_LATER.items():
            if settings["training"][name] == unset:
                del settings["training"][name]
        for name, before in _FIELDS_ADDED_LATER.items():
            if settings[name] == before:
                del settings[name]
        text = json.dumps(settings, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def description(self) -> str:
        """What distinguishes the run from the others of its sweep, in words."""
        training = self.training
        words = f"{self.column} {self.method} seed {training.seed}"
        if training.bound_offset:
            words += f" offset {training.bound_offset:+g}"
        if self.believes is not None:
            words += f" told {self.believes:g}"
        if self.knows != "noise rate":
            words += f", knows {self.knows}"
        if self.granularity != "batch":
            words += f", by {self.granularity}"
        words += ", right labels alone" if self.only_right else ""
        return words + (", pruned" if self.prunes else "")

    @property
    def method(self) -> str:
        """The loss; or what there is in place of a loss."""
        if self.learner != "network":
            return self.learner
        return self.training.recipe or self.training.loss

    def is_by(self, contender: Contender) -> bool:
        """True if this is a run of the contender."""
        return (
            self.knows == contender.knows
            and self.prunes == contender.prunes
            and self.training.loss == contender.loss
            and self.granularity == contender.granularity
            and self.learner == contender.learner
            and self.only_right == contender.only_right
            and self.training.recipe == contender.recipe
        )

    @property
    def judges_labels(self) -> bool:
        """True if the run also has to find out how noisy the labels are, and which are wrong."""
        training = self.training
        ours = training.loss == "fce+b" and training.recipe is None and self.granularity == "batch"
        return self.prunes or (ours and self.knows == "nothing")

    @property
    def believes(self) -> float | None:
        """The noise rate that the method is told; None if it is the column's."""
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
    learner: Learner = "network",
    only_right: bool = False,
    backbone: str | None = None,
    precision: Precision = "32-true",
) -> RunConfig:
    """Return the config of a run.

    Args:
        column: the data and its noise
        training: how to train
        train_examples: the number of examples drawn from the training set; None for all
        source: the name of the data's file or folder; None for the published data set
        knows: what the method is told of the noise
        granularity: over what the mean loss is taken that is held at the bound
        prunes: True if the examples whose labels cleanlab finds wrong are left out of training
        learner: what learns
        only_right: True if the examples whose labels are wrong are left out of training
        backbone: the hash of the backbone whose embeddings are the inputs; None for the data as it
            is
        precision: the numbers that the network computes with
    """
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
        learner=learner,
        only_right=only_right,
        backbone=backbone,
        precision=precision,
        training=training,
    )
