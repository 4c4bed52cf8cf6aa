"""Noise rates and consensus from several labels per example, beside majority vote and crowd-kit.

    pip install -c constraints.txt crowd-kit
    python benchmarks/annotators.py --ratings hutto_ICWSM_2014.tar.gz --out results/annotators

Predictions are out of fold, by logistic regression on embeddings. crowd-kit gets the same labels;
it has no use for predictions. Without names, its workers are the columns.
"""

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from torch import Tensor
from torch.nn.functional import one_hot

import noisebound as nb
from annotator_settings import SETTINGS, Labeled, Setting, labeled
from cells import argument_parser, measure, table

_PENALTY = 1.0  # scikit-learn's C, not tuned
_FOLDS = 3
_TRAINED_SHARE = 0.7
_CROWD_KIT = {
    "dawid-skene": ("DawidSkene", {"n_iter": 100}),
    "glad": ("GLAD", {"n_iter": 50}),
    "mace": ("MACE", {"n_restarts": 3, "n_iter": 30}),
}


def measured(cell: Mapping[str, Any], ratings: Path | None, data_dir: Path | None) -> Any:
    """Return what a setting shows with one seed."""
    setting = next(each for each in SETTINGS if each.name == cell["setting"])
    data = labeled(setting, cell["seed"], ratings, data_dir)
    has = data.labels >= 0
    probs = out_of_fold(data.inputs, data.labels, data.num_classes, cell["seed"])
    found = nb.estimate_annotators(data.labels, probs, names=data.names)
    alone = nb.estimate_annotators(data.labels, names=data.names)
    first = data.labels.gather(1, has.long().argmax(1)[:, None]).squeeze(1)
    single = nb.estimate_noise(probs, first)
    wrong = (data.labels != data.true[:, None]) & has
    result = {
        "half": setting.half,
        "shown": setting.shown,
        "true_rate": float(wrong.sum() / has.sum()),
        "rate": found.noise_rate,
        "low": found.interval[0],
        "high": found.interval[1],
        "correlation": found.correlation,
        "rate_without_model": alone.noise_rate,
        "low_without_model": alone.interval[0],
        "high_without_model": alone.interval[1],
        "rate_by_pairs": rate_by_pairs(data.labels, data.num_classes),
        "rate_by_one_label": single.noise_rate,
        "low_by_one_label": single.interval[0],
        "high_by_one_label": single.interval[1],
        "model": _share(probs.argmax(1) == data.true),
        "majority": _share(majority(data.labels, data.num_classes, cell["seed"]) == data.true),
        "noisebound": _share(found.consensus_labels == data.true),
        "without_model": _share(alone.consensus_labels == data.true),
        "consensus_rate": found.consensus_rate,
    }
    if data.names is not None:
        rates = wrong.sum(0) / has.sum(0)
        inside = (found.intervals[:, 0] <= rates) & (rates <= found.intervals[:, 1])
        result["annotator_error"] = float((found.error_rates - rates).abs().mean())
        result["annotator_holds"] = float(inside.double().mean())
    for name in _CROWD_KIT if find_spec("crowdkit") else ():
        result[name] = _share(_by_crowd_kit(name, data.labels) == data.true)
    return result | _test_accuracies(data, found.consensus, cell["seed"])


def _share(is_true: Tensor) -> float:
    return float(is_true.double().mean())


def out_of_fold(inputs: Tensor, labels: Tensor, num_classes: int, seed: int) -> Tensor:
    """Return probabilities of the noisy label, by models that were trained on other examples."""
    probs = torch.zeros(len(labels), num_classes, dtype=torch.float64)
    votes = vote_shares(labels, num_classes)
    for train, test in KFold(_FOLDS, shuffle=True, random_state=seed).split(inputs):
        probs[test] = _fitted(inputs[train], votes[train])(inputs[test])
    return probs


def vote_shares(labels: Tensor, num_classes: int) -> Tensor:
    """Return the share of each label of an example."""
    counts = one_hot(labels + 1, num_classes + 1).sum(1)[:, 1:].double()
    return counts / counts.sum(1, keepdim=True).clamp(min=1)


def _fitted(inputs: Tensor, targets: Tensor) -> Any:
    """Return the predictions of a logistic regression on probabilities as targets."""
    rows, classes = (targets > 0).nonzero(as_tuple=True)
    model = LogisticRegression(C=_PENALTY, max_iter=200)
    model.fit(inputs[rows].double().numpy(), classes.numpy(), targets[rows, classes].numpy())

    def predict(new: Tensor) -> Tensor:
        probs = torch.zeros(len(new), targets.shape[1], dtype=torch.float64)
        probs[:, model.classes_] = torch.from_numpy(model.predict_proba(new.double().numpy()))
        return probs

    return predict


def majority(labels: Tensor, num_classes: int, seed: int) -> Tensor:
    """Return the most frequent label of each example, ties at random."""
    shares = vote_shares(labels, num_classes)
    ties = torch.rand(shares.shape, generator=torch.Generator().manual_seed(seed))
    return (shares + 1e-3 * ties).argmax(1)


def rate_by_pairs(labels: Tensor, num_classes: int) -> float:
    """Return the rate at which two independent labels agree as often as the first two do."""
    first = (labels < 0).long().argsort(dim=1, stable=True)[:, :2]
    pairs = labels.gather(1, first)
    agreement = _share(pairs[:, 0] == pairs[:, 1])
    rates = np.linspace(0, 1 - 1 / num_classes, 10_001)
    expected = (1 - rates) ** 2 + rates**2 / (num_classes - 1)
    return float(rates[np.abs(expected - agreement).argmin()])


def _by_crowd_kit(name: str, labels: Tensor) -> Tensor:
    import pandas as pd
    from crowdkit import aggregation

    tasks, workers = (labels >= 0).nonzero(as_tuple=True)
    frame = pd.DataFrame({"task": tasks, "worker": workers, "label": labels[tasks, workers]})
    method, options = _CROWD_KIT[name]
    np.random.seed(0)  # noqa: NPY002 (MACE and GLAD draw from it)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = getattr(aggregation, method)(**options).fit_predict(frame)
    return torch.from_numpy(found.sort_index().to_numpy().astype(np.int64))


def _test_accuracies(data: Labeled, consensus: Tensor, seed: int) -> dict[str, float]:
    """Return accuracies on true labels, after training on three kinds of targets."""
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(data.true)))
    train, test = order.tensor_split([round(_TRAINED_SHARE * len(order))])
    votes = vote_shares(data.labels, data.num_classes)
    targets = {
        "majority": one_hot(majority(data.labels, data.num_classes, seed), data.num_classes),
        "votes": votes,
        "consensus": consensus,
    }
    return {
        f"test_{name}": _share(
            _fitted(data.inputs[train], each[train].double())(data.inputs[test]).argmax(1)
            == data.true[test]
        )
        for name, each in targets.items()
    }


def summary(frame: pl.DataFrame) -> str:
    """Return the tables of the README."""
    holds = (pl.col("low") <= pl.col("true_rate")) & (pl.col("true_rate") <= pl.col("high"))
    frame = frame.with_columns(
        (pl.col("rate") - pl.col("true_rate")).abs().alias("error"),
        (pl.col("rate_without_model") - pl.col("true_rate")).abs().alias("error_without_model"),
        (pl.col("rate_by_pairs") - pl.col("true_rate")).abs().alias("error_by_pairs"),
        (pl.col("high") - pl.col("low")).alias("width"),
        (pl.col("high_by_one_label") - pl.col("low_by_one_label")).alias("width_by_one_label"),
        holds.cast(pl.Float64).alias("holds"),
    )
    kinds = {
        "rates": (
            "true_rate error holds width error_without_model error_by_pairs width_by_one_label",
            ".3f",
            1.0,
        ),
        "consensus, % right": (
            "majority dawid-skene glad mace noisebound without_model model",
            ".1f",
            100.0,
        ),
        "test accuracy, %": ("test_majority test_votes test_consensus", ".1f", 100.0),
    }
    parts = []
    for title, (columns, form, factor) in kinds.items():
        known = [name for name in columns.split() if name in frame.columns]
        long = frame.unpivot(known, index=["setting", "seed"], variable_name="measure")
        text = table(long, "setting", "measure", "value", form=form, factor=factor)
        parts.append(f"## {title}\n\n{text}")
    return "\n\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the settings, write a CSV file and print the tables."""
    parser = argument_parser(__doc__)
    parser.add_argument("--ratings", type=Path, help="hutto_ICWSM_2014.tar.gz of vaderSentiment")
    parser.add_argument("--half", choices=["dev", "judge", "both"], default="both")
    options = parser.parse_args(arguments)
    chosen: list[Setting] = [
        each
        for each in SETTINGS
        if options.half in ("both", each.half)
        and (not options.columns or each.dataset in options.columns or each.name in options.columns)
    ]
    if options.quick:
        chosen, options.seeds = [each for each in SETTINGS if each.name == "topics-3"], 1
    cells = [
        {"setting": each.name, "seed": seed} for each in chosen for seed in range(options.seeds)
    ]
    run = partial(measured, ratings=options.ratings, data_dir=options.data_dir)
    frame = measure(cells, run, options.out, options.jobs)
    frame.write_csv(options.out / "annotators.csv", float_precision=5)
    print(summary(frame))


if __name__ == "__main__":
    main()
