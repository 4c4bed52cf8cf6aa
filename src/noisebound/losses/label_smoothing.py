"""Label smoothing with a rate of either sign: negative rates sharpen noisy labels."""

from jaxtyping import Float
from torch import Tensor

from noisebound.checks import check_finite_number
from noisebound.errors import InvalidValueError
from noisebound.losses.cross_entropy import shannon_entropy
from noisebound.losses.loss import Loss, Pick, Reduction

_ROUNDING = 1e-9  # a smoothed probability as negative as this counts as zero: a choice


class LabelSmoothing(Loss):
    """Cross-entropy of smoothed labels, ``-(1-s) log q_y - (s/c) Σ_k log q_k``.

    A positive rate ``s`` is label smoothing (Szegedy et al., 2016), and the same as
    ``CrossEntropy(label_smoothing=s)``. A negative one is negative label smoothing (Wei et al.,
    2022), which takes noise out of the labels. At ``s = 1 - 1/(1-η-r)``, ``r = η/(c-1)``, it is the
    backward correction of symmetric noise.

    Its entropy is Shannon's of the smoothed distribution ``(1-s) p + s/c``. If that has a negative
    entry, which takes a negative rate, the expected loss has no minimum.

    Args:
        smoothing: the rate ``s``, at most 1; Szegedy et al. use 0.1.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        ignore_index: class index whose examples are left out.
        check_finite: True to refuse NaN and infinite logits.

    Example:
        >>> import noisebound as nb
        >>> loss = nb.LabelSmoothing(-0.4)
        >>> nb.noise_bound(loss, 0.4, 10) < nb.noise_bound(nb.CrossEntropy(), 0.4, 10)
        True
    """

    def __init__(
        self,
        smoothing: float = 0.1,
        *,
        reduction: Reduction = "mean",
        ignore_index: int = -100,
        check_finite: bool = False,
    ) -> None:
        super().__init__(reduction=reduction, ignore_index=ignore_index, check_finite=check_finite)
        self.smoothing = check_finite_number("smoothing", smoothing)
        if self.smoothing > 1:
            raise InvalidValueError(f"`smoothing` must be at most 1, got {smoothing!r}")

    def formula(
        self, log_q: Float[Tensor, "batch classes *positions"], at: Pick
    ) -> Float[Tensor, "batch one_or_all *positions"]:
        """Return ``-(1-s) log q_y - (s/c) Σ_k log q_k``."""
        return (self.smoothing - 1) * at(log_q) - self.smoothing * log_q.mean(1, keepdim=True)

    def entropy(self, p: Float[Tensor, "batch classes"]) -> Float[Tensor, " batch"]:
        """Return Shannon's entropy of ``(1-s) p + s/c``."""
        smoothed = (1 - self.smoothing) * p + self.smoothing / p.shape[1]
        if bool((smoothed < -_ROUNDING).any()):
            raise InvalidValueError(
                f"negative label smoothing by {self.smoothing:g} has no minimum here: it takes "
                "more noise out of the labels than is in them (a smoothed label has the "
                f"probability {smoothed.min():.3g}). Use a `smoothing` nearer to zero"
            )
        return shannon_entropy(smoothed.clamp(min=0))

    def hyperparameters(self) -> list[str]:
        """Return the rate as the repr shows it."""
        return [f"smoothing={self.smoothing:g}"]
