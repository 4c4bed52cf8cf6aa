"""The noise of a run as JSON, with every digit; out-of-fold predictions have files of their own."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import GetPydanticSchema
from pydantic_core import core_schema
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


def noise_record(noise: Noise) -> dict[str, Any]:
    """Return the noise as JSON can hold it."""
    record: dict[str, Any] = {"kind": noise.kind, "rate": noise.rate}
    if isinstance(noise, EstimatedNoise):
        majority = noise.of_majority and estimate_record(noise.of_majority)
        floor = _plain(noise.cross_entropy_floor)
        return record | estimate_record(noise.estimate) | {"floor": floor, "of_majority": majority}
    if isinstance(noise, GivenTransition):
        return record | {
            "transition": noise.matrix.tolist(),
            "class_prior": noise.class_prior.tolist(),
        }
    if isinstance(noise, GivenRate):
        return record | {"num_classes": noise.num_classes, "bound_classes": noise.bound_classes}
    assert isinstance(noise, UnknownNoise)
    rejected = noise.estimate and estimate_record(noise.estimate)
    return record | {
        "num_classes": noise.num_classes,
        "reason": noise.reason,
        "rejected": rejected,
    }


def estimate_record(estimate: NoiseEstimate) -> dict[str, Any]:
    """Return the fields of an estimate and of its diagnostics, as JSON can hold them."""
    record: dict[str, Any] = _plain(estimate)
    diagnostics: dict[str, Any] = record.pop("diagnostics")
    return record | diagnostics


def _plain(value: Any) -> Any:
    """Return dataclasses as dicts, and tensors as lists with None for NaN.

    The consensus is left out: it follows from the predictions.
    """
    if is_dataclass(value):
        value = {name: each for name, each in vars(value).items() if name != "consensus"}
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, Tensor):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if value != value else value


def _noise(record: Any) -> Noise:
    match record["kind"]:
        case "estimated":
            majority, floor = record.get("of_majority"), _filled(Floor, record["floor"])
            majority = majority and _estimate(majority)
            return EstimatedNoise(_estimate(record), floor, of_majority=majority)
        case "unknown":
            rejected = record["rejected"] and _estimate(record["rejected"])
            return UnknownNoise(record["num_classes"], record["reason"], rejected)
        case "given rate":
            return GivenRate(record["rate"], record["num_classes"], record["bound_classes"])
        case "given transition":
            matrix, prior = _tensor(record["transition"]), _tensor(record["class_prior"])
            return GivenTransition(matrix, prior)
        case kind:
            raise ValueError(f"the kind of noise {kind!r}")


def _estimate(record: Mapping[str, Any]) -> NoiseEstimate:
    annotators = record.get("annotators") and _annotators(record["annotators"])
    known = {"diagnostics": _filled(Diagnostics, record), "annotators": annotators}
    found: NoiseEstimate = _filled(NoiseEstimate, {**record, **known})
    return found


def _annotators(record: Mapping[str, Any]) -> AnnotatorEstimate:
    nothing = torch.empty(0, len(record["class_prior"])).double()
    found: AnnotatorEstimate = _filled(AnnotatorEstimate, {**record, "consensus": nothing})
    return found


def _filled(kind: type[Any], record: Mapping[str, Any]) -> Any:
    """Return a dataclass from its fields in a record, whose lists are tensors or tuples."""
    found = {}
    for field in fields(kind):
        if field.name in record:
            value, dtypes = record[field.name], getattr(field.type, "dtypes", None)
            if isinstance(value, list):
                value = tuple(value) if dtypes is None else _tensor(value, dtypes[0])
            found[field.name] = value
    return kind(**found)


def _tensor(numbers: list[Any], dtype: str = "float64") -> Tensor:
    return torch.from_numpy(np.array(numbers, np.float64)).to(getattr(torch, dtype))


def _stored(kind: type[Any], read: Callable[[Any], Any], write: Callable[[Any], Any]) -> Any:
    """Return how a field of a pydantic model reads and writes its value."""

    def checked(given: Any) -> Any:
        try:
            return given if isinstance(given, kind) else read(given)
        except (LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"the record is not that of a {kind.__name__} ({error!r})") from error

    schema = core_schema.no_info_plain_validator_function(
        checked, serialization=core_schema.plain_serializer_function_ser_schema(write)
    )
    return GetPydanticSchema(lambda _, __: schema)


StoredNoise = Annotated[Noise, _stored(Noise, _noise, noise_record)]
StoredAnnotators = Annotated[AnnotatorEstimate, _stored(AnnotatorEstimate, _annotators, _plain)]
