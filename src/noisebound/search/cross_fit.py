"""The one cross-fitter: predictions for every example by a learner that did not see it.

A learner trains on each half of the examples and predicts the other half at each stage. Each half
is read at the stage that predicts most labels of the other half, so that no label that judges a
learner had a part in where it stops.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Float32, Float64, Int64
from torch import Tensor
from torch.nn import functional as F

from noisebound.data import Dataset
from noisebound.data.dataset import stratified_indices
from noisebound.estimation import OutOfFold
from noisebound.estimation.predictions import hits_of
from noisebound.learners import Learner
from noisebound.training.data import TrainingData

FEWEST_EXAMPLES = 50
"""The fewest examples that noise is estimated from: what is left of sixty if validation takes its
share. The surest fifth is then 10 examples, and the standard error of their rate up to 0.16."""

OWN_EXAMPLES = 2_000
"""The number of its own examples that show whether a network memorizes. Two standard errors of the
mean of 2,000 losses with deviation one are 0.045, a small difference between two mean losses."""

_LEAST_PROBABILITY = 1e-6  # of a class: trees and neighbors may find none; heuristic

_SMOOTHING = 3  # stages over which agreement is averaged to find the best one
_CLEAR_ERRORS = 2  # standard errors: a difference that chance explains in one case of forty

Halves = tuple[Int64[Tensor, " first"], Int64[Tensor, " second"]]
"""The positions of two halves of the examples."""

Prepare = Callable[[TrainingData, int], tuple[Learner, TrainingData]]
"""Makes the learner of a half, with the weights and targets that it trains on."""


@dataclass(frozen=True, eq=False)
class _Fold:
    """The predictions for one half, at each stage, by a learner that was trained on the other."""

    labels: Int64[Tensor, " n"]
    probs: Float32[Tensor, "stages n classes"]
    own_labels: Int64[Tensor, " m"]
    own_probs: Float32[Tensor, "stages m classes"]
    votes: Int64[Tensor, "n annotators"] | None
    validation: Float32[Tensor, "stages others classes"] | None
    counts_alike: bool

    @property
    def hits(self) -> Bool[Tensor, "stages n"] | Float[Tensor, "stages n"]:
        return hits_of(self.probs.argmax(2), self.labels, self.votes, alike=self.counts_alike)

    @property
    def is_underfit(self) -> bool:
        """True if the last stage is the best, and no better on the learner's own examples."""
        losses, own = (
            -_logs(probs).gather(2, labels.expand(len(probs), -1)[..., None]).squeeze(2)
            for probs, labels in ((self.probs, self.labels), (self.own_probs, self.own_labels))
        )
        if int(losses.mean(1).argmin()) < len(losses) - 1:
            return False
        others, own = losses[-1], own[-1]
        error = (own.var() / len(own) + others.var() / len(others)).sqrt()
        return bool(others.mean() - own.mean() < _CLEAR_ERRORS * error)


def cross_fit(data: TrainingData, halves: Halves, prepare: Prepare, seed: int) -> OutOfFold:
    """Return predictions for every training example by a learner that did not see it.

    Args:
        data: the training examples; a validation split is predicted too
        halves: how they are divided
        prepare: makes the learner from the examples of a half and the number of that half
        seed: of the learners
    """
    folds = [_fold(data, halves, number, prepare, seed) for number in (0, 1)]
    stages = [best_stage(fold.hits) for fold in reversed(folds)]
    joined = OutOfFold.joined(
        [
            OutOfFold(
                _logs(fold.probs[stage]),
                fold.labels,
                half,
                fold.is_underfit,
                fold.hits,
                validation=_for_validation(fold, stage, data),
                votes=fold.votes,
                annotators=data.train.annotators,
                counts_alike=fold.counts_alike,
            )
            for fold, half, stage in zip(folds, halves, stages, strict=True)
        ]
    )
    return replace(
        joined,
        positions=torch.arange(len(data.train)) if data.positions is None else data.positions,
        is_trusted=None if data.checked is None else data.checked.is_trusted,
    )


def _fold(data: TrainingData, halves: Halves, number: int, prepare: Prepare, seed: int) -> _Fold:
    """Train on the other half, and predict this one."""
    other = data.subset(halves[1 - number])
    judged, own = data.train.subset(halves[number]), some_examples(other.train, seed)
    learner, prepared = prepare(other, 1 - number)
    unseen = [] if data.validation is None else [data.validation]
    # The learner must not look at true labels.
    others = [replace(each, true_labels=None) for each in (judged, own, *unseen)]
    probs, own_probs, *validation = learner.predict_stages(prepared, others, seed)
    found = validation[0] if unseen else None
    alike = data.train.counts_alike
    return _Fold(judged.labels, probs, own.labels, own_probs, judged.votes, found, alike)


def _for_validation(fold: _Fold, stage: int, data: TrainingData) -> OutOfFold | None:
    examples, positions = data.validation, data.validation_positions
    if fold.validation is None or examples is None or positions is None:
        return None
    return OutOfFold(_logs(fold.validation[stage]), examples.labels, positions)


def half_folds(
    labels: Int64[Tensor, " n"], seed: int, groups: Int64[Tensor, " n"] | None = None
) -> Halves:
    """Return the positions of two halves, each with its share of every class; groups stay whole."""
    first = stratified_indices(labels, len(labels) // 2, seed, groups)
    is_first = torch.zeros(len(labels), dtype=torch.bool).index_fill_(0, first, True)
    return first, (~is_first).nonzero().squeeze(1)


def best_stage(hits: Bool[Tensor, "stages n"] | Float[Tensor, "stages n"]) -> int:
    """Return the stage at which most labels are predicted, on average with its neighbors."""
    return int(smooth(hits.double().mean(1)).argmax())


def smooth(
    curve: Float64[Tensor, " stages"], window: int = _SMOOTHING
) -> Float64[Tensor, " stages"]:
    """Return the running mean over a few stages, which has as many entries."""
    padded = F.pad(curve[None, None], (window // 2,) * 2, mode="replicate")
    return F.avg_pool1d(padded, window, stride=1).flatten()


def _logs(probs: Float32[Tensor, "*n classes"]) -> Float32[Tensor, "*n classes"]:
    return probs.clamp(min=_LEAST_PROBABILITY).log()


def some_examples(examples: Dataset, seed: int) -> Dataset:
    """Return some thousands of the examples with their shares of each class, whatever the order."""
    if len(examples) <= OWN_EXAMPLES:
        return examples
    return examples.subset(stratified_indices(examples.labels, OWN_EXAMPLES, seed))
