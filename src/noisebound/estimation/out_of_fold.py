"""Out-of-fold predictions: predictions for examples that a network was not trained on."""

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
        validation: predictions for the validation split by the same networks, which saw none of it
    """

    logits: Float[Tensor, "n classes"]
    labels: Int64[Tensor, " n"]
    positions: Int64[Tensor, " n"]
    is_underfit: bool = False
    hits: Bool[Tensor, "epochs n"] | None = None
    is_trusted: Bool[Tensor, " n"] | None = None
    validation: "OutOfFold | None" = None

    @classmethod
    def joined(cls, folds: Sequence["OutOfFold"]) -> "OutOfFold":
        """Return the predictions of all folds, in the order of the positions.

        A validation example gets the prediction of one network, as a training example does: the
        folds take turns. So both kinds of examples are judged by evidence of the same strength.
        """
        order = torch.cat([fold.positions for fold in folds]).argsort()
        return cls(
            torch.cat([fold.logits for fold in folds])[order],
            torch.cat([fold.labels for fold in folds])[order],
            torch.cat([fold.positions for fold in folds])[order],
            any(fold.is_underfit for fold in folds),
            validation=_in_turns([fold.validation for fold in folds]),
        )

    @property
    def with_validation(self) -> "OutOfFold":
        """The predictions for the training examples and then for the validation split."""
        other = self.validation
        if other is None:
            return self
        trusted = self.is_trusted
        if trusted is not None:
            trusted = torch.cat([trusted, torch.zeros(len(other.labels), dtype=torch.bool)])
        return OutOfFold(
            torch.cat([self.logits, other.logits]),
            torch.cat([self.labels, other.labels]),
            torch.cat([self.positions, other.positions]),
            self.is_underfit,
            is_trusted=trusted,
        )

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

    def averaged_with(self, others: Sequence["OutOfFold"]) -> "OutOfFold":
        """Return the mean of these predictions and others for the same examples.

        Networks that were trained on other parts of the examples make other mistakes, so their
        mean makes fewer than each of them.

        Args:
            others: predictions by networks that did not see the examples either
        """
        if not others:
            return self
        mean = torch.stack([each.probabilities for each in (self, *others)]).mean(0)
        logits = mean.clamp(min=torch.finfo(mean.dtype).tiny).log().to(self.logits.dtype)
        validation = self.validation
        if validation is not None:
            also = [each.validation for each in others if each.validation is not None]
            validation = validation.averaged_with(also)
        return replace(self, logits=logits, hits=None, validation=validation)

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


def _in_turns(found: Sequence[OutOfFold | None]) -> OutOfFold | None:
    """Return predictions for the same examples, each example's from one of several networks."""
    first = found[0]
    if first is None:
        return None
    logits = torch.stack([each.logits for each in found if each is not None])
    examples = torch.arange(len(first.labels))
    return replace(first, logits=logits[examples % len(logits), examples])
