"""The monitor warns when a loss falls below its floor."""

import warnings

import pytest
import torch

import noisebound as nb
from noisebound.monitor import memorizing_since


@pytest.mark.parametrize(
    ("losses", "since"),
    [
        ([], None),
        ([2.0, 1.5], None),
        ([0.9], 1),
        ([2.0, 0.9, 0.8], 2),
        ([2.0, 0.9, 1.1, 0.8], 4),  # above the floor again in epoch 3
        ([0.9, 1.0], None),  # at the floor is not below it
        ([0.9, float("nan")], None),
    ],
)
def test_memorizing_since(losses, since):
    assert memorizing_since(losses, floor=1.0) == since


def test_it_warns_when_memorizing_begins_and_not_again():
    monitor = nb.MemorizationMonitor(floor=1.0)
    monitor.observe(1.5)
    monitor.end_epoch()
    monitor.observe(0.5)
    with pytest.warns(nb.MemorizationWarning, match="memorizing since epoch 2: .* 0.500 is below"):
        monitor.end_epoch()
    monitor.observe(0.4)
    monitor.end_epoch()  # warnings are errors here
    monitor.observe(1.4)
    monitor.end_epoch()
    assert monitor.memorizing_since is None
    monitor.observe(0.4)
    with pytest.warns(nb.MemorizationWarning, match="since epoch 5"):
        monitor.end_epoch()


def test_batches_count_by_their_size():
    monitor = nb.MemorizationMonitor(floor=0.0)
    monitor.observe(torch.tensor(1.0, requires_grad=True), count=3)
    monitor.observe(2.0, count=1)
    monitor.end_epoch()
    assert monitor.epoch_losses == [1.25]


def test_a_real_loop_that_memorizes_noise():
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(60, 30, generator=generator)
    labels = torch.randint(2, (60,), generator=generator)  # nothing but noise
    torch.manual_seed(0)
    model = torch.nn.Linear(30, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    monitor = nb.MemorizationMonitor(nb.noise_bound(nb.CrossEntropy(), 0.5, 2))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(30):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            monitor.observe(loss, count=len(labels))
            monitor.end_epoch()
    assert [warning.category for warning in caught] == [nb.MemorizationWarning]
    assert monitor.memorizing_since is not None


def test_bad_input():
    monitor = nb.MemorizationMonitor(floor=1.0)
    with pytest.raises(RuntimeError, match="without a loss: call observe"):
        monitor.end_epoch()
    with pytest.raises(ValueError, match="one number"):
        monitor.observe(torch.ones(3))
    with pytest.raises(ValueError, match="`floor` must be a finite number"):
        nb.MemorizationMonitor(float("nan"))
