"""The noise of a run as ``result.json`` stores it."""

from typing import Annotated, Any, Literal

import torch
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    TypeAdapter,
    ValidationError,
)
from torch import Tensor

from noisebound.errors import DataError
from noisebound.estimation import (
    Diagnostics,
    EstimatedNoise,
    Floor,
    GivenRate,
    GivenTransition,
    Noise,
    NoiseEstimate,
    UnknownNoise,
)
from noisebound.estimation.estimate import UNPREDICTABLE

_Numbers = Annotated[
    Tensor,
    PlainValidator(lambda given: torch.as_tensor(given, dtype=torch.float64)),
    PlainSerializer(Tensor.tolist),
]


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)


class _Estimate(_Stored):
    noise_rate: float
    interval: tuple[float, float]
    class_prior: _Numbers
    transition: _Numbers
    method: str
    examples: int
    agreement: float
    warnings: tuple[str, ...]
    rejection: str | None = None
    words: str
    labels_to_check: int
    condition: str = UNPREDICTABLE
    confidence: float = 0.95

    def estimate(self) -> NoiseEstimate:
        return NoiseEstimate(
            self.noise_rate,
            self.transition,
            self.class_prior,
            self.interval,
            Diagnostics(self.method, self.examples, self.agreement, self.warnings, self.rejection),
            self.words,
            self.labels_to_check,
            self.condition,
            self.confidence,
        )


class _Floor(_Stored):
    level: float
    standard_error: float
    temperature: float


class _EstimatedNoise(_Estimate):
    kind: Literal["estimated"] = "estimated"
    rate: float
    floor: _Floor

    def noise(self) -> Noise:
        return EstimatedNoise(self.estimate(), Floor(**dict(self.floor)))


class _UnknownNoise(_Stored):
    kind: Literal["unknown"] = "unknown"
    num_classes: int
    reason: str | None
    rejected: _Estimate | None

    def noise(self) -> Noise:
        rejected = None if self.rejected is None else self.rejected.estimate()
        return UnknownNoise(self.num_classes, self.reason, rejected)


class _GivenRate(_Stored):
    kind: Literal["given rate"] = "given rate"
    rate: float
    num_classes: int
    bound_classes: int | None

    def noise(self) -> Noise:
        return GivenRate(self.rate, self.num_classes, self.bound_classes)


class _GivenTransition(_Stored):
    kind: Literal["given transition"] = "given transition"
    rate: float
    transition: _Numbers
    class_prior: _Numbers

    def noise(self) -> Noise:
        return GivenTransition(self.transition, self.class_prior)


_AnyNoise = _EstimatedNoise | _UnknownNoise | _GivenRate | _GivenTransition
_ADAPTER: TypeAdapter[_AnyNoise] = TypeAdapter(Annotated[_AnyNoise, Field(discriminator="kind")])


def noise_record(noise: Noise) -> dict[str, Any]:
    """Return the noise with every digit, as JSON can hold it."""
    stored = {"kind": noise.kind, "rate": noise.rate, **vars(noise)}
    if isinstance(noise, EstimatedNoise):
        stored |= estimate_record(noise.estimate) | {"floor": vars(noise.cross_entropy_floor)}
    elif isinstance(noise, UnknownNoise) and noise.rejected is not None:
        stored["rejected"] = estimate_record(noise.rejected)
    elif isinstance(noise, GivenTransition):
        stored["transition"] = noise.transition
    return _ADAPTER.validate_python(stored).model_dump(mode="json")


def estimate_record(estimate: NoiseEstimate) -> dict[str, Any]:
    """Return an estimate with every digit, as JSON can hold it."""
    return _Estimate(**vars(estimate) | vars(estimate.diagnostics)).model_dump(mode="json")


def noise_of_record(record: Any) -> Noise:
    """Return the noise that :func:`noise_record` wrote, without its out-of-fold predictions."""
    try:
        return _ADAPTER.validate_python(record).noise()
    except ValidationError as error:
        raise DataError(f"the stored noise is damaged: {error}") from error
