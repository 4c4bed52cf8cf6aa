"""Time `fit` with its defaults, relative to plain training on the same examples.

The first table is of `NoiseBoundedClassifier` on digits, in seconds, with trials on all cores. In
the second, the vectors are clouds in ten classes with 40% symmetric noise, as wide as the
embeddings of a small network; the network is the default head, for the default number of epochs.
CPU seconds are compared, which other processes change little.

    python benchmarks/choosing.py --examples 1000 50000
"""

import argparse
import platform
import time

import torch
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import noisebound as nb
from noisebound.data import Dataset, Splits
from noisebound.integrations.sklearn import NoiseBoundedClassifier
from noisebound.search.fit import fit_network
from noisebound.search.problem import Problem, network_for
from noisebound.training import TrainingConfig
from noisebound.training.config import RecipeName
from noisebound.training.data import split_validation
from noisebound.training.session import Session

CLASSES = 10


def some_data(examples: int, width: int) -> Dataset:
    """Return clouds that overlap, with four wrong labels of ten."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(examples) % CLASSES
    centers = torch.randn(CLASSES, width, generator=generator)
    inputs = centers[labels] + 3 * torch.randn(examples, width, generator=generator)
    noisy = nb.corrupt(labels, "symmetric", 0.4, CLASSES, generator=generator)
    return Dataset(inputs, noisy.labels, tuple("0123456789"))


def cpu_seconds(train: Dataset, recipe: RecipeName | None, epochs: int) -> float:
    """Return what a training takes: by a recipe, or by one that is chosen."""
    config = TrainingConfig(recipe=recipe or "auto", model="mlp_head", epochs=epochs)
    started = time.process_time()
    data, _ = split_validation(Splits("clouds", train, None, "made here"), config)
    network, session = network_for(data.train, config), Session(show=False)
    fit_network(Problem(data, config, network, session))
    return time.process_time() - started


def on_digits(examples: int = 1_000) -> None:
    """Print the seconds of three classifiers on digits with 40% symmetric noise."""
    x, labels = load_digits(return_X_y=True)
    generator = torch.Generator().manual_seed(0)
    noisy = nb.corrupt(labels[:examples], "symmetric", 0.4, CLASSES, generator=generator)
    classifiers = {
        "plain": NoiseBoundedClassifier(recipe="plain", random_state=0),
        "auto": NoiseBoundedClassifier(random_state=0),
        "MLPClassifier": MLPClassifier((256, 256), random_state=0),
    }
    classifiers["plain"].fit(x[:100], labels[:100])  # imports what training needs
    print("| digits | seconds | accuracy, % |\n|---|---|---|")
    for name, classifier in classifiers.items():
        started = time.perf_counter()
        classifier.fit(x[:examples], noisy.labels.numpy())
        seconds = time.perf_counter() - started
        accuracy = 100 * classifier.score(x[examples:], labels[examples:])
        print(f"| {name} | {seconds:.1f} | {accuracy:.1f} |", flush=True)


def main() -> None:
    """Print a row per number of examples."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, nargs="+", default=[1000, 50_000])
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--epochs", type=int, default=50)
    options = parser.parse_args()
    torch.set_num_threads(1)
    on_digits()
    print(f"torch {torch.__version__}, {platform.machine()}, one thread")
    print("| examples | plain, CPU s | auto, CPU s | auto / plain |\n|---|---|---|---|")
    for examples in options.examples:
        train = some_data(examples, options.width)
        plain = cpu_seconds(train, "plain", options.epochs)
        auto = cpu_seconds(train, None, options.epochs)
        print(f"| {examples:,} | {plain:.1f} | {auto:.1f} | {auto / plain:.2f} |", flush=True)


if __name__ == "__main__":
    main()
