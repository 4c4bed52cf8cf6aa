"""Part three of a cell: the accuracy of one method on clean test labels.

Networks are all trained alike, and nothing of them is tuned. The methods of scikit-learn are given
a search: each takes the candidate that predicts most noisy labels out of fold.
"""

import warnings
from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np
from lightning_fabric import Fabric
from numpy.typing import NDArray

from noisebound.data import Dataset
from noisebound.errors import InvalidValueError
from noisebound.estimation.confident_learning import require_cleanlab
from noisebound.paper.protocol.estimate_data import NoisyData
from noisebound.paper.protocol.estimate_settings import EstimateSetting
from noisebound.paper.runner.estimate_predictions import training_config
from noisebound.training import Fitting, TrainingConfig
from noisebound.training.data import TrainingData, normalization_of
from noisebound.training.fit import network_for

METHOD_LABELS = {
    "auto": "auto",
    "plain": "plain",
    "ce+b": "CE+B, told the rate",
    "sce+b": "SCE+B, told the rate",
    "logistic": "logistic regression",
    "boosting": "HistGradientBoosting",
    "cleanlab": "cleanlab's CleanLearning",
}
"""The methods by name, with their headings in the table."""

_FOLDS = 3  # of the search among candidates
_STRENGTHS = (0.01, 0.1, 1.0, 10.0)  # C of logistic regression
_MOST_COLUMNS = 64  # that boosting gets of pixels and embeddings, or it would take minutes


class AccuracyFindings(TypedDict):
    """What a method reaches.

    Keys:
        accuracy: the share of clean test labels that it predicts
        chosen: the recipe or the candidate that was chosen; empty if there was no choice
    """

    accuracy: float
    chosen: str


def check_estimate_methods(names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the methods, or raise an error that names the first unknown one."""
    for name in names or ():
        if name not in METHOD_LABELS:
            raise InvalidValueError(
                f"unknown method {name!r}: `methods` takes {', '.join(METHOD_LABELS)}"
            )
    return tuple(METHOD_LABELS) if names is None else tuple(names)


def accuracy_findings(
    method: str, setting: EstimateSetting, data: NoisyData, seed: int
) -> AccuracyFindings:
    """Return the accuracy of a method.

    Args:
        method: a name of `METHOD_LABELS`
        setting: the setting
        data: its examples
        seed: of the network, or of the folds
    """
    if method in ("logistic", "boosting", "cleanlab"):
        with warnings.catch_warnings():
            from sklearn.exceptions import ConvergenceWarning

            warnings.simplefilter("ignore", ConvergenceWarning)  # the search judges what came of it
            return _by_sklearn(method, setting, data, seed)
    config = training_config(setting, seed)
    true = data.train.true_labels
    assert true is not None
    rate = (data.train.labels != true).double().mean().item()
    changes: dict[str, dict[str, Any]] = {
        "auto": {
            "recipe": "auto",
            "noise_rate": "auto",
            "loss": TrainingConfig().loss,  # a recipe brings its own
        },
        "plain": {},
        "ce+b": {"loss": "ce+b", "noise_rate": rate},
        "sce+b": {"loss": "sce+b", "noise_rate": rate},
    }
    return _by_network(config.model_copy(update=changes[method]), data)


def _by_network(config: TrainingConfig, data: NoisyData) -> AccuracyFindings:
    train = data.train
    fitting = Fitting(
        TrainingData(train, None, data.test, normalization_of(train)),
        config,
        network_for(train, config),
        fabric=Fabric(accelerator="cpu", devices=1),
        show=False,
    ).run()
    accuracy = fitting.history[-1].averaged_test_top1
    assert accuracy is not None
    chosen = "" if fitting.choice is None else fitting.choice.chosen.name
    return AccuracyFindings(accuracy=accuracy, chosen=chosen)


def _by_sklearn(
    method: str, setting: EstimateSetting, data: NoisyData, seed: int
) -> AccuracyFindings:
    inputs, labels = _arrays(data.train)
    kinds = {"logistic": ("logistic",), "boosting": ("boosting",)}.get(
        method, ("logistic", "boosting")
    )
    candidates = {
        name: model
        for kind in kinds
        for name, model in _candidates(kind, setting.world != "tables", seed).items()
    }
    name, model = _best(candidates, inputs, labels, seed)
    if method == "cleanlab":
        require_cleanlab()
        from cleanlab.classification import CleanLearning

        model = CleanLearning(model, seed=seed, find_label_issues_kwargs={"n_jobs": 1})
    model.fit(inputs, labels)
    test_inputs, test_labels = _arrays(data.test)
    accuracy = float((np.asarray(model.predict(test_inputs)) == test_labels).mean())
    return AccuracyFindings(accuracy=accuracy, chosen=name)


def _candidates(kind: str, is_wide: bool, seed: int) -> dict[str, Any]:
    from sklearn.decomposition import PCA
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if kind == "logistic":
        return {
            f"logistic C={strength:g}": make_pipeline(
                StandardScaler(), LogisticRegression(C=strength, max_iter=300)
            )
            for strength in _STRENGTHS
        }
    models = {
        f"boosting {leaves} leaves": HistGradientBoostingClassifier(
            max_leaf_nodes=leaves, early_stopping=True, random_state=seed
        )
        for leaves in (7, 31)
    }
    if not is_wide:
        return dict(models)
    return {
        name: make_pipeline(PCA(_MOST_COLUMNS, random_state=seed), model)
        for name, model in models.items()
    }


def _best(
    candidates: dict[str, Any], inputs: NDArray[Any], labels: NDArray[Any], seed: int
) -> tuple[str, Any]:
    """Return the candidate that predicts most noisy labels out of fold."""
    from sklearn.model_selection import KFold, cross_val_score

    folds = KFold(_FOLDS, shuffle=True, random_state=seed)
    scores = {
        name: cross_val_score(model, inputs, labels, cv=folds).mean()
        for name, model in candidates.items()
    }
    name = max(scores, key=lambda each: scores[each])
    return name, candidates[name]


def _arrays(data: Dataset) -> tuple[NDArray[Any], NDArray[Any]]:
    return data.dense_inputs.flatten(1).float().numpy(), data.labels.numpy()
