"""Anchor points: an example that surely is of a class shows how the labels of that class fall."""

from jaxtyping import Float64, Int64
from torch import Tensor

from noisebound.estimation.agreement import observed_given_predicted

_SURE_PART = 0.3  # of a class of mean size; for ten classes the usual quantile of 97 %


def anchor_transition(
    probs: Float64[Tensor, "n classes"],
) -> Float64[Tensor, "classes classes"]:
    """``T[:, k]`` is the prediction at the example that is most surely of class ``k``.

    The very surest may be an outlier, so the one at a high quantile is taken (Liu and Tao, 2016;
    Patrini et al., 2017).
    """
    quantile = 1 - _SURE_PART / probs.shape[1]
    anchors = probs.argsort(0)[round(quantile * (len(probs) - 1))]
    return probs[anchors].T.clone()


def dual_transition(
    probs: Float64[Tensor, "n classes"], labels: Int64[Tensor, " n"]
) -> Float64[Tensor, "classes classes"]:
    """Dual-T (Yao et al., 2020): by way of the predicted class, in two steps.

    From the true class to the predicted one by anchor points, from there to the observed label by
    counting. It is made for a network that has learnt its training labels, and its predictions on
    those: with out-of-sample predictions both steps hold the noise, and it counts twice.
    """
    transition = observed_given_predicted(probs, labels) @ anchor_transition(probs)
    return transition / transition.sum(0)
