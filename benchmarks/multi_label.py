"""Compare suspects and trainings on multi-label data with planted noise.

    NOISEBOUND_DATA=… python benchmarks/multi_label.py suspects --out results/multi_label
    NOISEBOUND_DATA=… python benchmarks/multi_label.py training --out results/multi_label
    python benchmarks/multi_label.py floors --out results/multi_label
    python benchmarks/multi_label.py cost --out .

Label sets come from real data: attributes of a digit or a garment, the digits on a picture of two,
the topics of two news texts. Constants of the library were chosen on the data sets of `DEV`, which
come with scikit-learn.

- suspects: F1 at a probability of one half and AUROC of noisebound and cleanlab, from the same
  out-of-fold probabilities; the error of the estimated rates, and how often their intervals hold
- training: macro-F1 and average precision on clean test labels, with the estimated rates;
  ``--methods fit`` measures `nb.fit`, which takes minutes per cell
- floors: each label held at its own floor, or the mean of all at the mean floor
- cost: the time of a step of `BinaryCrossEntropy` and `PerLabel` beside torch's own loss
"""

import time
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.datasets import load_digits
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score
from sklearn.model_selection import KFold
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

import noisebound as nb
from cells import argument_parser, measure, table, write
from noisebound.data import Dataset
from noisebound.paper.run import DataSources

DEV = ("digits", "digit-pairs", "rare-digits")
JUDGE = ("mnist-pairs", "mnist-overlaid", "fashion-attributes", "news-pairs")
NOISE = {"missing-0.2": (0.2, 0.0), "missing-0.4": (0.4, 0.0), "flip-0.2": (0.2, 0.2)}
LEARNERS = ("trees", "linear")
NETWORKS = ("bce", "asymmetric", "bce+b", "fce+b")
BATCH, RATE, WIDTH = 100, 1e-3, 256

_ODD, _ABOVE_FOUR, _WITH_LOOP = (1, 3, 5, 7, 9), (5, 6, 7, 8, 9), (0, 6, 8, 9)
_UPPER, _SLEEVES, _SHOES, _LEGS, _BAG = (0, 2, 3, 4, 6), (2, 4, 6), (5, 7, 9), (1, 3), (8,)
_RARER = 0.6  # in `rare-digits`, each digit is as frequent as the one before times this


class Problem(NamedTuple):
    """Features and true labels ``[examples, labels]``, for training and for testing."""

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    test_x: NDArray[np.float32]
    test_y: NDArray[np.int64]


@lru_cache(1)
def problem(name: str, seed: int, data_dir: Path | None, size: float) -> Problem:
    """Return a problem whose examples the seed draws."""
    train, test = _classes(name, data_dir)
    random = np.random.default_rng(seed)
    sizes = round(2_000 * size), round(1_500 * size)
    parts = [_labeled(name, *part, n, random) for part, n in zip((train, test), sizes, strict=True)]
    return Problem(*parts[0], *parts[1])


@cache
def _classes(name: str, data_dir: Path | None) -> list[tuple[NDArray[np.float32], NDArray[Any]]]:
    """Return features and one class per example, for training and for testing."""
    if name in DEV:
        x, y = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(y))
        x, y = x[order].astype(np.float32), y[order]
        return [(x[:1200], y[:1200]), (x[1200:], y[1200:])]
    dataset = {"mnist": "mnist", "fashion": "fashion-mnist", "news": "noisy-ag-news"}
    splits = DataSources(data_dir).load(dataset[name.partition("-")[0]])
    assert splits.test is not None
    if name == "news-pairs":
        words = [_words(each) for each in (splits.train, splits.test)]
        svd = TruncatedSVD(200, random_state=0).fit(words[0])
        rows = [svd.transform(each).astype(np.float32) for each in words]
    else:  # means of 2 by 2 pixels
        pictures = [
            each.dense_inputs.float().view(-1, 1, 28, 28) for each in (splits.train, splits.test)
        ]
        rows = [nn.functional.avg_pool2d(each, 2).flatten(1).numpy() for each in pictures]
    truth = [
        each.labels if each.true_labels is None else each.true_labels
        for each in (splits.train, splits.test)
    ]
    return [(x, y.numpy()) for x, y in zip(rows, truth, strict=True)]


def _words(data: Dataset) -> csr_array:
    matrix: csr_array = data.rows.matrix  # type: ignore[attr-defined]
    return matrix


def _labeled(
    name: str, x: NDArray[np.float32], y: NDArray[Any], n: int, random: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return examples with a 0/1 matrix: the attributes of a class, or a pair of classes."""
    attributes = {
        "digits": (_ODD, _ABOVE_FOUR, _WITH_LOOP),
        "fashion-attributes": (_UPPER, _SLEEVES, _SHOES, _LEGS, _BAG),
    }
    if name in attributes:
        chosen = random.permutation(len(y))[:n]
        labels = np.stack([np.isin(y[chosen], each) for each in attributes[name]], axis=1)
        return x[chosen], labels.astype(np.int64)
    shares = _RARER ** np.arange(10)[y] if name == "rare-digits" else np.ones(len(y))
    left, right = random.choice(len(y), (2, n), p=shares / shares.sum())
    labels = np.zeros((n, int(y.max()) + 1), np.int64)
    labels[np.arange(n), y[left]] = labels[np.arange(n), y[right]] = 1
    if name == "mnist-overlaid":
        return np.maximum(x[left], x[right]), labels
    if name == "news-pairs":
        return x[left] + x[right], labels
    return np.hstack([x[left], x[right]]), labels


def noisy_labels(true: NDArray[np.int64], noise: str, seed: int) -> Tensor:
    """Return the labels after noise of this kind."""
    kind, rate = noise.split("-")
    generator = torch.Generator().manual_seed(seed)
    return nb.corrupt(
        true, "missing" if kind == "missing" else "flip", float(rate), generator=generator
    ).labels


_PROBS: dict[tuple[Any, ...], NDArray[np.float64]] = {}


def out_of_fold(
    cell: Mapping[str, Any], data: Problem, labels: Tensor, learner: str
) -> NDArray[np.float64]:
    """Return the probabilities of all labels, by five folds; the same for all methods."""
    key = cell["data"], cell["noise"], cell["seed"], learner
    if key not in _PROBS:
        y, probs = labels.numpy(), np.zeros(labels.shape)
        for train, other in KFold(5, shuffle=True, random_state=0).split(data.x):
            probs[other] = _fitted(learner, data.x[train], y[train], data.x[other])
        _PROBS[key] = probs
    return _PROBS[key]


def _fitted(
    learner: str, x: NDArray[Any], y: NDArray[Any], new: NDArray[Any]
) -> NDArray[np.float64]:
    """Return the probability of each label for new examples."""
    model: Any = ExtraTreesClassifier(100, min_samples_leaf=2, random_state=0)
    if learner == "linear":
        linear = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=300))
        model = MultiOutputClassifier(linear)
    found = model.fit(x, y).predict_proba(new)
    return np.stack([each[:, 1] if each.shape[1] == 2 else 0 * each[:, 0] for each in found], 1)


def measured_suspects(cell: Mapping[str, Any], data: Problem) -> dict[str, float]:
    """Measure the suspects of one method, and the rates that noisebound estimates."""
    labels = noisy_labels(data.y, cell["noise"], cell["seed"])
    is_wrong = (labels.numpy() != data.y).ravel()
    probs = out_of_fold(cell, data, labels, cell["learner"])
    if cell["method"] == "cleanlab":
        found, score = _cleanlab(probs, labels)
        return _scores(is_wrong, found, score)
    suspects = nb.find_suspects(probs, labels, multi_label=True)
    probability = suspects.probability.numpy()
    estimate = nb.estimate_noise(probs, labels, multi_label=True)
    assert isinstance(estimate, nb.MultiLabelEstimate)
    errors, holds = [], []
    for value, rates, intervals in (
        (1, estimate.missed, estimate.missed_intervals),
        (0, estimate.added, estimate.added_intervals),
    ):
        belongs = data.y == value
        realized = ((labels.numpy() != data.y) & belongs).sum(0) / belongs.sum(0).clip(1)
        errors += np.abs(rates.numpy() - realized).tolist()
        low, high = intervals.numpy().T
        holds += ((low <= realized) & (realized <= high)).tolist()
    return {
        **_scores(is_wrong, probability > 0.5, suspects.score.numpy()),
        "rate_error": float(np.mean(errors)),
        "holds": float(np.mean(holds)),
    }


def _scores(is_wrong: Any, found: NDArray[Any], score: NDArray[Any]) -> dict[str, float]:
    return {
        "f1": float(f1_score(is_wrong, found.ravel())),
        "auroc": float(roc_auc_score(is_wrong, score.ravel())),
    }


def _cleanlab(probs: NDArray[np.float64], labels: Tensor) -> tuple[NDArray[Any], NDArray[Any]]:
    from cleanlab.multilabel_classification.filter import find_multilabel_issues_per_class
    from cleanlab.multilabel_classification.rank import get_label_quality_scores_per_class

    lists = [each.nonzero().flatten().tolist() for each in labels]
    issues = find_multilabel_issues_per_class(lists, probs, n_jobs=1)
    return np.asarray(issues), -get_label_quality_scores_per_class(lists, probs)


def trained(
    data: Problem, labels: Tensor, criterion: nn.Module, seed: int, epochs: int
) -> NDArray[np.float64]:
    """Return the test probabilities of a network with averaged weights."""
    torch.manual_seed(seed)
    x, test = map(torch.from_numpy, (data.x, data.test_x))
    mean, deviation = x.mean(0), x.std(0) + 1e-3 * x.std()
    x, test = (x - mean) / deviation, (test - mean) / deviation
    model = nn.Sequential(
        *(nn.Linear(x.shape[1], WIDTH), nn.ReLU()),
        *(nn.Linear(WIDTH, WIDTH), nn.ReLU()),
        nn.Linear(WIDTH, labels.shape[1]),
    )
    optimizer = torch.optim.Adam(model.parameters(), RATE)
    averaged = nb.AveragedWeights(model, steps=max(1, 5 * len(x) // BATCH))
    for _ in range(epochs):
        for part in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            criterion(model(x[part]), labels[part]).backward()
            optimizer.step()
            averaged.update_parameters(model)
    with torch.no_grad():
        return averaged(test).sigmoid().double().numpy()


def criterion_of(method: str, estimate: nb.MultiLabelEstimate) -> nn.Module:
    """Return a loss; the bounds and corrections use the estimated rates."""
    rates, num_labels = (estimate.missed, estimate.added), len(estimate.by_label)
    match method:
        case "asymmetric":
            return nb.PerLabel(nb.AsymmetricFocal())
        case "bce+b":
            return nb.NoiseBoundedLoss(nb.BinaryCrossEntropy(), rates, num_labels)
        case "bce+b-mean":
            return _MeanAtFloor(nb.BinaryCrossEntropy(), rates, num_labels)
        case "fce+b":
            forward = [nb.ForwardCrossEntropy(each) for each in estimate.transitions]
            return nb.NoiseBoundedLoss(nb.PerLabel(forward), rates, num_labels)
        case _:
            return nb.BinaryCrossEntropy()


class _MeanAtFloor(nn.Module):
    """The mean of all labels, held at the mean of their floors."""

    def __init__(self, loss: nb.PerLabel, rates: Any, num_labels: int) -> None:
        super().__init__()
        self.each = nb.NoiseBoundedLoss(loss, rates, num_labels)

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        self.each(logits.detach(), labels)  # for the floors
        return (self.each.loss(logits, labels) - self.each.bound).abs()


def measured_training(cell: Mapping[str, Any], data: Problem, epochs: int) -> dict[str, float]:
    """Measure the predictions of one method for the test set."""
    labels, seed = noisy_labels(data.y, cell["noise"], cell["seed"]), cell["seed"]
    begin = time.process_time()
    middle = np.full(labels.shape[1], 0.5)
    if cell["method"] == "fit":
        run = nb.fit((data.x, labels.numpy()), seed=seed, quick=True, show=False, report=False)
        probs = run.predict_proba(data.test_x)
    elif cell["method"] in LEARNERS:
        probs = _fitted(cell["method"], data.x, labels.numpy(), data.test_x)
    else:
        known = out_of_fold(cell, data, labels, "trees")
        estimate = nb.estimate_noise(known, labels, multi_label=True)
        assert isinstance(estimate, nb.MultiLabelEstimate)
        probs = trained(data, labels, criterion_of(cell["method"], estimate), seed, epochs)
        if cell["method"] != "fce+b":  # where presence and absence explain an observed label alike
            middle = ((estimate.added + 1 - estimate.missed) / 2).numpy()

    def macro(threshold: Any) -> float:
        return float(f1_score(data.test_y, probs > threshold, average="macro", zero_division=0))

    return {
        "macro_f1": macro(0.5),
        "macro_f1_middle": macro(middle),
        "precision": float(average_precision_score(data.test_y, probs, average="macro")),
        "seconds": time.process_time() - begin,
    }


def print_cost() -> None:
    """Print the time of a forward and backward pass as a ratio to torch's own loss."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    logits, labels = torch.randn(512, 80, requires_grad=True), torch.randint(2, (512, 80))
    forward = [[0.9, 0.3], [0.1, 0.7]]
    losses = {
        "torch.nn.BCEWithLogitsLoss": nn.BCEWithLogitsLoss(),
        "BinaryCrossEntropy": nb.BinaryCrossEntropy(),
        "BinaryCrossEntropy at its floors": nb.NoiseBoundedLoss(
            nb.BinaryCrossEntropy(), (0.3, 0.1), 80
        ),
        "GCE per label": nb.PerLabel(nb.GeneralizedCrossEntropy()),
        "focal loss per label": nb.PerLabel(nb.Focal()),
        "asymmetric loss": nb.PerLabel(nb.AsymmetricFocal()),
        "FCE, one matrix": nb.PerLabel(nb.ForwardCrossEntropy(forward)),
        "FCE, a matrix per label": nb.PerLabel([nb.ForwardCrossEntropy(forward)] * 80),
    }
    times: dict[str, list[float]] = {name: [] for name in losses}
    targets = labels.float()
    for _ in range(200):
        for name, loss in losses.items():
            begin = time.perf_counter()
            loss(logits, targets if "torch" in name else labels).backward()
            times[name].append(time.perf_counter() - begin)
    medians = {name: float(np.median(each)) for name, each in times.items()}
    first = medians["torch.nn.BCEWithLogitsLoss"]
    print(f"| 512 × 80, {1e3 * first:.2f} ms | time |\n|---|---|")
    for name, median in medians.items():
        print(f"| {name} | {median / first:.2f} |")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all cells, and print one table per measurement."""
    parser = argument_parser(__doc__)
    parser.add_argument("command", choices=("suspects", "training", "floors", "cost"))
    options = parser.parse_args(arguments)
    if options.command == "cost":
        print_cost()
        return
    size = 0.1 if options.quick else 1.0
    methods = {
        "suspects": [(method, each) for each in LEARNERS for method in ("noisebound", "cleanlab")],
        "training": [
            (each, "") for each in (*LEARNERS, *NETWORKS, "fit") if each != "fit" or options.methods
        ],
        "floors": [(each, "") for each in ("bce", "bce+b-mean", "bce+b")],
    }[options.command]
    names = {"floors": DEV, "training": JUDGE}.get(options.command, (*DEV, *JUDGE))
    if options.quick:
        names = DEV[:1]
    cells = [
        {
            "part": options.command,
            "data": data,
            "noise": noise,
            "method": method,
            "learner": learner,
            "seed": seed,
        }
        for data in options.columns or names
        for noise in list(NOISE)[: 1 if options.quick else None]
        for method, learner in methods
        if not options.methods or method in options.methods
        for seed in range(options.seeds)
    ]

    def measured(cell: Mapping[str, Any]) -> dict[str, float]:
        data = problem(cell["data"], cell["seed"], options.data_dir, size)
        if cell["part"] == "suspects":
            return measured_suspects(cell, data)
        return measured_training(cell, data, 2 if options.quick else 40)

    frame = measure(cells, measured, options.out, options.jobs)
    frame = frame.with_columns(
        row=pl.concat_str("method", "learner", separator=" ").str.strip_chars()
    )
    titles = {
        "f1": "F1 of the suspects",
        "auroc": "AUROC of the suspects",
        "rate_error": "Absolute error of the rates of missed and added labels",
        "holds": "Share of the intervals that hold the realized rate",
        "macro_f1": "Macro-F1 on clean test labels",
        "macro_f1_middle": "Macro-F1, with the threshold at the middle of the estimated rates",
        "precision": "Mean average precision on clean test labels",
    }
    texts = []
    for name, title in titles.items():
        if name in frame.columns:
            for noise in NOISE:
                part = frame.filter(pl.col("noise") == noise)
                if len(part):
                    texts.append(f"{title}, {noise}\n\n{table(part, 'row', 'data', name)}")
    write(frame.drop("row"), "\n".join(texts), options.out, options.command)


if __name__ == "__main__":
    main()
