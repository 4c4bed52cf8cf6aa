"""The noise of a run as JSON, with every digit; out-of-fold predictions have files of their own."""

from operator import attrgetter
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
import torch
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetPydanticSchema,
    PlainSerializer,
    TypeAdapter,
)
from torch import Tensor

from noisebound.estimation import (
    AnnotatorEstimate,
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

Numbers: TypeAlias = Annotated[
    Tensor,
    BeforeValidator(lambda numbers: _as_tensor(numbers)),
    PlainSerializer(lambda numbers: _without_nan(numbers.tolist())),
]


def _as_tensor(numbers: Any) -> Tensor:
    if isinstance(numbers, Tensor):
        return numbers.double()
    return torch.from_numpy(np.array(numbers, np.float64))


def _without_nan(numbers: Any) -> Any:
    """Return nested lists with None for NaN, which JSON does not have."""
    if isinstance(numbers, list):
        return [_without_nan(each) for each in numbers]
    return None if numbers != numbers else numbers


def _flat(found: Any) -> Any:
    """Return the fields of an estimate or of a noise side by side; models ignore others."""
    if isinstance(found, NoiseEstimate):
        return vars(found) | vars(found.diagnostics)
    if not isinstance(found, Noise):
        return found
    derived = {"kind": found.kind, "rate": found.rate, "transition": found.transition}
    record = derived | {"rejected": found.estimate} | vars(found)
    if isinstance(found, EstimatedNoise):
        record |= _flat(found.estimate) | {"floor": found.cross_entropy_floor}
    return record


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)


class AnnotatorsRecord(_Record):
    """The fields of an `AnnotatorEstimate` but the consensus, which follows from predictions."""

    model_config = ConfigDict(from_attributes=True)

    names: tuple[str, ...]
    are_named: bool
    counts: Annotated[Numbers, AfterValidator(Tensor.long)]
    transitions: Numbers
    error_rates: Numbers
    intervals: Numbers
    agreement: Numbers
    pairwise_agreement: Numbers
    class_prior: Numbers
    noise_rate: float
    interval: tuple[float, float]
    consensus_rate: float
    correlation: float
    words: str
    warnings: tuple[str, ...] = ()
    rejection: str | None = None

    @property
    def estimate(self) -> AnnotatorEstimate:
        own: dict[str, Any] = {name: getattr(self, name) for name in type(self).model_fields}
        return AnnotatorEstimate(**own, consensus=torch.empty(0, len(self.class_prior)).double())


class _Estimate(_Record):
    """The fields of a `NoiseEstimate` and of its diagnostics, side by side."""

    noise_rate: float
    transition: Numbers
    class_prior: Numbers
    interval: tuple[float, float]
    words: str = ""
    labels_to_check: int = 0
    condition: str = UNPREDICTABLE
    annotators: AnnotatorsRecord | None = None
    method: str
    examples: int
    warnings: tuple[str, ...] = ()
    rejection: str | None = None

    @property
    def estimate(self) -> NoiseEstimate:
        own = {name: getattr(self, name) for name in _Estimate.model_fields}
        diagnostics = {name: own.pop(name) for name in Diagnostics.__dataclass_fields__}
        own["annotators"] = self.annotators and self.annotators.estimate
        return NoiseEstimate(**own, diagnostics=Diagnostics(**diagnostics))


class _Kind(_Record):
    kind: str
    rate: float | None


class _Estimated(_Estimate, _Kind):
    kind: Literal["estimated"]
    floor: Floor
    of_majority: Annotated[_Estimate | None, BeforeValidator(_flat)] = None

    @property
    def noise(self) -> Noise:
        majority = None if self.of_majority is None else self.of_majority.estimate
        return EstimatedNoise(self.estimate, self.floor, of_majority=majority)


class _Unknown(_Kind):
    kind: Literal["unknown"]
    num_classes: int
    reason: str | None
    rejected: Annotated[_Estimate, BeforeValidator(_flat)] | None

    @property
    def noise(self) -> Noise:
        rejected = None if self.rejected is None else self.rejected.estimate
        return UnknownNoise(self.num_classes, self.reason, rejected)


class _GivenRate(_Kind):
    kind: Literal["given rate"]
    rate: float
    num_classes: int
    bound_classes: int | None

    @property
    def noise(self) -> Noise:
        return GivenRate(self.rate, self.num_classes, self.bound_classes)


class _GivenTransition(_Kind):
    kind: Literal["given transition"]
    transition: Numbers
    class_prior: Numbers

    @property
    def noise(self) -> Noise:
        return GivenTransition(self.transition, self.class_prior)


_Kinds = Annotated[
    _Estimated | _Unknown | _GivenRate | _GivenTransition, Field(discriminator="kind")
]
_KINDS: TypeAdapter[Any] = TypeAdapter(_Kinds)


def noise_record(noise: Noise) -> dict[str, Any]:
    """Return the noise as JSON can hold it."""
    record: dict[str, Any] = _KINDS.validate_python(_flat(noise)).model_dump(mode="json")
    return record


def estimate_record(estimate: NoiseEstimate) -> dict[str, Any]:
    """Return an estimate as JSON can hold it."""
    return _Estimate.model_validate(_flat(estimate)).model_dump(mode="json")


_Stored = Annotated[
    _Kinds,
    BeforeValidator(_flat),
    AfterValidator(attrgetter("noise")),
    PlainSerializer(noise_record),
]
StoredNoise = Annotated[
    Noise, GetPydanticSchema(lambda _, handler: handler.generate_schema(_Stored))
]
"""A noise as a field of a pydantic model."""
