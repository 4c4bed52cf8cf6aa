"""A trial: a network is trained on some examples and predicts others after each epoch."""

from dataclasses import replace
from typing import Literal, TypeAlias

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from noisebound.data import Dataset
from noisebound.data.dataset import stratified_indices
from noisebound.estimation import OutOfFold
from noisebound.training.config import TrainingConfig
from noisebound.training.data import TrainingData
from noisebound.training.display import Display
from noisebound.training.evaluation import predict_logits
from noisebound.training.loop import Training
from noisebound.training.objective import Objective
from noisebound.training.session import Session
from noisebound.training.state import initial_state

_PATIENCE = 3  # epochs without improvement that end a training; heuristic

OWN_EXAMPLES = 2_000
"""The number of its own examples that show whether a network memorizes. Two standard errors of the
mean of 2,000 losses with deviation one are 0.045, a small difference between two mean losses."""

_SMOOTHING = 3  # epochs over which a curve is averaged to find its best epoch
_LONG_SMOOTHING, _NEAR_ERRORS = 5, 0.5  # epochs, and standard errors of a difference
# The latter two were chosen on heads on 6,000 and 15,000 embeddings of CIFAR-10 (symmetric,
# pairwise, human aggregate, clean): on average 0.5 points below the best epoch of all, 1.9 at
# most; the epoch of most agreement was 0.8 below, 5.0 at most.

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
        """Record the predictions after one more epoch, and return their loss."""
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

    A training that is too long memorizes, and the labels that would show it are noisy and few. So
    this is the first epoch that is behind the best by less than chance explains.

    Args:
        hits: whether each label that the network did not see was predicted, after each epoch
    """
    found = hits.double()
    agreement = smooth(found.mean(1), _LONG_SMOOTHING)
    best = int(agreement.argmax())
    errors = (found[best] - found).std(dim=1, correction=0) / found.shape[1] ** 0.5
    is_near = agreement[best] - agreement <= _NEAR_ERRORS * errors
    return int(is_near.int().argmax()) + 1


Stop: TypeAlias = Literal["never", "past the least loss", "well past the most hits"]
"""When a trial ends before its last epoch: never; some epochs after the least loss on the labels
left out; or 5 epochs past twice the epoch that predicts most of them."""

_MORE_EPOCHS = 5  # so that an early peak by chance does not end a trial; heuristic


class Trial:
    """A network that is trained on some examples and predicts others after each epoch.

    Args:
        data: the examples to train on, with the normalization of all inputs; its validation split,
            if there is one, is predicted at the best epoch
        left_out: the examples to predict, which the network is not trained on
        config: how to train
        objective: the loss and its bound
        network: the network before training, which is trained in place
        session: the devices, and whether to show progress
        stops: when to end before the last epoch
        title: its name in the progress display
    """

    def __init__(
        self,
        data: TrainingData,
        left_out: Dataset,
        config: TrainingConfig,
        objective: Objective,
        network: nn.Module,
        session: Session,
        *,
        stops: Stop,
        title: str,
    ) -> None:
        self.data, self.config, self.objective = data, config, objective
        self.left_out = replace(left_out, true_labels=None)  # must not be looked at
        self.session, self.stops, self.title = session, stops, title
        devices = session.of_trials
        self.state = initial_state(network, objective, config, len(data.train), devices)

    def run(self, positions: Int64[Tensor, " m"], *, keeps_best_epoch: bool = True) -> OutOfFold:
        """Train, and return the predictions for the examples that were left out.

        Args:
            positions: the positions of those examples among all
            keeps_best_epoch: True to predict by the epoch with the least loss on them, False to
                predict by the last epoch
        """
        self.session.state = self.state
        train = replace(self.data.train, true_labels=None)
        blind = replace(self.data, train=train, validation=None, test=None)
        training = Training(self.state, self.objective, blind, self.config, self.session.of_trials)
        best, hits = BestEpoch(self.left_out.labels), []
        validation: OutOfFold | None = None
        with Display(self.title, self.config.epochs, [], self.session.shows) as display:
            for metrics in training.epochs():
                if keeps_best_epoch or metrics.epoch == self.config.epochs:
                    logits = self._predict(self.left_out)
                    hits.append(logits.argmax(1) == self.left_out.labels)
                    metrics = replace(metrics, validation_loss=best.look(logits))
                    validation = self._predict_validation() if best.is_newest else validation
                display.update(metrics)
                if self._is_over(best, hits):
                    break
        own = _some(train, self.config.seed)
        is_underfit = best.is_underfit(self._predict(own), own.labels)
        return OutOfFold(
            best.logits,
            self.left_out.labels,
            positions,
            is_underfit,
            torch.stack(hits),
            validation=validation,
        )

    def _is_over(self, best: BestEpoch, hits: list[Bool[Tensor, " m"]]) -> bool:
        match self.stops:
            case "never":
                return False
            case "past the least loss":
                return best.is_past
            case "well past the most hits":
                agreement = torch.stack(hits).double().mean(1)
                return len(hits) >= 2 * most_agreeing(agreement) + _MORE_EPOCHS

    def _predict_validation(self) -> OutOfFold | None:
        examples, positions = self.data.validation, self.data.validation_positions
        if examples is None or positions is None:
            return None
        return OutOfFold(self._predict(examples), examples.labels, positions)

    def _predict(self, examples: Dataset) -> Tensor:
        model, normalization = self.state.best_model, self.data.normalization
        return predict_logits(model, examples, normalization, self.session.of_trials)


def _some(examples: Dataset, seed: int) -> Dataset:
    """Return some thousands of the examples with their shares of each class, whatever the order."""
    if len(examples) <= OWN_EXAMPLES:
        return examples
    return examples.subset(stratified_indices(examples.labels, OWN_EXAMPLES, seed))
