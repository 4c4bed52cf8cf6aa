"""No more threads and processes than cores."""

import os

import pytest
import torch
from joblib import cpu_count

from noisebound.errors import InvalidValueError
from noisebound.training.devices import use_threads


@pytest.fixture(autouse=True)
def threads_as_before(monkeypatch):
    before = torch.get_num_threads()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    yield
    torch.set_num_threads(before)


def test_a_share_of_the_cores_by_default(monkeypatch):
    many = len(os.sched_getaffinity(0))
    use_threads(None)
    assert torch.get_num_threads() == cpu_count() <= many
    use_threads(None, processes=10 * many)
    assert torch.get_num_threads() == 1
    use_threads(cpu_count())
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    use_threads(None)
    assert torch.get_num_threads() == cpu_count()  # torch itself has read the variable


@pytest.mark.parametrize("threads", [0, -1, 100_000])
def test_other_numbers_are_refused(threads):
    with pytest.raises(
        InvalidValueError, match=rf"`threads` must be between 1 and .* got {threads}"
    ):
        use_threads(threads)
