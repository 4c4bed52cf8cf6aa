"""Hypothesis draws distributions over classes, zeros and near-zeros included."""

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


def noise_vectors(num_classes):
    """A rate and a noise vector of that rate, the true class first."""
    return st.tuples(st.floats(0, 0.999), distributions(num_classes - 1)).map(
        lambda drawn: (
            drawn[0],
            torch.cat([torch.tensor([1 - drawn[0]], dtype=torch.float64), drawn[0] * drawn[1]]),
        )
    )
