"""Which examples are alike: the nearest ones to an example, found when they are asked for."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from noisebound.data import Splits
from noisebound.data.rows import Rows, TensorRows


class Neighbors:
    """The nearest neighbors of examples.

    Embeddings of a pretrained backbone are compared by their angle. Other examples are compared by
    the probabilities that the model gives them, because neither pixels nor columns tell what is
    alike. One request goes once through all examples, so nothing is prepared or kept.

    Args:
        vectors: one row per example, in which similar examples point in similar directions
    """

    def __init__(self, vectors: Rows) -> None:
        self.vectors = vectors

    @classmethod
    def of(cls, splits: Splits, probs: Float[Tensor, "n classes"]) -> "Neighbors":
        """Return the neighbors by what is known of the training examples.

        Args:
            splits: the data
            probs: what the model predicts for each training example
        """
        rows = splits.train.rows
        is_embedded = splits.embedded_by is not None and isinstance(rows, TensorRows)
        # The square roots of probabilities are vectors of length one.
        return cls(rows if is_embedded else TensorRows(probs.float().sqrt()))

    def nearest(self, position: int, count: int) -> Int64[Tensor, " m"]:
        """Return the positions nearest to an example, without itself, the nearest first.

        Args:
            position: of the example
            count: how many neighbors to return, at most
        """
        center = self.vectors.dense(torch.tensor([position]))[0].float()
        likeness = torch.cat([_cosine(block.float(), center) for block in self.vectors.blocks()])
        likeness[position] = -torch.inf
        nearest: Tensor = likeness.topk(min(count, len(likeness) - 1)).indices
        return nearest


def _cosine(rows: Float[Tensor, "m dim"], center: Float[Tensor, " dim"]) -> Float[Tensor, " m"]:
    lengths = rows.norm(dim=1) * center.norm()
    cosine: Tensor = rows @ center / lengths.clamp(min=torch.finfo(torch.float32).tiny)
    return cosine
