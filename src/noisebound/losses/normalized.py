"""NCE-MAE: the sum of normalized cross-entropy and MAE."""

from jaxtyping import Float
from torch import Tensor

from noisebound.checks import ArrayLike, check_non_negative
from noisebound.losses.loss import Loss, Pick, Reduction
from noisebound.losses.mean_absolute_error import least_mean_absolute_error, mean_absolute_error


def normalized_cross_entropy_mae(
    log_q: Float[Tensor, "batch classes *positions"], at: Pick, alpha: float, beta: float
) -> Float[Tensor, "batch one_or_all *positions"]:
    """Return ``alpha log q_y / Σ_k log q_k + beta (1 - q_y)``."""
    normalized = at(log_q) / log_q.sum(1, keepdim=True)
    return alpha * normalized + beta * mean_absolute_error(-at(log_q))


class NormalizedCrossEntropyMAE(Loss):
    """``alpha · log q_y / Σ_k log q_k + beta · (1 - q_y)`` (Ma et al., 2020).

    No noise model makes it a proper loss. Its Bayes risk ``alpha min_k p_k + beta (1 - max_k p_k)``
    is a limit that no prediction reaches: the likeliest class gets all of the probability, and that
    of the least likely class vanishes fastest.

    Args:
        alpha: weight of the normalized cross-entropy, at least zero.
        beta: weight of MAE, at least zero.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        ignore_index: class index whose examples are left out.
        weight: one weight per class, at least zero.
        label_smoothing: share of each label that is spread evenly over all classes, in ``[0, 1]``.
        check_finite: True to refuse NaN and infinite logits.

    Example:
        >>> import noisebound as nb, torch
        >>> nb.NormalizedCrossEntropyMAE()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(1.)
    """

    def __init__(
        self,
        alpha: float = 1.0,
        beta: float = 1.0,
        *,
        reduction: Reduction = "mean",
        ignore_index: int = -100,
        weight: ArrayLike | None = None,
        label_smoothing: float = 0.0,
        check_finite: bool = False,
    ) -> None:
        super().__init__(
            reduction=reduction,
            ignore_index=ignore_index,
            weight=weight,
            label_smoothing=label_smoothing,
            check_finite=check_finite,
        )
        self.alpha = check_non_negative("alpha", alpha)
        self.beta = check_non_negative("beta", beta)

    def formula(
        self, log_q: Float[Tensor, "batch classes *positions"], at: Pick
    ) -> Float[Tensor, "batch one_or_all *positions"]:
        """Return ``alpha log q_y / Σ_k log q_k + beta (1 - q_y)``."""
        return normalized_cross_entropy_mae(log_q, at, self.alpha, self.beta)

    def entropy(self, p: Float[Tensor, "batch classes"]) -> Float[Tensor, " batch"]:
        """Return ``alpha min_k p_k + beta (1 - max_k p_k)``."""
        return self.alpha * p.amin(-1) + self.beta * least_mean_absolute_error(p)

    def hyperparameters(self) -> list[str]:
        """Return ``alpha`` and ``beta`` as the repr shows them."""
        return [f"alpha={self.alpha:g}", f"beta={self.beta:g}"]
