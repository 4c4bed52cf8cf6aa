"""The linear classifier behind the paper's non-uniform noise."""

import warnings
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64
from numpy.typing import NDArray
from torch import Tensor

from noisebound.errors import MissingExtraError

_ITERATIONS = 100  # a choice: the noise needs a plausible classifier, not a converged one


def linear_probabilities(
    inputs: Tensor | NDArray[Any], labels: Int64[Tensor, " n"], num_classes: int
) -> Float64[Tensor, "n classes"]:
    """Return class probabilities of the training examples, from multinomial regression on them.

    The inputs are flattened and standardized. The fit stops after 100 iterations, converged or not.
    It is deterministic.

    Args:
        inputs: the examples, one per row.
        labels: their class indices.
        num_classes: the number of classes; those without examples get probability zero.
    """
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
    except ModuleNotFoundError as missing:
        raise MissingExtraError(
            "noise by a linear classifier (pass `probs` to do without)", "scikit-learn", "cli"
        ) from missing

    rows = np.asarray(inputs.detach().cpu() if isinstance(inputs, Tensor) else inputs, np.float32)
    rows = rows.reshape(len(rows), -1)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=_ITERATIONS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(rows, labels.cpu().numpy())
    probs = torch.zeros(len(rows), num_classes, dtype=torch.float64)
    probs[:, torch.as_tensor(model.classes_)] = torch.as_tensor(
        model.predict_proba(rows), dtype=torch.float64
    )
    return probs
