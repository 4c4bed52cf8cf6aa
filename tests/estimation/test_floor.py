"""The measured floor: never far below the entropy, for any loss, and cautious with few examples."""

import pytest
import torch

import noisebound as nb
from noisebound.estimation import measured_floor

CLASSES = 5


def held_out(rate=0.3, n=4000, sharpness=1.0, seed=0):
    """Labels with symmetric noise, and the logits of a model that knows what can be known."""
    generator = torch.Generator().manual_seed(seed)
    true = torch.randint(CLASSES, (n,), generator=generator)
    noisy = nb.corrupt(true, "symmetric", rate, CLASSES, generator=generator)
    columns = nb.symmetric_noise(rate, CLASSES)
    transition = torch.stack([columns.roll(k) for k in range(CLASSES)], dim=1)
    return sharpness * transition[:, true].T.clamp(min=1e-9).log(), noisy.labels


@pytest.mark.parametrize(
    "loss",
    [
        nb.CrossEntropy(),
        nb.GeneralizedCrossEntropy(),
        nb.SymmetricCrossEntropy(),
        nb.MeanSquaredError(),
        torch.nn.CrossEntropyLoss(),
        torch.nn.CrossEntropyLoss(reduction="none"),
    ],
)
def test_the_floor_of_a_perfect_model_is_the_noise_bound(loss):
    logits, labels = held_out()
    floor = measured_floor(loss, logits, labels)
    bound = nb.noise_bound(loss, 0.3, CLASSES)
    assert floor.level == pytest.approx(bound, abs=4 * floor.standard_error + 1e-9)
    assert floor.cautious_level == pytest.approx(floor.level - floor.standard_error)


def test_an_over_confident_model_reaches_the_same_floor():
    """One that was trained with another loss, or too long."""
    plain = measured_floor(nb.CrossEntropy(), *held_out())
    sharp = measured_floor(nb.CrossEntropy(), *held_out(sharpness=4.0))
    assert sharp.level == pytest.approx(plain.level, abs=1e-5)
    assert sharp.temperature == pytest.approx(4 * plain.temperature, rel=1e-2)


def test_a_model_that_knows_less_has_a_higher_floor():
    logits, labels = held_out()
    confused = logits + 2 * torch.randn(logits.shape, generator=torch.Generator().manual_seed(1))
    assert (
        measured_floor(nb.CrossEntropy(), confused, labels).level
        > measured_floor(nb.CrossEntropy(), logits, labels).level + 0.1
    )


def test_the_standard_error_is_that_of_repetitions():
    levels, errors = [], []
    for seed in range(60):
        floor = measured_floor(nb.CrossEntropy(), *held_out(n=300, seed=seed))
        levels.append(floor.level)
        errors.append(floor.standard_error)
    spread = torch.tensor(levels).std()
    assert torch.tensor(errors).mean() == pytest.approx(spread.item(), rel=0.3)


def test_bad_input():
    logits, labels = held_out()
    with pytest.raises(ValueError, match="EarlyLearning depends on its memory and has no floor"):
        measured_floor(nb.EarlyLearning(len(labels), CLASSES), logits, labels)
    with pytest.raises(ValueError, match="`labels` must be one per example, 4000"):
        measured_floor(nb.CrossEntropy(), logits, labels[:7])
    with pytest.raises(ValueError, match="logits must be finite"):
        measured_floor(nb.CrossEntropy(), logits * torch.nan, labels)
    with pytest.raises(ValueError, match="`logits` must have shape"):
        measured_floor(nb.CrossEntropy(), logits[0], labels)
