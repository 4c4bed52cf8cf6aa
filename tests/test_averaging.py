"""AveragedWeights in a bare loop: torch's exponential average, and a better model at a bound."""

import copy
import pickle

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import noisebound as nb
from noisebound.averaging import RunningAverage


def make_model():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 2))


def change(model, steps, *averages):
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=generator))
        model[1].running_mean.add_(1.0)
        for average in averages:
            average.update_parameters(model)


def test_is_torchs_exponential_average():
    model = make_model()
    expected = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    averaged = nb.AveragedWeights(model, steps=10)
    assert not averaged.has_averaged
    change(model, 6, expected, averaged)
    assert averaged.has_averaged
    torch.testing.assert_close(averaged.state_dict(), expected.state_dict())


def test_copy_is_in_evaluation_mode_and_the_model_is_not():
    model = make_model()
    averaged = nb.AveragedWeights(model, steps=10)
    assert model.training
    assert not any(module.training for module in averaged.modules())


def test_swapping_twice_changes_nothing():
    model = make_model()
    averaged = nb.AveragedWeights(model, steps=3)
    change(model, 4, averaged)
    last, average = (
        {k: v.clone() for k, v in m.state_dict().items()} for m in (model, averaged.module)
    )
    averaged.swap(model)
    torch.testing.assert_close(model.state_dict(), average)
    torch.testing.assert_close(averaged.module.state_dict(), last)
    averaged.swap(model)
    torch.testing.assert_close(model.state_dict(), last)


def test_survives_pickle():
    averaged = nb.AveragedWeights(make_model(), steps=3)
    twin = pickle.loads(pickle.dumps(averaged))
    torch.testing.assert_close(twin.state_dict(), averaged.state_dict())


@pytest.mark.parametrize("steps", [0, 0.5, -1, float("nan"), float("inf")])
def test_steps_that_make_no_average(steps):
    with pytest.raises(ValueError, match="`steps` must be a number of at least 1"):
        nb.AveragedWeights(make_model(), steps)


def test_bounded_training_in_a_bare_loop_gains_by_the_average():
    """The last weights of a training at its bound jitter; their average does not."""
    images, truth = load_digits(return_X_y=True)
    images, truth = torch.from_numpy(images).float() / 16, torch.from_numpy(truth)
    images = (images - images.mean()) / images.std()
    generator = torch.Generator().manual_seed(1)
    labels = nb.corrupt(truth[:1200], "symmetric", 0.6, 10, generator=generator).labels
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = nn.Sequential(
            nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
        )
    criterion = nb.NoiseBoundedLoss(nb.CrossEntropy(), noise_rate=0.6, num_classes=10)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    averaged = nb.AveragedWeights(model, steps=5 * 4)
    for _ in range(60):
        for batch in torch.randperm(1200, generator=generator).split(300):
            optimizer.zero_grad()
            criterion(model(images[batch]), labels[batch]).backward()
            optimizer.step()
            averaged.update_parameters(model)
    last, average = (
        (m(images[1200:]).argmax(1) == truth[1200:]).float().mean() for m in (model, averaged)
    )
    assert average > last + 0.05


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_running_average_is_that_of_torch_to_the_last_bit(dtype):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)).to(dtype)
    ours = nb.AveragedWeights(model, steps=6)
    theirs = copy.deepcopy(ours)
    running = RunningAverage(ours, model)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(6):
        optimizer.zero_grad()
        model(torch.randn(16, 4, dtype=dtype)).square().mean().backward()
        optimizer.step()
        running.update()
        theirs.update_parameters(model)
    found, expected = ours.state_dict(), theirs.state_dict()
    assert found.keys() == expected.keys()
    assert expected["module.1.num_batches_tracked"] > 0  # whole numbers are averaged too
    assert all(torch.equal(found[name], expected[name]) for name in found)
