"""What can be said about label noise from noisy data alone."""

from dataclasses import dataclass
from typing import Any

from jaxtyping import Float64
from torch import Tensor


@dataclass(frozen=True)
class Diagnostics:
    """How far an estimate can be trusted.

    Args:
        method: that made it
        examples: how many it was made from
        agreement: how often the likeliest label is the one that was observed
        warnings: what speaks against it, in words; none if nothing does
    """

    method: str
    examples: int
    agreement: float
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class NoiseEstimate:
    """The label noise of a data set, as far as the data can tell.

    Args:
        noise_rate: the probability that a label is wrong
        transition: ``T[noisy, true]``, columns summing to one
        class_prior: how frequent the true classes are
        interval: within which the noise rate lies, at the confidence asked for
        diagnostics: how far to trust it
    """

    noise_rate: float
    transition: Float64[Tensor, "classes classes"]
    class_prior: Float64[Tensor, " classes"]
    interval: tuple[float, float]
    diagnostics: Diagnostics

    def record(self) -> dict[str, Any]:
        """For a file that people read: few digits."""
        return {
            "noise_rate": self.noise_rate,
            "interval": list(self.interval),
            "class_prior": rounded(self.class_prior),
            "transition": [rounded(row) for row in self.transition],
            "method": self.diagnostics.method,
            "warnings": list(self.diagnostics.warnings),
        }

    @property
    def is_reliable(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.diagnostics.warnings


def rounded(values: Float64[Tensor, " classes"]) -> list[float]:
    """Few digits."""
    return [round(value, 4) for value in values.tolist()]
