"""What the callbacks of all trainers have in common: a level, and the readings against it."""

from noisebound.bounded import GradientBound, Monitored


class BoundedTraining(Monitored):
    """A training whose gradients are held at a bound, step by step.

    Args:
        bound: the level that the mean loss shall not fall below.
    """

    def __init__(self, bound: float) -> None:
        self._gradients = GradientBound(bound)
        self.monitor = self._gradients.monitor

    @property
    def bound(self) -> float:
        """The level that the mean loss shall not fall below; may be changed at any time."""
        return self._gradients.bound

    @bound.setter
    def bound(self, bound: float) -> None:
        self._gradients.bound = bound
