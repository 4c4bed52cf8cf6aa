import json

import pytest
import torch
from safetensors import safe_open

import noisebound as nb
from noisebound.averaging import AveragedWeights
from noisebound.models import create_model
from noisebound.runs.keeper import CheckpointWarning, load_checkpoint, save_checkpoint
from noisebound.training.state import TrainingState


def some_state(seed):
    model = create_model("small_cnn", (1, 8, 8), 3, seed)
    state = TrainingState(
        model,
        AveragedWeights(model, steps=6),
        nb.EarlyLearning(num_samples=4, num_classes=3),
        torch.optim.Adam(model.parameters(), fused=True),
    )
    for _ in range(seed):
        train(state, torch.rand(4, 1, 8, 8))
    return state


def train(state, images):
    loss = state.criterion(state.model(images), torch.arange(4) % 3, torch.arange(4))
    loss.backward()
    state.optimizer.step()
    state.averaged.update_parameters(state.model)
    state.epoch += 1


def everything(state):
    """All tensors of a state, in one order."""
    moments = state.optimizer.state_dict()["state"]
    return [
        *state.model.state_dict().values(),
        *state.averaged.state_dict().values(),
        *state.criterion.state_dict().values(),
        *(value for index in sorted(moments) for _, value in sorted(moments[index].items())),
    ]


def are_equal(one, other):
    pairs = list(zip(everything(one), everything(other), strict=True))
    assert len(pairs) > 50
    return one.epoch == other.epoch and all(torch.equal(a, b) for a, b in pairs)


def test_state_comes_back_bit_by_bit(tmp_path):
    saved, loaded = some_state(3), some_state(0)
    save_checkpoint(tmp_path, saved, "run")
    load_checkpoint(tmp_path, loaded, "run")
    assert are_equal(saved, loaded)
    images = torch.rand(4, 1, 8, 8)
    for state in (saved, loaded):
        state.optimizer.zero_grad()
        train(state, images)
    assert are_equal(saved, loaded)  # whatever the order of numbers in memory


def test_none_to_load(tmp_path):
    state = some_state(0)
    assert load_checkpoint(tmp_path, state, "run") == []
    assert state.epoch == 0


def test_nothing_is_pickled(tmp_path):
    save_checkpoint(tmp_path, some_state(1), "run")
    (path,) = tmp_path.iterdir()
    with safe_open(path, framework="pt") as stored:
        header = json.loads(stored.metadata()["noisebound"])
    assert json.loads(header["about"])["epoch"] == 1


def test_the_newest_two_are_kept(tmp_path):
    state = some_state(1)
    for epoch in range(1, 6):
        state.epoch = epoch
        save_checkpoint(tmp_path, state, "run")
    assert [path.stem for path in sorted(tmp_path.iterdir())] == ["epoch-000004", "epoch-000005"]


def damage_content(content):
    content[-3] ^= 1


def damage_header(content):
    content[2] ^= 255


def cut(content):
    del content[len(content) // 2 :]


def empty(content):
    content.clear()


def damage_settings(content):
    """Another learning rate: valid JSON, of a valid file."""
    at = content.index(b"0.999")
    content[at : at + 5] = b"0.998"


@pytest.mark.parametrize("damage", [damage_content, damage_header, damage_settings, cut, empty])
def test_damaged_checkpoint_is_named_and_the_one_before_is_used(tmp_path, damage):
    earlier, later = some_state(1), some_state(2)
    save_checkpoint(tmp_path, earlier, "run")
    save_checkpoint(tmp_path, later, "run")
    newest = tmp_path / "epoch-000002.safetensors"
    content = bytearray(newest.read_bytes())
    damage(content)
    newest.write_bytes(content)
    loaded = some_state(0)
    with pytest.warns(CheckpointWarning, match=f"{newest} is damaged"):
        load_checkpoint(tmp_path, loaded, "run")
    assert are_equal(earlier, loaded)


def test_checkpoint_of_another_run(tmp_path):
    save_checkpoint(tmp_path, some_state(1), "run")
    with pytest.raises(ValueError, match="another config or other data"):
        load_checkpoint(tmp_path, some_state(0), "another")
