"""Anchor points: an example that surely belongs to a class shows how its labels fall."""

from jaxtyping import Float64, Int64
from torch import Tensor

from noisebound.estimation.agreement import observed_given_predicted

_SURE_PART = 0.3  # of a class of mean size; for ten classes the usual quantile of 97 %


def anchor_transition(
    probs: Float64[Tensor, "n classes"],
) -> Float64[Tensor, "classes classes"]:
    """Return the matrix whose column ``k`` is the prediction at the surest example of class ``k``.

    The very surest may be an outlier, so the one at a high quantile is taken (Liu and Tao, 2016;
    Patrini et al., 2017).
    """
    quantile = 1 - _SURE_PART / probs.shape[1]
    anchors = probs.argsort(0)[round(quantile * (len(probs) - 1))]
    return probs[anchors].T.clone()


def dual_transition(
    probs: Float64[Tensor, "n classes"], labels: Int64[Tensor, " n"]
) -> Float64[Tensor, "classes classes"]:
    """Return the matrix by Dual-T (Yao et al., 2020), in two steps over the predicted class.

    From the true class to the predicted one by anchor points, from there to the observed label by
    counting. It is made for a network that has memorized its training labels, and its predictions
    on those: with out-of-fold predictions both steps hold the noise, and it counts twice.
    """
    transition = observed_given_predicted(probs, labels) @ anchor_transition(probs)
    return transition / transition.sum(0)
