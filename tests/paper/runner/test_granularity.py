"""Groups of examples against the bound: the definition, its extremes, its gradients."""

from dataclasses import replace

import pytest
import torch

import noisebound as nb
from noisebound.paper.runner.granularity import GranularBoundedLoss, objective_factory
from noisebound.runs import train_run
from noisebound.training import TrainingConfig
from training_data import NOISE_RATE, noisy_clouds

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
    twin = GranularBoundedLoss(nb.CrossEntropy(), bound=1.0, granularity="running")
    twin.load_state_dict(criterion.state_dict())
    assert twin.running_mean == pytest.approx(criterion.running_mean.item())


def test_in_evaluation_the_plain_mean():
    criterion = GranularBoundedLoss(nb.CrossEntropy(), BOUND, "example").eval()
    assert criterion(LOGITS, LABELS) == nb.CrossEntropy()(LOGITS, LABELS)


def test_a_loss_that_remembers():
    loss = nb.EarlyLearning(12, 4)
    criterion = GranularBoundedLoss(loss, 0.1, "example")
    assert criterion(LOGITS, LABELS, torch.arange(12)) > 0
    assert (loss.targets.sum(1) > 0).all()


def test_bad_input():
    with pytest.raises(ValueError, match="`granularity` must be one of batch, example, class"):
        GranularBoundedLoss(nb.CrossEntropy(), 1.0, "epoch")
    with pytest.raises(TypeError, match="one of noisebound's"):
        GranularBoundedLoss(torch.nn.CrossEntropyLoss(), 1.0, "example")
    with pytest.raises(ValueError, match="needs class indices"):
        value("class", labels=torch.full((12, 4), 0.25, dtype=torch.float64))


class TestTraining:
    def train(self, folder, granularity, loss="ce+b", epochs=6, **options):
        config = TrainingConfig(
            loss=loss,
            noise_rate=NOISE_RATE,
            epochs=epochs,
            batch_size=30,
            learning_rate=3e-3,
            average_epochs=3,
        )
        factory = objective_factory(granularity)
        return train_run(noisy_clouds(), config, folder, objective_factory=factory, **options)

    @pytest.mark.parametrize("granularity", ["example", "class", "running"])
    def test_the_raw_loss_is_what_is_recorded(self, tmp_path, granularity):
        result = self.train(tmp_path / "run", granularity, epochs=30).result
        assert result.bound is not None
        assert result.final.train_loss > 0.3  # not the distance from the bound
        assert result.final.share_below is None

    def test_a_running_mean_is_resumed(self, tmp_path):
        whole = self.train(tmp_path / "whole", "running")
        folder = self.train(tmp_path / "run", "running", checkpoint_seconds=0).folder
        folder.result.unlink()
        max(folder.checkpoints.iterdir()).unlink()  # back by one epoch
        resumed = self.train(folder.path, "running", resume=True)
        finals = [replace(run.result.final, seconds=0) for run in (resumed, whole)]
        assert finals[0] == finals[1]

    def test_without_a_bound_it_means_nothing(self, tmp_path):
        with pytest.raises(ValueError, match="`granularity` is a property of the bound"):
            self.train(tmp_path / "run", "example", loss="ce")
