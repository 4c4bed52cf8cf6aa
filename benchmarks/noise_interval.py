"""How well the noise rate is known from predictions: one set, two sets, and checked labels.

Logistic regression and a random forest are cross-validated twice on data that ships with
scikit-learn, clean and with noise put in. Printed are how often the 95 % interval holds the truth,
how wide it is, and how far the estimate is off, beside cleanlab's on the same predictions.
None of these settings served to choose a constant of the estimator.
"""

from collections import defaultdict

import numpy as np
import torch
from cleanlab.count import estimate_joint
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_wine,
    make_classification,
    make_moons,
)
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import noisebound as nb

CHECKED = 100
NOISE = {
    "clean": (None, 0.0),
    "symmetric 0.2": ("symmetric", 0.2),
    "symmetric 0.4": ("symmetric", 0.4),
    "pairwise 0.3": ("pairwise", 0.3),
}
MODELS = {
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "random forest": RandomForestClassifier(200, min_samples_leaf=3, random_state=0),
}


def data_sets():
    """Return inputs and clean labels, by name."""
    return {
        "digits": load_digits(return_X_y=True),
        "wine": load_wine(return_X_y=True),
        "breast cancer": load_breast_cancer(return_X_y=True),
        "moons that overlap": make_moons(1000, noise=0.3, random_state=0),
        "40 features": make_classification(
            1500, 40, n_informative=10, n_classes=4, class_sep=1.5, random_state=0
        ),
    }


def out_of_fold(model, inputs, labels, seed):
    """Return the class probabilities of a cross-validation in five folds."""
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    probs = cross_val_predict(model, inputs, labels, cv=folds, method="predict_proba")
    return probs / probs.sum(1, keepdims=True)


def estimates(first, second, labels, true, generator):
    """Return the interval, if there is one, and the estimate, by each way to estimate."""
    one = nb.estimate_noise(first, labels)
    two = nb.estimate_noise(first, labels, second_probs=second)
    at = torch.randperm(len(labels), generator=generator)[:CHECKED]
    told = nb.estimate_noise(first, labels, trusted=(at, torch.as_tensor(true)[at]))
    joint = estimate_joint(labels, first)
    return {
        "one set": (one.interval, one.noise_rate),
        "two sets": (two.interval, two.noise_rate),
        f"{CHECKED} checked": (told.interval, told.noise_rate),
        "cleanlab": (None, float(1 - np.trace(joint))),
    }


def main():
    """Print one row per kind of noise and way to estimate."""
    found = defaultdict(list)
    for inputs, true in data_sets().values():
        classes = int(true.max()) + 1
        for noise, (kind, rate) in NOISE.items():
            generator = torch.Generator().manual_seed(0)
            labels = torch.as_tensor(true)
            if kind is not None:
                labels = nb.corrupt(labels, kind, rate, classes, generator=generator).labels
            labels = labels.numpy()
            truth = float((labels != true).mean())
            for model in MODELS.values():
                first, second = (out_of_fold(model, inputs, labels, seed) for seed in (0, 1))
                for way, (interval, point) in estimates(
                    first, second, labels, true, generator
                ).items():
                    low, high = interval or (np.nan, np.nan)
                    found[noise, way].append((low <= truth <= high, high - low, abs(point - truth)))
    print(f"{'noise':14} {'estimated from':14} {'holds':>6} {'width':>6} {'error':>6}")
    for (noise, way), rows in found.items():
        holds, width, error = np.array(rows, float).mean(0)
        shown = ("", "") if way == "cleanlab" else (f"{holds:.0%}", f"{width:.3f}")
        print(f"{noise:14} {way:14} {shown[0]:>6} {shown[1]:>6} {error:6.3f}")


if __name__ == "__main__":
    main()
