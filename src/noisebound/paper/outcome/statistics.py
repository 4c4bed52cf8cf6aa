"""Statistics over seeds: means with deviations, and paired gains."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from scipy import stats

_DIGITS = 9  # finer than any share of whole counts, coarser than errors of rounding


@dataclass(frozen=True)
class Summary:
    """The mean over seeds, the unbiased deviation (None for one seed) and the number of seeds."""

    mean: float
    std: float | None
    count: int

    @property
    def text(self) -> str:
        """Rounded for a table."""
        return f"{self.mean:.1f}" + ("" if self.std is None else f" ± {self.std:.1f}")


def summarize(values: Mapping[int, float]) -> Summary | None:
    """Return the summary of values by seed; None if there are none.

    Example:
        >>> summarize({0: 80.0, 1: 82.0, 2: 84.0}).text
        '82.0 ± 2.0'
    """
    if not values:
        return None
    numbers = list(values.values())
    std = statistics.stdev(numbers) if len(numbers) > 1 else None
    return Summary(statistics.fmean(numbers), std, len(numbers))


@dataclass(frozen=True)
class Gain:
    """What a bound adds, seed by seed with the same examples, noise and first weights.

    Args:
        mean: the mean of the differences; 0 is a tie
        p_value: the two-sided p-value of a paired t-test; None where all differences are equal, as
            with a single seed
    """

    mean: float
    p_value: float | None


def paired_gain(plain: Mapping[int, float], bounded: Mapping[int, float]) -> Gain | None:
    """Return the gain over the seeds that both have; None if there are none.

    Example:
        >>> gain = paired_gain({0: 60.0, 1: 61.0, 2: 62.0}, {0: 70.0, 1: 72.0, 2: 71.0})
        >>> round(gain.mean, 1), round(gain.p_value, 3)
        (10.0, 0.003)
    """
    seeds = sorted(plain.keys() & bounded.keys())
    if not seeds:
        return None
    # These are shares of whole counts, so values that differ in their last bits only are equal.
    differences = [round(bounded[seed] - plain[seed], _DIGITS) for seed in seeds]
    mean = round(statistics.fmean(differences), _DIGITS)
    if len(set(differences)) == 1:
        return Gain(mean, None)
    return Gain(mean, float(stats.ttest_1samp(differences, 0.0).pvalue))
