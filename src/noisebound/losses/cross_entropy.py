"""CE, the proper loss on which the others build."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from noisebound.losses.labels import refuse_out_of_range
from noisebound.losses.likelihood import LikelihoodLoss
from noisebound.losses.loss import Reduction
from noisebound.noise_models import Identity


def shannon_entropy(p: Float[Tensor, "*batch classes"]) -> Float[Tensor, "*batch"]:
    """Return ``-Σ_k p_k log p_k``, with ``0 log 0 = 0``: the entropy that belongs to CE."""
    entropies: Tensor = torch.special.entr(p).sum(-1)
    return entropies


class CrossEntropy(LikelihoodLoss):
    """Cross-entropy ``-log q_y``. Its noise model is the identity, its entropy Shannon's.

    The arguments are those of :class:`~noisebound.losses.loss.Loss`.

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

    def reduced(self, reduction: Reduction, logits: Tensor, labels: Tensor) -> Float[Tensor, "..."]:
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
