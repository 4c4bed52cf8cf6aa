"""What the callbacks of all trainers share: a bound, and readings of where the loss stands."""

from noisebound.bounded import GradientBound, Monitored


class BoundedTraining(Monitored):
    """A training whose gradients are held at a bound, step by step.

    Args:
        bound: the level that the mean loss is held at.
    """

    def __init__(self, bound: float) -> None:
        self._gradients = GradientBound(bound)
        self.monitor = self._gradients.monitor

    @property
    def bound(self) -> float:
        """The level that the mean loss is held at; it may be changed at any time."""
        return self._gradients.bound

    @bound.setter
    def bound(self, bound: float) -> None:
        self._gradients.bound = bound
