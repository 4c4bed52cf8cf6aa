"""Hypothesis draws distributions over classes, zeros and near-zeros included."""

import numpy as np
import torch
from hypothesis import strategies as st

_masses = st.one_of(st.just(0.0), st.floats(1e-6, 1.0), st.floats(1e-300, 1e-100))


def distributions(num_classes):
    """One distribution as a float64 tensor."""
    return (
        st.lists(_masses, min_size=num_classes, max_size=num_classes)
        .filter(lambda masses: sum(masses) > 1e-6)
        .map(lambda masses: torch.tensor(masses, dtype=torch.float64))
        .map(lambda masses: masses / masses.sum())
    )


BATCH = 40


def batches(num_classes):
    """Many distributions ``[BATCH, num_classes]`` from one drawn seed.

    Some are flat and some are sharp; some have zeros, near-zeros, or equal entries.
    """
    return st.integers(0, 2**32 - 1).map(lambda seed: _batch(seed, num_classes))


def _batch(seed, num_classes):
    rng = np.random.default_rng(seed)
    masses = rng.gamma(rng.choice([0.05, 0.3, 1.0, 20.0], (BATCH, 1)), size=(BATCH, num_classes))
    masses[rng.random(masses.shape) < 0.15] = 0.0
    masses[rng.random(masses.shape) < 0.05] = 1e-200
    rows = rng.random(BATCH) < 0.2
    masses[rows] = np.ceil(3 * masses[rows] / (masses[rows].max(1, keepdims=True) + 1e-300))
    masses[np.arange(BATCH), rng.integers(num_classes, size=BATCH)] += 1e-3
    masses[0], masses[1] = 1.0, np.eye(num_classes)[0]
    return torch.from_numpy(masses / masses.sum(1, keepdims=True))


def batches_of_noise(num_classes):
    """Rates ``[BATCH]`` and noise vectors of these rates, the true class first."""
    return st.tuples(batches(num_classes - 1), st.integers(0, 2**32 - 1)).map(
        lambda drawn: _noise(drawn[0], np.random.default_rng(drawn[1]).uniform(0, 0.999, BATCH))
    )


def _noise(wrong, rates):
    rates = torch.from_numpy(rates)
    return rates, torch.cat([1 - rates[:, None], rates[:, None] * wrong], dim=1)
