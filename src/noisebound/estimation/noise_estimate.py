"""What noisy data alone can tell of its label noise."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor


@dataclass(frozen=True)
class Diagnostics:
    """How far an estimate can be trusted.

    Args:
        method: the estimator's name
        examples: how many examples it was made from
        agreement: how often the likeliest label is the observed one, in ``[0, 1]``
        warnings: what speaks against it, a sentence each; none if nothing does
        rejection: the one of these that leaves nothing of the estimate; None if none does
    """

    method: str
    examples: int
    agreement: float
    warnings: tuple[str, ...] = ()
    rejection: str | None = None


@dataclass(frozen=True, eq=False)
class NoiseEstimate:
    """The label noise of a data set, as far as the data can tell.

    Args:
        noise_rate: the probability that a label is wrong
        transition: ``T[noisy, true]``, columns summing to one
        class_prior: the share of each true class
        interval: the interval of the noise rate, at the confidence that was asked for
        diagnostics: how far to trust it
        words: what the data can tell and what it cannot, and what the estimate assumes
        labels_to_check: how many labels to check by hand to know the noise rate to ±0.03
    """

    noise_rate: float
    transition: Float64[Tensor, "classes classes"]
    class_prior: Float64[Tensor, " classes"]
    interval: tuple[float, float]
    diagnostics: Diagnostics
    words: str = ""
    labels_to_check: int = 0

    @property
    def is_reliable(self) -> bool:
        """True if nothing speaks against it."""
        return not self.diagnostics.warnings

    def record(self) -> dict[str, Any]:
        """Return everything, with every digit, as JSON can hold it."""
        return {
            "noise_rate": self.noise_rate,
            "interval": list(self.interval),
            "class_prior": self.class_prior.tolist(),
            "transition": self.transition.tolist(),
            "method": self.diagnostics.method,
            "examples": self.diagnostics.examples,
            "agreement": self.diagnostics.agreement,
            "warnings": list(self.diagnostics.warnings),
            "rejection": self.diagnostics.rejection,
            "words": self.words,
            "labels_to_check": self.labels_to_check,
        }

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> "NoiseEstimate":
        """Return the estimate that :meth:`record` wrote."""
        low, high = record["interval"]
        return cls(
            record["noise_rate"],
            torch.tensor(record["transition"], dtype=torch.float64),
            torch.tensor(record["class_prior"], dtype=torch.float64),
            (low, high),
            Diagnostics(
                record["method"],
                record["examples"],
                record["agreement"],
                tuple(record["warnings"]),
                record.get("rejection"),  # earlier versions did not write it
            ),
            record["words"],
            record["labels_to_check"],
        )
