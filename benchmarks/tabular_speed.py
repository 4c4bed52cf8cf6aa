"""Time our scikit-learn estimator, told the noise rate, against scikit-learn's `MLPClassifier`.

Both train the same network for the same epochs, with the same batch size and one thread, on random
rows; in each round both take their turn. A ratio compares medians of the processor time.

    OMP_NUM_THREADS=1 python benchmarks/tabular_speed.py
"""

import argparse
import statistics
import time
import warnings
from typing import Any

import numpy as np
import torch
from sklearn.neural_network import MLPClassifier

from noisebound.integrations.sklearn import NoiseBoundedClassifier

COLUMNS, CLASSES, BATCH, NOISE_RATE = 50, 10, 256, 0.2
NETWORKS = ((256, 256), (100,))  # the default of each estimator


def some_rows(count: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Return random rows, labeled by a linear rule, of which some labels are drawn anew."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(count, COLUMNS)).astype(dtype)
    y = (X @ generator.normal(size=(COLUMNS, CLASSES))).argmax(1)
    is_noisy = generator.random(count) < NOISE_RATE
    y[is_noisy] = generator.integers(0, CLASSES, is_noisy.sum())
    return X, y


def cpu_seconds(estimator: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Return the processor time of a fit."""
    started = time.process_time()
    estimator.fit(X, y)
    return time.process_time() - started


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # MLPClassifier warns that it has not converged
    print(
        f"{options.rows:,} × {COLUMNS}, {options.epochs} epochs, batches of {BATCH}, CPU seconds\n"
    )
    print("| network | type | MLPClassifier | NoiseBoundedClassifier | ratio |")
    print("|---|---|---|---|---|")
    some_few = some_rows(1000, "float32")
    NoiseBoundedClassifier(noise_rate=NOISE_RATE, max_iter=1).fit(*some_few)  # imports
    for widths in NETWORKS:
        for dtype in ("float32", "float64"):
            X, y = some_rows(options.rows, dtype)
            theirs, ours = [], []
            for seed in range(options.rounds):
                peer = MLPClassifier(
                    widths, batch_size=BATCH, max_iter=options.epochs, random_state=seed,
                    n_iter_no_change=options.epochs,
                )  # fmt: skip
                theirs.append(cpu_seconds(peer, X, y))
                estimator = NoiseBoundedClassifier(
                    noise_rate=NOISE_RATE, hidden_layer_sizes=widths, batch_size=BATCH,
                    max_iter=options.epochs, random_state=seed,
                )  # fmt: skip
                ours.append(cpu_seconds(estimator, X, y))
            peer_time, our_time = statistics.median(theirs), statistics.median(ours)
            print(
                f"| {widths} | {dtype} | {peer_time:.1f} | {our_time:.1f} | "
                f"{our_time / peer_time:.2f} |"
            )


if __name__ == "__main__":
    main()
