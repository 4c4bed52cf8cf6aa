"""``result.json``: the result of a finished run."""

from dataclasses import fields
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, PlainSerializer, PlainValidator
from pydantic_core import to_jsonable_python
from torch import Tensor

from noisebound.errors import DataError, RunError
from noisebound.estimation import (
    BoundChoice,
    Diagnostics,
    EstimatedNoise,
    Floor,
    GivenRate,
    GivenTransition,
    Noise,
    NoiseEstimate,
    UnknownNoise,
)
from noisebound.estimation.noise import BoundOrigin
from noisebound.monitor import memorizing_since
from noisebound.runs.corrections import ChecksUsed
from noisebound.runs.folder import RunFolder, read_model
from noisebound.search.choice import Choice
from noisebound.system.files import write_text
from noisebound.training.metrics import EpochMetrics


def noise_record(noise: Noise) -> dict[str, Any]:
    """Return the noise with every digit, as JSON can hold it."""
    record: dict[str, Any] = {"kind": noise.kind, "rate": noise.rate}
    if isinstance(noise, EstimatedNoise):
        record |= estimate_record(noise.estimate) | {"floor": vars(noise.cross_entropy_floor)}
    elif isinstance(noise, UnknownNoise):
        rejected = None if noise.rejected is None else estimate_record(noise.rejected)
        record |= vars(noise) | {"rejected": rejected}
    elif isinstance(noise, GivenRate):
        record |= {"num_classes": noise.num_classes, "bound_classes": noise.bound_classes}
    else:
        assert isinstance(noise, GivenTransition)
        record |= {"transition": noise.transition, "class_prior": noise.class_prior}
    return _jsonable(record)


def estimate_record(estimate: NoiseEstimate) -> dict[str, Any]:
    """Return an estimate with every digit, as JSON can hold it."""
    record = vars(estimate) | vars(estimate.diagnostics)
    del record["diagnostics"]
    return _jsonable(record)


def _jsonable(record: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = to_jsonable_python(record, fallback=Tensor.tolist)
    return plain


def noise_of_record(record: Any) -> Noise:
    """Return the noise that :func:`noise_record` wrote, without its out-of-fold predictions."""
    if isinstance(record, Noise):
        return record
    try:
        kind = record["kind"]
        if kind == "estimated":
            return EstimatedNoise(_estimate(record), Floor(**record["floor"]))
        if kind == "unknown":
            rejected = record["rejected"] and _estimate(record["rejected"])
            return UnknownNoise(record["num_classes"], record["reason"], rejected)
        if kind == "given rate":
            return GivenRate(record["rate"], record["num_classes"], record["bound_classes"])
        if kind == "given transition":
            return GivenTransition(_tensor(record["transition"]), _tensor(record["class_prior"]))
    except (KeyError, TypeError) as error:
        raise DataError(f"the stored noise is damaged: {error!r}") from error
    raise DataError(f"the stored noise is damaged: unknown kind {kind!r}")


def _estimate(record: dict[str, Any]) -> NoiseEstimate:
    def known(kind: type[Any]) -> dict[str, Any]:
        return {each.name: record[each.name] for each in fields(kind) if each.name in record}

    low, high = record["interval"]
    changed = {name: _tensor(record[name]) for name in ("transition", "class_prior")}
    diagnostics = Diagnostics(**known(Diagnostics) | {"warnings": tuple(record["warnings"])})
    found = known(NoiseEstimate) | changed
    return NoiseEstimate(**found | {"interval": (low, high), "diagnostics": diagnostics})


def _tensor(numbers: list[Any]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


class RunResult(BaseModel):
    """The result of a run.

    Attributes:
        format: the version of this record
        identity: hash of the config, the data and the network's shapes
        inputs: hash of all inputs that were given, those of validation included
        examples: hash of the images or texts, where the inputs are their embeddings
        bound: the level that training was held at, if there is one
        bound_origin: the source of the bound
        bound_reason: why this bound was chosen, in words
        noise: given, estimated or unknown
        choice: the recipe and the evidence for it, unless a loss was named
        floor: the least mean loss of an honest model where it is known; the bound if there is one
        memorizing_since: the epoch from which on the loss of a plain training lay below the floor
        final: the metrics of the last epoch
        best_on_validation: the metrics of the epoch with the highest accuracy on the validation
            split, whose labels are noisy
        checks: how decisions about the labels were used, if there were any
    """

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    format: Literal[3] = 3
    identity: str
    inputs: str
    bound: float | None
    bound_origin: BoundOrigin | None
    bound_reason: str | None
    noise: Annotated[Noise, PlainValidator(noise_of_record), PlainSerializer(noise_record)]
    choice: Choice | None
    floor: float | None
    memorizing_since: int | None
    final: EpochMetrics
    best_on_validation: EpochMetrics | None
    checks: ChecksUsed | None = None
    examples: str | None = None

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
        examples: str | None = None,
    ) -> "RunResult":
        """Return the result of a finished history."""
        averaged = history[-1].averaged_validation_top1 is not None
        validated = {
            metrics: accuracy
            for metrics in history
            if (accuracy := metrics.evaluated("validation_top1", averaged=averaged)) is not None
        }
        since = None
        if chosen is None and floor is not None:
            since = memorizing_since([metrics.train_loss for metrics in history], floor)
        return cls(
            identity=identity,
            inputs=inputs,
            bound=None if chosen is None else chosen.level,
            bound_origin=None if chosen is None else chosen.origin,
            bound_reason=None if chosen is None else chosen.reason,
            noise=noise,
            choice=choice,
            floor=floor,
            memorizing_since=since,
            final=history[-1],
            best_on_validation=max(validated, key=validated.__getitem__, default=None),
            checks=checks,
            examples=examples,
        )

    @property
    def chosen(self) -> BoundChoice | None:
        """The bound with its origin."""
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


def write_result(folder: RunFolder, result: RunResult) -> None:
    """Write the result, which makes the run finished."""
    write_text(folder.result, result.model_dump_json(indent=2) + "\n")


def read_result(folder: RunFolder, identity: str | None = None) -> RunResult | None:
    """Return the result of a finished run, or refuse that of a run with another hash."""
    if not folder.result.exists():
        return None
    result = read_model(folder.result, RunResult)
    if identity not in (None, result.identity):
        raise RunError(
            f"{folder.path} holds a finished run on other data: choose another folder: `out`"
        )
    return result
