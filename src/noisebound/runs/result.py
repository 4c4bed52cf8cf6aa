"""``result.json``: the result of a finished run."""

from dataclasses import dataclass
from typing import Any

from noisebound.errors import DataError, RunError
from noisebound.estimation import BoundChoice, EstimatedNoise, Noise
from noisebound.monitor import memorizing_since
from noisebound.runs.corrections import ChecksUsed
from noisebound.runs.folder import RunFolder, read_json
from noisebound.runs.stored_noise import noise_of_record, noise_record
from noisebound.search.choice import Choice
from noisebound.system.files import write_json
from noisebound.training.metrics import EpochMetrics

_FORMAT = 3


@dataclass(frozen=True, eq=False)
class RunResult:
    """The result of a run.

    Args:
        identity: hash of the config, the data and the network's shapes
        inputs: hash of all inputs that were given, those of validation included
        chosen: the bound with its origin, if there is one
        noise: given, estimated or unknown
        floor: the least mean loss of an honest model where it is known; the bound if there is one
        memorizing_since: the epoch from which on the loss of a plain training lay below the floor;
            None if it never did, if there is a bound, or if the floor is unknown
        final: the metrics of the last epoch
        best_on_validation: the metrics of the epoch with the highest accuracy on the validation
            split, whose labels are noisy; None without validation
        choice: the recipe and the evidence for it, unless a loss was named
        checks: how decisions about the labels were used, if there were any
    """

    identity: str
    inputs: str
    chosen: BoundChoice | None
    noise: Noise
    floor: float | None
    memorizing_since: int | None
    final: EpochMetrics
    best_on_validation: EpochMetrics | None
    choice: Choice | None = None
    checks: ChecksUsed | None = None

    @classmethod
    def of(
        cls,
        *,
        identity: str,
        inputs: str,
        chosen: BoundChoice | None,
        noise: Noise,
        floor: float | None,
        history: list[EpochMetrics],
        choice: Choice | None = None,
        checks: ChecksUsed | None = None,
    ) -> "RunResult":
        """Return the result of a finished history."""
        averaged = history[-1].averaged_validation_top1 is not None
        judged = {
            metrics: accuracy
            for metrics in history
            if (accuracy := metrics.evaluated("validation_top1", averaged=averaged)) is not None
        }
        losses = [metrics.train_loss for metrics in history]
        is_watched = chosen is None and floor is not None
        return cls(
            identity,
            inputs,
            chosen,
            noise,
            floor,
            memorizing_since(losses, floor) if is_watched and floor is not None else None,
            history[-1],
            max(judged, key=judged.__getitem__, default=None),
            choice,
            checks,
        )

    @property
    def bound(self) -> float | None:
        """The level that training was held at."""
        return None if self.chosen is None else self.chosen.level

    @property
    def is_stuck(self) -> bool:
        """True if the training loss stayed above the out-of-fold loss of brief trainings.

        The forward correction's gradients vanish where a network is sure and wrong, and a high
        learning rate leads there. Three standard errors, so that chance alone says so in one run of
        seven hundred.
        """
        if not isinstance(self.noise, EstimatedNoise) or self.chosen is None:
            return False
        reached = self.noise.cross_entropy_floor
        is_forward = self.chosen.origin == "estimated transition"
        return is_forward and self.final.train_loss > reached.level + 3 * reached.standard_error

    def record(self) -> dict[str, Any]:
        """Return everything, as JSON can hold it."""
        best = self.best_on_validation
        return {
            "format": _FORMAT,
            "identity": self.identity,
            "inputs": self.inputs,
            "bound": self.bound,
            "bound_origin": self.chosen and self.chosen.origin,
            "bound_reason": self.chosen and self.chosen.reason,
            "noise": noise_record(self.noise),
            "choice": self.choice and self.choice.record(),
            "floor": self.floor,
            "memorizing_since": self.memorizing_since,
            "final": self.final.record(),
            "best_on_validation": best and best.record(),
            "checks": self.checks and self.checks.record(),
        }


def write_result(folder: RunFolder, result: RunResult) -> None:
    """Write the result, which makes the run finished."""
    write_json(folder.result, result.record())


def read_result(folder: RunFolder, identity: str | None = None) -> RunResult | None:
    """Return the result of a run; None if it is not finished.

    Args:
        folder: the run's
        identity: the run's, to refuse the result of another run; by default any run's
    """
    if not folder.result.exists():
        return None
    record = read_json(folder.result)
    found = record.get("format") if isinstance(record, dict) else None
    if found != _FORMAT:
        raise RunError(
            f"{folder.result} was written by another version of noisebound (format {found or 1}, "
            f"this version reads {_FORMAT}): use that version, or train again in another folder"
        )
    try:
        result = _of_record(record)
    except (KeyError, TypeError) as error:
        raise DataError(f"{folder.result} is damaged: {error!r}; remove it to go on") from error
    if identity not in (None, result.identity):
        raise RunError(
            f"{folder.path} holds a finished run on other data: choose another folder: `out`"
        )
    return result


def _of_record(record: dict[str, Any]) -> RunResult:
    chosen = None
    if record["bound"] is not None:
        chosen = BoundChoice(record["bound"], record["bound_origin"], record["bound_reason"])
    best = record["best_on_validation"]
    return RunResult(
        record["identity"],
        record["inputs"],
        chosen,
        noise_of_record(record["noise"]),
        record["floor"],
        record["memorizing_since"],
        EpochMetrics.of_record(record["final"]),
        None if best is None else EpochMetrics.of_record(best),
        None if record["choice"] is None else Choice.of_record(record["choice"]),
        ChecksUsed(**record["checks"]) if record.get("checks") else None,
    )
