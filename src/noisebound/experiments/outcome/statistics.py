"""Seeds to figures: means with deviations, and whether a bound helps."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from scipy import stats

_DIGITS = 9


@dataclass(frozen=True)
class Summary:
    """Of several seeds: the mean and the unbiased deviation, which one seed has not."""

    mean: float
    std: float | None
    count: int

    @property
    def text(self) -> str:
        """Rounded for a table."""
        return f"{self.mean:.1f}" + ("" if self.std is None else f" ± {self.std:.1f}")


def summarize(values: Mapping[int, float]) -> Summary | None:
    """Over the seeds; None without any.

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
    """What a bound adds, seed by seed on the same examples, noise and first weights.

    Args:
        mean: of the differences; 0 is a tie
        p_value: of a paired t-test, two-sided; None where one seed, or none that differs, cannot
            tell
    """

    mean: float
    p_value: float | None


def paired_gain(plain: Mapping[int, float], bounded: Mapping[int, float]) -> Gain | None:
    """Over the seeds that both have; None without any.

    Example:
        >>> gain = paired_gain({0: 60.0, 1: 61.0, 2: 62.0}, {0: 70.0, 1: 72.0, 2: 71.0})
        >>> round(gain.mean, 1), round(gain.p_value, 3)
        (10.0, 0.003)
    """
    seeds = sorted(plain.keys() & bounded.keys())
    if not seeds:
        return None
    # percentages of whole counts: what differs in the last bits only is the same
    differences = [round(bounded[seed] - plain[seed], _DIGITS) for seed in seeds]
    mean = round(statistics.fmean(differences), _DIGITS)
    if len(set(differences)) == 1:
        return Gain(mean, None)
    return Gain(mean, float(stats.ttest_1samp(differences, 0.0).pvalue))
