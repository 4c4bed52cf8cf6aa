"""Out-of-fold predictions: what networks say of examples that they were not trained on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from noisebound.estimation.labels import FEWEST_EXAMPLES


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Predictions of the observed label, for every example by a network that did not see it.

    Args:
        logits: one row per example
        labels: the observed labels of these examples
        positions: the examples' positions in the whole training set, validation included
        is_underfit: True if a network was still learning, and memorized nothing, when its epochs
            ended: then many of its mistakes are its own fault and not the labels'
        hits: for each epoch, which examples had their observed label predicted; None if not kept
        is_trusted: which of the labels a person has checked; None if none
    """

    logits: Float[Tensor, "n classes"]
    labels: Int64[Tensor, " n"]
    positions: Int64[Tensor, " n"]
    is_underfit: bool = False
    hits: Bool[Tensor, "epochs n"] | None = None
    is_trusted: Bool[Tensor, " n"] | None = None

    @property
    def num_classes(self) -> int:
        """The number of classes."""
        return self.logits.shape[1]

    @property
    def probabilities(self) -> Float64[Tensor, "n classes"]:
        """The predicted probabilities of the observed label."""
        return self.logits.double().softmax(1)

    @property
    def are_hits(self) -> Bool[Tensor, " n"]:
        """Whether the likeliest class of each example is its observed label."""
        return self.logits.argmax(1) == self.labels

    def averaged_with(self, others: Sequence[Float64[Tensor, "n classes"]]) -> "OutOfFold":
        """Return the mean of these predictions and others for the same examples.

        Networks that were trained on other parts of the examples make other mistakes, and their
        mean makes fewer than each of them.

        Args:
            others: probabilities by networks that did not see the examples either
        """
        if not others:
            return self
        mean = torch.stack([self.probabilities, *others]).mean(0)
        logits = mean.clamp(min=torch.finfo(mean.dtype).tiny).log().to(self.logits.dtype)
        return replace(self, logits=logits, hits=None)

    @property
    def unchecked(self) -> "OutOfFold":
        """The predictions for labels that nobody has checked, which alone may be noisy.

        Where so few are left that they tell nothing, those for all labels.
        """
        if self.is_trusted is None or int((~self.is_trusted).sum()) < FEWEST_EXAMPLES:
            return self
        kept = ~self.is_trusted
        return OutOfFold(
            self.logits[kept], self.labels[kept], self.positions[kept], self.is_underfit
        )
