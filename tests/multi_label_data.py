"""Examples with three labels at once, of which a fifth are missed."""

import numpy as np
import polars as pl

NAMES = ("odd", "large", "loop")


def examples(count=400, seed=0):
    """Return features, true labels, and labels of which a fifth are missed."""
    rng = np.random.default_rng(seed)
    true = (rng.random((count, 3)) < [0.5, 0.4, 0.6]).astype(int)
    X = rng.normal(size=(count, 4)) + 4 * np.pad(true, ((0, 0), (0, 1)))
    return X.astype(np.float32), true, np.where(rng.random(true.shape) < 0.2, 0, true)


def as_table(X, labels):
    columns = pl.DataFrame(labels, NAMES, orient="row")
    return pl.DataFrame(X, [f"x{k}" for k in range(X.shape[1])], orient="row").hstack(columns)
