import copy

import pytest
import torch
from torch import nn

from noisebound.averaging import AveragedWeights, RunningAverage


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_running_average_is_that_of_torch_to_the_last_bit(dtype):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)).to(dtype)
    ours = AveragedWeights(model, steps=6)
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
