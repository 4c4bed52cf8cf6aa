"""Part two of a cell: which labels are held for wrong, by us and by cleanlab."""

from typing import TypedDict

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from noisebound.estimation import estimate_noise, find_suspects
from noisebound.estimation.confident_learning import require_cleanlab
from noisebound.paper.runner.estimate_predictions import Predictions
from noisebound.paper.runner.label_findings import auroc, calibration_error


class SuspectFindings(TypedDict):
    """What is found, measured by what is true.

    Keys:
        noise_rate: the true share of wrong labels
        width: the width of our interval of the noise rate
        f1: of our suspects, whose probability is over one half; None if no label is wrong
        cleanlab_f1: of cleanlab's label issues, by the same predictions
        auroc: of our ranking; None if no label is wrong
        self_confidence_auroc: of ranking by the probability of the label
        calibration_error: the mean distance between our probability that a label is wrong and how
            often it is, in ten equal parts
    """

    noise_rate: float
    width: float
    f1: float | None
    cleanlab_f1: float | None
    auroc: float | None
    self_confidence_auroc: float | None
    calibration_error: float


def suspect_findings(found: Predictions) -> SuspectFindings:
    """Return how well wrong labels are found by the first set of predictions."""
    require_cleanlab()
    from cleanlab.filter import find_label_issues

    probs, labels = found.first, found.labels
    is_wrong = labels != found.true_labels
    suspects = find_suspects(probs, labels)
    issues = torch.from_numpy(find_label_issues(labels.numpy(), probs.numpy(), n_jobs=1))
    low, high = estimate_noise(probs, labels).interval
    own = probs.gather(1, labels[:, None]).squeeze(1)
    return SuspectFindings(
        noise_rate=found.noise_rate,
        width=high - low,
        f1=f1_score(suspects.probability > 0.5, is_wrong),
        cleanlab_f1=f1_score(issues, is_wrong),
        auroc=auroc(suspects.score, is_wrong),
        self_confidence_auroc=auroc(-own, is_wrong),
        calibration_error=calibration_error(suspects.probability, is_wrong),
    )


def f1_score(is_found: Bool[Tensor, " n"], is_wrong: Bool[Tensor, " n"]) -> float | None:
    """Return the harmonic mean of precision and recall; None if no label is wrong."""
    if not is_wrong.any():
        return None
    hits: Float[Tensor, ""] = (is_found & is_wrong).sum()
    return float(2 * hits / (is_found.sum() + is_wrong.sum()))
