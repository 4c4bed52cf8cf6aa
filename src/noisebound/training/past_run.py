"""A training that was done, as its folder tells of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noisebound.errors import InvalidValueError
from noisebound.training.config import TrainingConfig
from noisebound.training.metrics import Metrics, read_metrics
from noisebound.training.run_folder import FitResult, RunFolder

MEASURED = {
    "test_top1": "right on the test set",
    "validation_top1": "right on held-out examples, whose labels are noisy too",
    "memorized": "of the wrong labels reproduced",
}
"""What shares are measured after an epoch, in words that follow a number."""


@dataclass(frozen=True)
class PastRun:
    """What lies in a run's folder.

    Args:
        name: the folder's
        config: how it was trained
        history: what was measured after each epoch
        result: what came of it; None while it is not finished
    """

    name: str
    config: TrainingConfig
    history: Sequence[Metrics]
    result: FitResult | None

    @staticmethod
    def read(path: Path) -> "PastRun":
        """Of a folder that has at least one epoch."""
        folder = RunFolder(path)
        config, history = folder.read_config(), read_metrics(folder.metrics)
        if not history:
            raise InvalidValueError(f"{path} has not finished an epoch yet")
        return PastRun(path.resolve().name, config, history, folder.read_result())

    @property
    def label(self) -> str:
        """Its method."""
        return self.config.loss.upper()

    @property
    def floor(self) -> float | None:
        """Under the training loss, as far as it is known."""
        if self.result is not None and self.result.floor is not None:
            return self.result.floor
        bound: float | None = self.history[-1]["bound"]
        return bound

    @property
    def memorizing_since(self) -> int | None:
        """The epoch from which on the loss of a training without a bound is below the floor."""
        return None if self.result is None else self.result.memorizing_since

    @property
    def noise(self) -> Mapping[str, Any]:
        """What was found of it; nothing, where it was not looked for or could not be measured."""
        if self.result is None or self.result.noise is None or self.result.is_noise_unmeasured:
            return {}
        return self.result.noise

    @property
    def is_noise_known(self) -> bool:
        """Whether it was told or estimated, and the training is finished."""
        is_told = isinstance(self.config.noise_rate, float) or self.config.transition is not None
        return self.result is not None and (is_told or "transition" in self.noise)

    def final(self, name: str) -> float | None:
        """A measurement after the last epoch, of the averaged weights if there are such."""
        record = self.history[-1]
        value: float | None = record.get(f"averaged_{name}", record.get(name))
        return value

    def in_words(self) -> str:
        """A sentence or two."""
        final = self.history[-1]
        words = f"{self.label} after {final['epoch']} epochs: training loss "
        words += f"{final['train_loss']:.3f}"
        if self.floor is not None:
            words += f" with a floor at {self.floor:.3f}"
        for name, text in MEASURED.items():
            value = self.final(name)
            words += "" if value is None else f"; {value:.1%} {text}"
        if self.memorizing_since is not None:
            words += f". It has been memorising wrong labels since epoch {self.memorizing_since}"
        if "interval" in self.noise:
            words += f". About {self.noise['noise_rate']:.1%} of the labels are wrong"
        if self.result is not None and self.result.is_noise_unmeasured:
            words += ". How noisy the labels are could not be measured"
        return words + "."
