"""Compare our scikit-learn estimator with scikit-learn's and cleanlab's on small noisy tables.

Run ``python benchmarks/tabular.py --out results/sklearn``. Finished fits are kept in ``--cache``
and reused. All methods get the same noisy examples; accuracies are on clean test labels.
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from cleanlab.classification import CleanLearning
from joblib import Memory, Parallel, delayed
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import noisebound as nb
from noisebound.integrations.sklearn import NoiseBoundedClassifier
from noisebound.report.table import Cell, Row, Table
from noisebound.report.table_formats import write_table

SEEDS = range(10, 15)  # the estimator's defaults were chosen with seeds 0 and 1, on the same data
RATES = (0.0, 0.2, 0.4)
TEST_SHARE = 0.3
OURS = "NoiseBoundedClassifier"


def covtype_shaped(n: int = 6_000) -> tuple[np.ndarray, np.ndarray]:
    """Return data like covtype: 10 numbers, two one-hot codes of 4 and 40, its class shares."""
    generator = np.random.default_rng(0)
    shares = [0.365, 0.488, 0.062, 0.005, 0.016, 0.030, 0.034]
    numbers, y = make_classification(
        n, 10, n_informative=8, n_redundant=2, n_classes=7, n_clusters_per_class=2,
        class_sep=1.5, weights=shares, flip_y=0, random_state=0,
    )  # fmt: skip
    codes = []
    for size in (4, 40):
        likely = generator.dirichlet(np.full(size, 0.5), 7)
        codes.append(np.eye(size)[[generator.choice(size, p=likely[label]) for label in y]])
    return np.hstack([numbers, *codes]), y


DATA: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "digits": lambda: load_digits(return_X_y=True),
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "covtype-shaped": covtype_shaped,
}


def scaled(classifier: Any) -> Any:
    """Add standardization, which networks and linear models need; our estimator has its own."""
    return make_pipeline(StandardScaler(), classifier)


def cleaned(classifier: Any, seed: int) -> CleanLearning:
    """Add cleanlab, in one process because its workers cannot start inside ours."""
    return CleanLearning(classifier, seed=seed, find_label_issues_kwargs={"n_jobs": 1})


METHODS: dict[str, Callable[[int], Any]] = {
    OURS: lambda seed: NoiseBoundedClassifier(random_state=seed),
    f"{OURS}, fce": lambda seed: NoiseBoundedClassifier("fce", random_state=seed),
    f"{OURS}, sce": lambda seed: NoiseBoundedClassifier("sce", random_state=seed),
    f"{OURS}, plain": lambda seed: NoiseBoundedClassifier(
        noise_rate=0.0, bound=None, random_state=seed
    ),
    "MLPClassifier": lambda seed: scaled(MLPClassifier(random_state=seed)),
    "MLPClassifier, stopped early": lambda seed: scaled(
        MLPClassifier(random_state=seed, early_stopping=True)
    ),
    "LogisticRegression": lambda seed: scaled(LogisticRegression(max_iter=1000)),
    "HistGradientBoosting": lambda seed: HistGradientBoostingClassifier(random_state=seed),
    "CleanLearning(LogisticRegression)": lambda seed: cleaned(
        scaled(LogisticRegression(max_iter=1000)), seed
    ),
    "CleanLearning(MLPClassifier)": lambda seed: cleaned(
        scaled(MLPClassifier(random_state=seed)), seed
    ),
}


class Outcome(NamedTuple):
    """The result of one fit; ``estimated`` is the noise rate, if the method estimates one."""

    accuracy: float
    seconds: float
    estimated: float | None


def outcome_of(data: str, rate: float, method: str, seed: int) -> Outcome:
    """Split, corrupt and train with the seed; return the accuracy on clean labels."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # scikit-learn warns if training has not converged
    X, y = DATA[data]()
    X, X_test, y, y_test = train_test_split(
        X, y, test_size=TEST_SHARE, random_state=seed, stratify=y
    )
    generator = torch.Generator().manual_seed(seed)
    labels = nb.corrupt(y, "symmetric", rate, len(np.unique(y)), generator=generator).labels.numpy()
    started = time.perf_counter()
    model = METHODS[method](seed).fit(X, labels)
    seconds = time.perf_counter() - started
    estimated = getattr(model, "noise_rate_", None) if method.startswith(OURS) else None
    return Outcome(100 * model.score(X_test, y_test), seconds, estimated)


def table_of(found: dict[tuple[str, float, str, int], Outcome]) -> Table:
    """Return a table with one row per method, one column per setting, and the mean."""
    settings = [(data, rate) for data in DATA for rate in RATES]

    def accuracies(method: str, data: str, rate: float) -> list[float]:
        return [found[data, rate, method, seed].accuracy for seed in SEEDS]

    def mean_over_settings(method: str) -> list[float]:
        """Return the mean for each seed."""
        columns = [accuracies(method, *setting) for setting in settings]
        return [statistics.fmean(of_seed) for of_seed in zip(*columns, strict=True)]

    columns = [{m: accuracies(m, *setting) for m in METHODS} for setting in settings]
    columns.append({method: mean_over_settings(method) for method in METHODS})
    best = [max(statistics.fmean(values) for values in column.values()) for column in columns]
    rows = []
    for method in METHODS:
        cells = []
        for column, highest in zip(columns, best, strict=True):
            mean, spread = statistics.fmean(column[method]), statistics.stdev(column[method])
            cells.append(Cell(f"{mean:.1f} ± {spread:.1f}", "", mean, is_best=mean == highest))
        rows.append(Row(method, tuple(cells), is_shaded=method.startswith(OURS)))
    names = [f"{data} {rate:g}" for data, rate in settings]
    records = [
        {"data": data, "noise_rate": rate, "method": method, "seed": seed, **outcome._asdict()}
        for (data, rate, method, seed), outcome in found.items()
    ]
    return Table(
        name="tabular",
        title=f"Accuracy on clean test labels, %, mean and deviation of {len(SEEDS)} seeds",
        header=("method", *names, "mean"),
        rows=tuple(rows),
        records=tuple(records),
        notes=tuple(comparisons(mean_over_settings)),
    )


def comparisons(mean_over_settings: Callable[[str], list[float]]) -> list[str]:
    """Compare our estimator with each other method in a paired t-test over the seeds."""
    ours, notes = mean_over_settings(OURS), []
    for method in METHODS:
        if method == OURS:
            continue
        differences = np.array(ours) - np.array(mean_over_settings(method))
        p = stats.ttest_1samp(differences, 0.0).pvalue
        gain = differences.mean()
        chance = "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
        notes.append(f"{OURS} against {method}, mean of the settings: {gain:+.1f} ({chance})")
    return notes


def main() -> None:
    """Fit what is not cached and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path("tabular-cache"))
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    kept = Memory(options.cache, verbose=0).cache(outcome_of)
    keys = [(d, r, m, s) for m in METHODS for d in DATA for r in RATES for s in SEEDS]
    outcomes = Parallel(options.jobs, verbose=5)(delayed(kept)(*key) for key in keys)
    for path in write_table(table_of(dict(zip(keys, outcomes, strict=True))), options.out):
        print(path)


if __name__ == "__main__":
    main()
