"""A run is a folder: its config, its measurements, its checkpoints, its result."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from noisebound.data import DataError
from noisebound.errors import InvalidValueError
from noisebound.files import write_json, write_text
from noisebound.monitor import memorizing_since
from noisebound.training.config import TrainingConfig
from noisebound.training.metrics import Metrics
from noisebound.training.noise import Bound, Noise


@dataclass(frozen=True)
class FitResult:
    """What came of a run.

    Args:
        folder: where everything was written
        bound: of the training loss, or None
        final: what was measured after the last epoch
        best_on_noisy_validation: the same for the epoch with the highest accuracy on held-out
            examples, whose labels are as noisy as the others; None if there are none
        bound_origin: what the bound was computed from
        bound_reason: why it was chosen, in words
        noise: what was estimated, or given of its structure
        inputs: a fingerprint of all inputs that were given, those held out included
        floor: what an honest model's training loss cannot fall below, as far as it is known; the
            bound, if there is one
        memorizing_since: the epoch from which on the loss of a training without a bound was below
            the floor; None if it never was, or if there is a bound, or the floor is not known
    """

    folder: Path
    bound: float | None
    final: Metrics
    best_on_noisy_validation: Metrics | None
    bound_origin: str | None = None
    bound_reason: str | None = None
    noise: dict[str, Any] | None = None
    memorizing_since: int | None = None
    inputs: str | None = None
    floor: float | None = None

    @property
    def is_noise_unmeasured(self) -> bool:
        """Whether it was looked for in vain: what was estimated is then worth nothing."""
        return bool((self.noise or {}).get("is_underfit"))

    @property
    def is_stuck(self) -> bool:
        """Whether training did not come down to what brief trainings reached on held-out data.

        Of losses that are cross-entropies of the observed label: the forward correction's gradients
        vanish where a network is sure and wrong, and a high learning rate leads there.
        """
        if self.noise is None or "floor" not in self.noise:
            return False
        reached = self.noise["floor"]
        return bool(
            self.bound_origin == "estimated transition"
            and self.final["train_loss"] > reached["level"] + 3 * reached["standard_error"]
        )


class RunFolder:
    """Where a run's files are, and whether it may be begun, resumed, or is done."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.json"
        self.metrics = path / "metrics.jsonl"
        self.result = path / "result.json"
        self.checkpoints = path / "checkpoints"
        self.cross_fit = path / "cross-fit"
        self.both_halves = self.cross_fit / "both.safetensors"

    def check(self, config: TrainingConfig, *, resume: bool) -> None:
        """Refuse a folder that is taken: by any run, or when resuming by another."""
        if not self.config.exists():
            return
        if not resume:
            raise FileExistsError(
                f"{self.path} holds a run already: go on with it by --resume (in Python: "
                "resume=True), or choose another folder"
            )
        self._check_same(config)

    def read_config(self) -> TrainingConfig:
        """Of the run that is here."""
        try:
            text = self.config.read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise DataError(f"{self.path} holds no run: there is no {self.config.name}") from error
        try:
            return TrainingConfig.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            raise DataError(
                f"{self.config} is damaged, or of another version: {first['msg']}"
            ) from error

    def begin(self, config: TrainingConfig) -> None:
        """Make the folder."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_text(self.config, config.model_dump_json(indent=2) + "\n")

    def _check_same(self, config: TrainingConfig) -> None:
        known = json.loads(self.config.read_text(encoding="utf-8"))
        asked = json.loads(config.model_dump_json())
        changed = [name for name in asked if asked[name] != known.get(name)]
        if changed:
            listed = ", ".join(f"{name} {known.get(name)!r} → {asked[name]!r}" for name in changed)
            raise InvalidValueError(
                f"{self.path} holds a run with another config ({listed}): resume with the same, or "
                "choose another folder"
            )

    def finish(
        self,
        identity: str,
        inputs: str,
        bound: Bound | None,
        noise: Noise | None,
        floor: float | None,
        history: list[Metrics],
    ) -> None:
        """Write the result: the last epoch, and the best as far as noisy data can tell."""
        name = "averaged_validation_top1"
        name = name if name in history[-1] else "validation_top1"
        judged = [record for record in history if name in record]
        best = max(judged, key=lambda record: record[name], default=None)
        losses = [record["train_loss"] for record in history]
        since = None if bound is not None or floor is None else memorizing_since(losses, floor)
        content = {
            "identity": identity,
            "inputs": inputs,
            "bound": bound and bound.level,
            "final": history[-1],
            "best_on_noisy_validation": best,
            "bound_origin": bound and bound.origin,
            "bound_reason": bound and bound.reason,
            "noise": noise and noise.record(),
            "floor": floor,
            "memorizing_since": since,
        }
        write_json(self.result, content)

    def read_result(self, identity: str | None = None) -> FitResult | None:
        """The result of the run if it is finished, and if it is this one.

        Without an identity, whichever it is.
        """
        try:
            content = json.loads(self.result.read_text(encoding="utf-8"))
            found = content.pop("identity")
            result = FitResult(self.path, **content)
        except (FileNotFoundError, json.JSONDecodeError, KeyError, TypeError, AttributeError):
            return None  # not there, or not whole
        if identity not in (None, found):
            raise InvalidValueError(
                f"{self.path} holds a finished run on other data: choose another folder"
            )
        return result
