"""The epoch at which a network predicts unseen noisy labels best, before it memorizes."""

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor
from torch.nn import functional as F

_PATIENCE = 3
"""Epochs without improvement that end a training: a choice, small because time is short; it was
not compared with others."""

OWN_EXAMPLES = 2_000
"""How many of its own examples tell whether a network memorizes. Two standard errors of the mean of
2,000 losses with deviation one are 0.045, a small difference between two mean losses."""

_SMOOTHING = 3  # epochs: the best epoch of a curve is sought without its jitter
_LONG_SMOOTHING, _NEAR_ERRORS = 5, 0.5  # epochs, and standard errors of a difference
# The latter two were chosen on heads on CIFAR-10's embeddings, 6,000 and 15,000 of them (symmetric,
# pairwise, human aggregate, clean): on average 0.5 points below the best epoch of all, and 1.9 at
# most; the epoch of most agreement was 0.8 below and 5.0 at most.

_CLEAR_ERRORS = 2  # standard errors: a difference that chance explains in one case of forty


class BestEpoch:
    """The best epoch of a network, by its loss on examples that it is not trained on.

    Args:
        labels: the observed labels of those examples
    """

    def __init__(self, labels: Int64[Tensor, " n"]) -> None:
        self.labels = labels
        self.logits: Float[Tensor, "n classes"] = torch.empty(0, 0)
        self._epoch = self._best = 0
        self._least = torch.inf

    def look(self, logits: Float[Tensor, "n classes"]) -> float:
        """Take note of the predictions after one more epoch, and return their loss."""
        self._epoch += 1
        loss = F.cross_entropy(logits, self.labels).item()
        if loss < self._least or self._epoch == 1:
            self.logits, self._least, self._best = logits, loss, self._epoch
        return loss

    @property
    def is_newest(self) -> bool:
        """True if the last epoch is the best so far."""
        return self._best == self._epoch

    @property
    def is_past(self) -> bool:
        """True once the loss has not improved for `_PATIENCE` epochs."""
        return self._epoch - self._best >= _PATIENCE

    def is_underfit(
        self, own_logits: Float[Tensor, "m classes"], own_labels: Int64[Tensor, " m"]
    ) -> bool:
        """True if the last epoch was the best and the network no better on its own examples.

        Args:
            own_logits: predictions for some examples that the network was trained on
            own_labels: the labels of these
        """
        if not self.is_newest:
            return False
        own = F.cross_entropy(own_logits, own_labels, reduction="none")
        others = F.cross_entropy(self.logits, self.labels, reduction="none")
        error = (own.var() / len(own) + others.var() / len(others)).sqrt()
        return bool(others.mean() - own.mean() < _CLEAR_ERRORS * error)


def smooth(
    curve: Float64[Tensor, " epochs"], window: int = _SMOOTHING
) -> Float64[Tensor, " epochs"]:
    """Return the running mean over a few epochs, which has as many entries."""
    padded = F.pad(curve[None, None], (window // 2,) * 2, mode="replicate")
    return F.avg_pool1d(padded, window, stride=1).flatten()


def most_agreeing(agreement: Float64[Tensor, " epochs"]) -> int:
    """Return the number of epochs after which most labels are predicted.

    Args:
        agreement: the share of predicted labels after each epoch
    """
    return int(smooth(agreement).argmax()) + 1


def soonest_agreeing(hits: Bool[Tensor, "epochs n"]) -> int:
    """Return the least number of epochs after which about as many labels are predicted as ever.

    A training that goes on too long memorizes, while the labels that would tell are noisy and few.
    So the soonest epoch is taken of those that are behind the best by less than chance explains.

    Args:
        hits: whether each label that the network did not see was predicted, after each epoch
    """
    found = hits.double()
    agreement = smooth(found.mean(1), _LONG_SMOOTHING)
    best = int(agreement.argmax())
    errors = (found[best] - found).std(dim=1, correction=0) / found.shape[1] ** 0.5
    is_near = agreement[best] - agreement <= _NEAR_ERRORS * errors
    return int(is_near.int().argmax()) + 1
