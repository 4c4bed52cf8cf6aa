"""The names of the estimators, which options need before torch is imported."""

from typing import Literal, TypeAlias, get_args

EstimationMethod: TypeAlias = Literal["agreement", "anchor", "confident"]
ESTIMATION_METHODS: tuple[EstimationMethod, ...] = get_args(EstimationMethod)
