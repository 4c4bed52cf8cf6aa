"""The runs that a table, a search for the best bound or a sweep over noise rates needs."""

from collections.abc import Sequence
from dataclasses import dataclass

from noisebound.catalog import LossName
from noisebound.paper.protocol.columns import Column
from noisebound.paper.protocol.contenders import Contender
from noisebound.paper.protocol.presets import Preset
from noisebound.paper.protocol.run_config import RunConfig, make_run
from noisebound.paper.protocol.sources import DataSources
from noisebound.training import TrainingConfig

_OFFSET_STEP = 0.05  # the paper's
_SWEPT_RATES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
"""The noise rates that a method is told in a sweep, whatever the true one: a choice."""


@dataclass(frozen=True)
class Plan:
    """Makes the configs of runs.

    Args:
        preset: the settings of every training
        seeds: each decides the examples, their noise, the first weights and the order, so that
            methods with the same seed can be compared pair by pair
        sources: where the data is
    """

    preset: Preset
    seeds: tuple[int, ...]
    sources: DataSources

    def method_runs(self, column: Column, method: str) -> tuple[RunConfig, ...]:
        """Return one run per seed."""
        return tuple(self._run(column, method, seed) for seed in self.seeds)

    def offset_runs(self, column: Column, method: str) -> dict[float, tuple[RunConfig, ...]]:
        """Return one run per seed, by its offset from the noise-bound; the best offset is B*."""
        bounded = str(LossName.parse(method).bounded)
        return {
            offset: tuple(
                self._run(column, bounded, seed, bound_offset=offset) for seed in self.seeds
            )
            for offset in offsets(column)
        }

    def rate_runs(self, column: Column, method: str) -> dict[float, tuple[RunConfig, ...]]:
        """Return one run per seed, by the noise rate that the method is told."""
        return {
            rate: tuple(self._run(column, method, seed, noise_rate=rate) for seed in self.seeds)
            for rate in swept_rates(column)
        }

    def contender_runs(self, column: Column, contender: Contender) -> tuple[RunConfig, ...]:
        """Return one run per seed for a row beyond the paper's tables."""
        settings = self.preset.settings_for(column.dataset)
        runs = []
        for seed in self.seeds:
            training = self.preset.training(column, contender.loss, seed)
            if contender.knows != "noise rate":
                training = _untold(training, column, contender)
            training = training.model_copy(
                update={
                    "measure_every": 1 if contender.needs_every_epoch else settings.measure_every,
                    "recipe": contender.recipe,
                }
            )
            runs.append(
                make_run(
                    column,
                    training,
                    settings.train_examples,
                    self.sources.source_of(column.dataset),
                    knows=contender.knows,
                    granularity=contender.granularity,
                    prunes=contender.prunes,
                    learner=contender.learner,
                    only_right=contender.only_right,
                    backbone=self.sources.backbone_for(column.modality),
                    precision=settings.precision,
                )
            )
        return tuple(runs)

    def table_runs(self, columns: Sequence[Column], methods: Sequence[str]) -> list[RunConfig]:
        """Return the runs of all methods on all columns.

        They are ordered by column, so that a worker does not load a data set twice.
        """
        runs: list[RunConfig] = []
        for column in columns:
            for method in methods:
                if LossName.parse(method).is_searched:
                    for group in self.offset_runs(column, method).values():
                        runs += group
                else:
                    runs += self.method_runs(column, method)
        return runs

    def _run(
        self,
        column: Column,
        method: str,
        seed: int,
        *,
        bound_offset: float = 0.0,
        noise_rate: float | None = None,
    ) -> RunConfig:
        training = self.preset.training(column, method, seed)
        rate = training.noise_rate if noise_rate is None else noise_rate
        training = training.model_copy(update={"bound_offset": bound_offset, "noise_rate": rate})
        settings = self.preset.settings_for(column.dataset)
        return make_run(
            column,
            training,
            settings.train_examples,
            self.sources.source_of(column.dataset),
            backbone=self.sources.backbone_for(column.modality),
            precision=settings.precision,
        )


def _untold(training: TrainingConfig, column: Column, contender: Contender) -> TrainingConfig:
    """Return the config of a method that is not told the column's noise rate."""
    return training.model_copy(
        update={
            "noise_rate": "auto" if contender.knows == "nothing" else None,
            # the paper's c belongs to its noise-bound, which follows from a rate
            "bound_classes": column.bound_classes if contender.knows == "true rate" else None,
        }
    )


def swept_rates(column: Column) -> tuple[float, ...]:
    """Return the noise rates that methods are told in a sweep; the true one is among them."""
    return tuple(sorted({*_SWEPT_RATES, column.noise_rate}))


def offsets(column: Column) -> tuple[float, ...]:
    """Return the offsets from the noise-bound among which B* is searched.

    Example:
        >>> from noisebound.paper.protocol.columns import COLUMNS
        >>> offsets(COLUMNS["mnist-0.4"])
        (-0.2, -0.15, -0.1, -0.05, 0.0, 0.05, 0.1, 0.15, 0.2)
    """
    count = round(column.offset_range / _OFFSET_STEP)
    return tuple(round(step * _OFFSET_STEP, 2) for step in range(-count, count + 1))
