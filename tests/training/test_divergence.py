"""A training that diverges ends with an error, whatever its loss says."""

import pytest
import torch
from torch import nn

from noisebound.catalog import METHOD_NAMES
from noisebound.errors import InvalidValueError
from noisebound.runs import SavedModel, train_run
from noisebound.runs.saved_model import ModelCard
from noisebound.training import TrainingConfig
from noisebound.training.state import is_finite
from training_data import NOISE_RATE, noisy_clouds


@pytest.mark.parametrize("loss", METHOD_NAMES)
def test_every_loss(tmp_path, loss):
    """The curriculum loss turns NaN into zero; other losses hide it in part."""
    config = TrainingConfig(loss=loss, noise_rate=NOISE_RATE, epochs=5, learning_rate=1e30)
    with pytest.raises(InvalidValueError, match="training has diverged; lower `learning_rate`"):
        train_run(noisy_clouds(), config, tmp_path / "run")
    assert not list((tmp_path / "run").glob("model*"))
    assert not list((tmp_path / "run").glob("checkpoints/*"))


class Blind(nn.Module):
    """Its logits are finite, and one of its weights, which the loss never sees, is not."""

    def __init__(self, poison):
        super().__init__()
        self.linear, self.unused = nn.Linear(6, 4), nn.Parameter(torch.tensor([poison]))
        self.register_buffer("mask", torch.tensor([-torch.inf, 0.0]))

    def forward(self, x):
        return self.linear(x)


def test_weights_that_do_not_show(tmp_path):
    config = TrainingConfig(loss="ce", epochs=1)
    with pytest.raises(InvalidValueError, match=r"weights of the network are not finite in epoch"):
        train_run(noisy_clouds(), config, tmp_path / "nan", model=Blind(torch.nan))
    train_run(noisy_clouds(), config, tmp_path / "whole", model=Blind(0.0))  # whose mask is -inf


def test_a_model_that_is_not_finite_is_not_saved(tmp_path):
    card = ModelCard(
        model=None, input_shape=(6,), input_dtype="float32", class_names=("a", "b"), mean=(), std=()
    )
    for poison in (torch.nan, torch.inf):
        with pytest.raises(InvalidValueError, match="is not saved, because its weights are not"):
            SavedModel(Blind(poison), card).save(tmp_path)
    assert not any(tmp_path.iterdir())
    broken = nn.BatchNorm1d(2)
    broken.running_mean[0] = torch.nan
    assert not is_finite(broken)
