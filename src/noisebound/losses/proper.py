"""Proper losses: CE, on which the others build, MSE and the spherical score."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from noisebound.losses.labels import refuse_out_of_range
from noisebound.losses.loss import (
    AtLabels,
    ClassScores,
    LikelihoodLoss,
    Loss,
    Pick,
    Reduction,
)
from noisebound.noise_models import Identity


def shannon_entropy(p: Float[Tensor, "*batch classes"]) -> Float[Tensor, "*batch"]:
    """Return ``-Σ_k p_k log p_k``, with ``0 log 0 = 0``: the entropy that belongs to CE."""
    entropies: Tensor = torch.special.entr(p).sum(-1)
    return entropies


class CrossEntropy(LikelihoodLoss):
    """Cross-entropy ``-log q_y``. Its noise model is the identity, its entropy Shannon's.

    Example:
        >>> import noisebound as nb, torch
        >>> nb.CrossEntropy()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(1.3863)
        >>> round(nb.noise_bound(nb.CrossEntropy(), noise_rate=0.4, num_classes=2), 3)
        0.673
    """

    noise_model = Identity()

    def of_surprisal(self, surprisal: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return ``-log q_y``."""
        return surprisal

    def reduced(self, reduction: Reduction, logits: Tensor, labels: Tensor) -> Tensor:
        """Return torch's own cross-entropy, which is one call."""
        logits = self.check_logits(logits, labels)
        labels = labels.to(logits.dtype) if labels.is_floating_point() else labels.long()
        try:
            return F.cross_entropy(
                logits,
                labels,
                weight=None if self.weight is None else self.weight.to(logits),
                ignore_index=self.ignore_index,
                reduction=reduction,
                label_smoothing=self.label_smoothing,
            )
        except IndexError:
            refuse_out_of_range(labels, logits.shape[1], self.ignore_index)
            raise


class MeanSquaredError(Loss):
    """Mean squared error ``Σ_k (q_k - 1[k=y])²``, the Brier score.

    Its noise model is the identity, its entropy ``1 - Σ_k p_k²``. For class probabilities ``t`` it
    is the expected loss, ``Σ_k (q_k - t_k)²`` plus a constant.

    Example:
        >>> import noisebound as nb, torch
        >>> nb.MeanSquaredError()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.7500)
    """

    noise_model = Identity()

    def formula(self, log_q: ClassScores, at: Pick) -> AtLabels:
        """Return ``Σ_k q_k² - 2 q_y + 1``."""
        q = log_q.exp()
        return q.square().sum(1, keepdim=True) - 2 * at(q) + 1


class Spherical(Loss):
    """Spherical score ``-q_y / ‖q‖₂``. Its noise model is the identity, its entropy ``-‖p‖₂``.

    Example:
        >>> import noisebound as nb, torch
        >>> nb.Spherical()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(-0.5000)
    """

    noise_model = Identity()

    def formula(self, log_q: ClassScores, at: Pick) -> AtLabels:
        """Return ``-q_y / ‖q‖₂``."""
        q = log_q.exp()
        return -at(q) / q.square().sum(1, keepdim=True).sqrt()
