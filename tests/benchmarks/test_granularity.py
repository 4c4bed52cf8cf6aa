"""Groups of examples against the bound: the definition, its extremes, its gradients."""

import pytest
import torch

import noisebound as nb
from granularity import GranularBoundedLoss

LOGITS = torch.randn(12, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
LABELS = torch.arange(12) % 3  # one class is missing
BOUND = 1.2


def value(granularity, loss=None, logits=LOGITS, labels=LABELS):
    return GranularBoundedLoss(loss or nb.CrossEntropy(), BOUND, granularity)(logits, labels)


def test_the_batch_is_the_bounded_loss():
    assert value("batch") == pytest.approx(
        nb.BoundedLoss(nb.CrossEntropy(), BOUND)(LOGITS, LABELS).item()
    )


def test_each_example():
    losses = nb.CrossEntropy(reduction="none")(LOGITS, LABELS)
    assert value("example") == pytest.approx((losses - BOUND).abs().mean().item())


def test_each_class():
    losses = nb.CrossEntropy(reduction="none")(LOGITS, LABELS)
    expected = sum((losses[k == LABELS].mean() - BOUND).abs() / 3 for k in range(3))
    assert value("class") == pytest.approx(expected.item())


def test_smaller_groups_are_further_from_the_bound():
    """The triangle inequality."""
    assert value("batch") <= value("class") <= value("example")


def test_class_weights_and_ignored_labels_count_as_in_the_mean():
    labels = LABELS.clone()
    labels[:4] = -100
    loss = nb.CrossEntropy(weight=[1.0, 2.0, 3.0, 4.0])
    batch = value("batch", loss, labels=labels)
    assert batch == pytest.approx((loss(LOGITS, labels) - BOUND).abs().item())
    kept = value("class", loss, LOGITS[4:], LABELS[4:])
    assert value("class", loss, labels=labels) == pytest.approx(kept.item())


def test_a_running_mean_decides_which_way_to_go():
    criterion = GranularBoundedLoss(nb.CrossEntropy(), bound=1.0, granularity="running")
    high = torch.zeros(1, 10, dtype=torch.float64)  # log 10
    low = torch.tensor([[3.0] + [0.0] * 9], dtype=torch.float64, requires_grad=True)
    label = torch.tensor([0])
    criterion(high, label)
    criterion(low, label).backward()
    assert low.grad[0, 0] < 0  # below the bound, but on average still above: on downhill
    for _ in range(40):
        criterion(low.detach(), label)
    low.grad = None
    criterion(low, label).backward()
    assert low.grad[0, 0] > 0
