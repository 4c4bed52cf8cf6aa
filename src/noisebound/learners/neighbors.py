"""Nearest neighbors: each class is as probable as its share among the nearest examples."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Float32
from sklearn.neighbors import NearestNeighbors
from torch import Tensor, nn

from noisebound.data import Dataset
from noisebound.learners.learner import Arrays, Inputs, Staged, as_matrix, inputs_of
from noisebound.training.config import LearnerName
from noisebound.training.data import TrainingData

_COUNTS = (100, 50, 25, 12, 6, 3)
_METRICS = ("euclidean", "cosine")
_ROWS_AT_ONCE = 1_024


class Neighbors:
    """Shares of the classes among neighbors; its stages are a metric and a number of neighbors."""

    name: LearnerName = "neighbors"
    stages = tuple((metric, count) for metric in _METRICS for count in _COUNTS)

    def describe(self, stage: int) -> str:
        metric, count = self.stages[stage]
        return f"{count} neighbors by {'cosine' if metric == 'cosine' else 'Euclidean distance'}"

    def predict_stages(
        self, data: TrainingData, others: Sequence[Dataset], seed: int
    ) -> list[Staged]:
        """Find the neighbors of other examples, and predict by fewer and fewer of them."""
        examples = Arrays.of(data)
        fitted = [FittedNeighbors.of(examples, metric, max(_COUNTS)) for metric in _METRICS]
        found = []
        for other in others:
            inputs = inputs_of(other, data.normalization)
            stages = [each.probabilities(inputs, _COUNTS) for each in fitted]
            found.append(torch.cat(stages))
        return found

    def fit(self, data: TrainingData, stage: int, seed: int) -> nn.Module:
        return FittedNeighbors.of(Arrays.of(data), *self.stages[stage])


class FittedNeighbors(nn.Module):
    """Votes of the nearest examples, as a network from normalized inputs to log-probabilities.

    The votes of an example are its weighted class probabilities.
    """

    votes: Float32[Tensor, "n classes"]

    def __init__(self, estimator: NearestNeighbors, votes: Float32[Tensor, "n classes"]) -> None:
        super().__init__()
        self.estimator = estimator
        self.register_buffer("votes", votes)

    @classmethod
    def of(cls, examples: Arrays, metric: str, count: int) -> "FittedNeighbors":
        count = min(count, len(examples.labels))
        estimator = NearestNeighbors(n_neighbors=count, metric=metric, algorithm="brute")
        votes = torch.from_numpy(examples.targets)
        if examples.weights is not None:
            votes = votes * torch.from_numpy(examples.weights / examples.weights.mean())[:, None]
        return cls(estimator.fit(examples.inputs), votes.float())

    def forward(self, inputs: Float[Tensor, "n ..."]) -> Float[Tensor, "n classes"]:
        count = self.estimator.n_neighbors
        return self.probabilities(as_matrix(inputs), (count,))[0].log().to(inputs.device)

    def probabilities(self, inputs: Inputs, counts: Sequence[int]) -> Staged:
        """Return the classes' shares among some numbers of neighbors.

        The shares among all examples count as one more neighbor, so that none is zero.
        """
        parts = []
        prior = self.votes.sum(0) / self.votes.sum()
        for start in range(0, inputs.shape[0], _ROWS_AT_ONCE):
            block = inputs[start : start + _ROWS_AT_ONCE]
            nearest = torch.from_numpy(self.estimator.kneighbors(block, return_distance=False))
            sums = torch.stack([self.votes[nearest[:, :count]].sum(1) for count in counts])
            parts.append((sums + prior) / (sums.sum(2, keepdim=True) + 1))
        if not parts:
            return torch.empty(len(counts), 0, self.votes.shape[1])
        return torch.cat(parts, dim=1).float().clamp(min=torch.finfo(torch.float32).tiny)
