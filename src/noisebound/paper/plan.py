"""A run is one method on one column with one seed; a plan lists the runs of a table."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, product
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from noisebound.catalog import LossName
from noisebound.corruption import NoiseKind
from noisebound.paper.presets import Preset
from noisebound.paper.protocol import Column
from noisebound.paper.sources import DataSources
from noisebound.training import TrainingConfig
from noisebound.training.config import Precision

# Fields of earlier versions, with the only values that they had in runs of a table.
_RETIRED = {
    "knows": "noise rate",
    "granularity": "batch",
    "prunes": False,
    "learner": "network",
    "only_right": False,
}


class RunConfig(BaseModel):
    """Everything that determines the result of a run.

    Attributes:
        column: the name of the column
        dataset: the name of the data set
        source: the name of the file or folder that replaces the published data set
        noise: the kind of noise added to the labels
        noise_rate: the probability that a label is wrong
        train_examples: the number of examples drawn from the training set; by default all
        backbone: the hash of the backbone whose embeddings are the inputs
        precision: the number format of the computation
        training: the loss, the network and the seed, which also determines the noise
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    column: str
    dataset: str
    source: str | None = None
    noise: NoiseKind | None = None
    noise_rate: float
    train_examples: int | None = None
    backbone: str | None = None
    precision: Precision = "32-true"
    training: TrainingConfig

    @model_validator(mode="before")
    @classmethod
    def _without_retired(cls, fields: dict[str, Any]) -> dict[str, Any]:
        return {k: v for k, v in fields.items() if k not in _RETIRED or v != _RETIRED[k]}

    @cached_property
    def key(self) -> str:
        """The hash that names the run's folder; it ignores fields with default values."""
        text = self.model_dump_json(exclude_defaults=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def given_rate(self) -> float:
        """The noise rate that the method is given; in a rate sweep, it may be wrong."""
        given = self.training.given_rate
        return self.noise_rate if given is None else given

    @property
    def description(self) -> str:
        """The run as text, for messages."""
        training = self.training
        words = f"{self.column} {training.loss} seed {training.seed}"
        if training.bound_offset:
            words += f" offset {training.bound_offset:+g}"
        return words + ("" if self.given_rate == self.noise_rate else f" given {self.given_rate:g}")


@dataclass(frozen=True)
class Plan:
    """Makes the configs of runs.

    Args:
        preset: the settings of every training
        seeds: each determines the examples, their noise, the initial weights and the order of the
            examples, equally for all methods, so that methods can be compared in pairs
        sources: the places of the data
    """

    preset: Preset
    seeds: tuple[int, ...]
    sources: DataSources

    def runs(self, column: Column, method: str, **changes: float) -> list[RunConfig]:
        """Return one run per seed; ``changes`` are fields of the training config."""
        settings = self.preset.settings_for(column.dataset)
        return [
            RunConfig(
                column=column.name,
                dataset=column.dataset,
                source=self.sources.source_of(column.dataset),
                noise=column.noise,
                noise_rate=column.noise_rate,
                train_examples=settings.train_examples,
                backbone=self.sources.backbone_for(column.modality),
                precision=settings.precision,
                training=self.preset.training(column, method, seed).model_copy(update=changes),
            )
            for seed in self.seeds
        ]

    def offset_runs(self, column: Column, method: str) -> list[RunConfig]:
        """Return the runs at all offsets from the noise-bound; the best offset is B*."""
        bounded = str(LossName.parse(method).bounded)
        runs = (self.runs(column, bounded, bound_offset=offset) for offset in column.offsets)
        return [*chain.from_iterable(runs)]

    def rate_runs(self, column: Column, method: str) -> list[RunConfig]:
        """Return the runs with the true noise rate and with wrong ones."""
        runs = (self.runs(column, method, noise_rate=rate) for rate in column.swept_rates)
        return [*chain.from_iterable(runs)]

    def table_runs(self, columns: Sequence[Column], methods: Sequence[str]) -> list[RunConfig]:
        """Return the runs of all methods, column by column, so that data is loaded once."""
        runs = (
            (self.offset_runs if LossName.parse(method).is_searched else self.runs)(column, method)
            for column, method in product(columns, methods)
        )
        return [*chain.from_iterable(runs)]
