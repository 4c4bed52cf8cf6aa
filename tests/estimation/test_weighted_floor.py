"""The floor under class weights, against what the best honest model reaches on weighted labels."""

import pytest
import torch

import noisebound as nb
from noisebound.estimation import GivenRate, GivenTransition, UnknownNoise
from noisebound.estimation.noise import balanced_weights, class_weighted

TRANSITION = torch.tensor([[0.9, 0.3, 0.0], [0.1, 0.6, 0.2], [0.0, 0.1, 0.8]]).double()
PRIOR = torch.tensor([0.6, 0.3, 0.1]).double()
WEIGHTS = torch.tensor([0.5, 1.0, 4.0]).double()
LOSSES = [nb.CrossEntropy(), nb.MeanSquaredError(), nb.GeneralizedCrossEntropy(a=0.4)]


def weighted_noise(weights=WEIGHTS):
    return class_weighted(GivenTransition(TRANSITION, PRIOR), weights, TRANSITION @ PRIOR)


def test_floor_of_weighted_cross_entropy_by_hand():
    """The risk of the posterior of weighted labels, class by class."""
    joint = WEIGHTS[:, None] * TRANSITION * PRIOR  # [label, true class]
    posterior = joint / joint.sum(0)
    risk = -(joint * torch.where(joint > 0, posterior, 1).log()).sum() / joint.sum()
    assert weighted_noise().bound(nb.CrossEntropy()).level == pytest.approx(risk.item())


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_no_prediction_has_a_lower_weighted_risk(loss):
    joint = WEIGHTS[:, None] * TRANSITION * PRIOR
    floor = weighted_noise().bound(loss).level
    generator = torch.Generator().manual_seed(0)
    for spread in (0.3, 1.0, 3.0):
        logits = spread * torch.randn(500, 3, 3, generator=generator).double()  # per true class
        losses = loss.class_losses(logits.flatten(0, 1).log_softmax(1)).view(500, 3, 3)
        risks = (losses * joint.mT).sum((1, 2)) / joint.sum()
        assert risks.min() >= floor - 1e-9


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_equal_weights_change_nothing(loss):
    plain = GivenTransition(TRANSITION, PRIOR).bound(loss).level
    same = weighted_noise(torch.full((3,), 7.0).double()).bound(loss).level
    assert same == pytest.approx(plain)
    rate = class_weighted(GivenRate(0.2, 3), torch.ones(3).double(), PRIOR)
    assert rate.bound(loss).level == pytest.approx(nb.noise_bound(loss, 0.2, 3))


def test_a_loss_with_the_same_class_weights_has_the_same_floor():
    """Weights of the loss and weights of the examples are two ways to the same mean."""
    of_loss = nb.transition_bound(nb.CrossEntropy(weight=WEIGHTS), TRANSITION, PRIOR)
    assert weighted_noise().bound(nb.CrossEntropy()).level == pytest.approx(of_loss)


def test_unknown_noise_stays_unknown():
    noise = class_weighted(UnknownNoise(3, "too few"), WEIGHTS, PRIOR)
    assert noise.rate is None
    assert noise.bound(nb.CrossEntropy()).level == 0


def test_bound_classes_suppose_classes_alike():
    with pytest.raises(ValueError, match="`bound_classes` needs classes of equal weight"):
        class_weighted(GivenRate(0.2, 3, bound_classes=2), WEIGHTS, PRIOR)


def test_balanced_weights_make_labels_count_alike():
    counts = torch.tensor([60, 30, 0, 10])
    weights = balanced_weights(counts)
    assert (weights * counts).tolist() == pytest.approx([100 / 3, 100 / 3, 0, 100 / 3])
