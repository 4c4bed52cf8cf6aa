"""No more threads and processes than cores."""

import os

import pytest
import torch

from noisebound.errors import InvalidValueError
from noisebound.training import devices
from noisebound.training.devices import usable_cores, use_threads


@pytest.fixture(autouse=True)
def threads_as_before(monkeypatch):
    before = torch.get_num_threads()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    yield
    torch.set_num_threads(before)


def test_a_share_of_the_cores_by_default(monkeypatch):
    many = len(os.sched_getaffinity(0))
    use_threads(None)
    assert torch.get_num_threads() == usable_cores() <= many
    use_threads(None, processes=10 * many)
    assert torch.get_num_threads() == 1
    use_threads(usable_cores())
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    use_threads(None)
    assert torch.get_num_threads() == usable_cores()  # torch itself has read the variable


@pytest.mark.parametrize("threads", [0, -1, 100_000])
def test_other_numbers_are_refused(threads):
    with pytest.raises(
        InvalidValueError, match=rf"`threads` must be between 1 and .* got {threads}"
    ):
        use_threads(threads)


@pytest.mark.parametrize(("content", "expected"), [("150000 100000", 2), ("50000 100000", 1)])
def test_the_quota_of_a_container(tmp_path, monkeypatch, content, expected):
    quota = tmp_path / "cpu.max"
    monkeypatch.setattr(devices, "_QUOTA", quota)
    without = usable_cores()
    quota.write_text(f"{content}\n")
    assert usable_cores() == min(without, expected)
    quota.write_text("max 100000\n")
    assert usable_cores() == without
