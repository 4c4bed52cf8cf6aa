"""The arguments that each loss has: their limits, and values that are refused."""

import math

import pytest
import torch
from torch.nn import functional as F

import noisebound as nb

LOGITS = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
LABELS = torch.tensor([0, 1, 2, 3, 0, 1])


def test_generalized_cross_entropy_goes_from_ce_to_mae():
    near_ce = nb.GeneralizedCrossEntropy(a=1e-9)(LOGITS, LABELS)
    torch.testing.assert_close(near_ce, nb.CrossEntropy()(LOGITS, LABELS), rtol=1e-7, atol=0)
    at_mae = nb.GeneralizedCrossEntropy(a=1.0)(LOGITS, LABELS)
    torch.testing.assert_close(at_mae, nb.MeanAbsoluteError()(LOGITS, LABELS))


def test_symmetric_cross_entropy_without_its_second_term_is_ce():
    torch.testing.assert_close(
        nb.SymmetricCrossEntropy(A=0.0)(LOGITS, LABELS), F.cross_entropy(LOGITS, LABELS)
    )


def test_bootstrapping_without_the_prediction_is_ce():
    for mode in ("soft", "hard"):
        torch.testing.assert_close(
            nb.Bootstrapping(mode, beta=1.0)(LOGITS, LABELS), F.cross_entropy(LOGITS, LABELS)
        )


@pytest.mark.parametrize(
    ("near", "limit"),
    [
        (nb.Focal(gamma=0.0), nb.CrossEntropy()),
        (nb.TaylorCrossEntropy(order=1), nb.MeanAbsoluteError()),
        (nb.TaylorCrossEntropy(order=1000), nb.CrossEntropy()),
        (nb.TaylorCrossEntropy(order=2), nb.AsymmetricUnhinged(a=2.0, p=2.0)),
        (nb.JensenShannon(label_weight=1e-9), nb.CrossEntropy()),
        (nb.JensenShannon(label_weight=1 - 1e-9), nb.MeanAbsoluteError()),
        (nb.LabelSmoothing(smoothing=0.2), nb.CrossEntropy(label_smoothing=0.2)),
        (nb.LabelSmoothing(1 - 1 / (1 - 0.3 - 0.1)), nb.BackwardCrossEntropy.symmetric(0.3, 4)),
        (
            nb.ActivePassive(nb.Normalized(nb.CrossEntropy()), nb.MeanAbsoluteError()),
            nb.NormalizedCrossEntropyMAE(),
        ),
    ],
    ids=repr,
)
def test_limits_of_one_loss_are_another(near, limit):
    """The values agree, and so do the floors."""
    tolerance = 0.06 if isinstance(near, nb.JensenShannon) and near.label_weight > 0.5 else 2e-6
    torch.testing.assert_close(near(LOGITS, LABELS), limit(LOGITS, LABELS), rtol=0, atol=tolerance)
    floors = [nb.noise_bound(loss, 0.3, 4) for loss in (near, limit)]
    assert floors[0] == pytest.approx(floors[1], abs=tolerance)


def test_ldr_kl_without_a_margin_is_cross_entropy_at_a_temperature():
    loss = nb.LabelDistributionallyRobust(lam=3.0, margin=0.0)
    expected = 3 * (F.cross_entropy(LOGITS / 3, LABELS) - math.log(4))
    torch.testing.assert_close(loss(LOGITS, LABELS), expected)
    floor = 3 * (nb.noise_bound(nb.CrossEntropy(), 0.3, 4) - math.log(4))
    assert nb.noise_bound(loss, 0.3, 4) == pytest.approx(floor, abs=1e-9)


def test_floors_found_by_search():
    """A margin above λ log 2 makes LDR-KL neither convex nor concave; classes may be about even."""
    wide = nb.LabelDistributionallyRobust(lam=1.0, margin=2.0)
    even = nb.ActivePassive(nb.Normalized(nb.CrossEntropy()), nb.AsymmetricExponential(a=1.0))
    for loss, p in ((wide, (0.7, 0.3)), (even, (0.51, 0.49))):
        q = torch.linspace(1e-9, 1 - 1e-9, 100_001, dtype=torch.float64)
        losses = loss.class_losses(torch.stack([q, 1 - q], 1).log())
        dense = (losses @ torch.tensor(p, dtype=torch.float64)).min().item()
        assert nb.entropy(loss, p) == pytest.approx(dense, abs=1e-4)


@pytest.mark.parametrize("part", ["loss", "active", "passive"])
def test_parts_of_a_sum_are_checked(part):
    nce = nb.Normalized(nb.CrossEntropy())
    make = {
        "loss": lambda: nb.Normalized(nb.MeanSquaredError()),
        "active": lambda: nb.ActivePassive(nb.CrossEntropy(), nb.MeanAbsoluteError()),
        "passive": lambda: nb.ActivePassive(nce, nb.MeanSquaredError()),
    }[part]
    with pytest.raises(TypeError, match=f"`{part}` must be a"):
        make()


def test_negative_smoothing_of_too_little_noise_has_no_floor():
    with pytest.raises(ValueError, match="nearer to zero"):
        nb.noise_bound(nb.LabelSmoothing(smoothing=-0.4), 0.1, 10)


def test_the_entropy_of_a_convex_loss_has_its_gradient():
    """It is ``L(q)`` at the best prediction ``q``."""
    p = torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64)
    for loss in (nb.Focal(), nb.JensenShannon(), nb.AsymmetricExponential()):
        mass = p.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(loss.entropy(mass), mass)
        expected = loss.class_losses(loss.best_prediction(p).clamp(min=1e-300).log())
        torch.testing.assert_close(gradient, expected)


def test_prior_shares_the_gradient_of_the_maximum_between_ties():
    logits = torch.zeros(1, 4, dtype=torch.float64, requires_grad=True)
    loss = nb.PriorCrossEntropy(noise_rate=0.4, num_classes=4)
    (gradient,) = torch.autograd.grad(loss(logits, torch.tensor([1])), logits)
    # The mean of 2q - 1[y] - p over the four ways to break the tie.
    expected = torch.full((1, 4), 2 / 4 - 1 / 4, dtype=torch.float64)
    expected[0, 1] -= 1
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nb.GeneralizedCrossEntropy(a=0.0), r"`a` must lie in \(0, 1\], got 0.0"),
        (lambda: nb.GeneralizedCrossEntropy(a=1.5), "`a` must lie in"),
        (lambda: nb.GeneralizedCrossEntropy(a=float("nan")), "`a` must lie in"),
        (lambda: nb.SymmetricCrossEntropy(A=-1.0), r"`A` must lie in \[0, ∞\)"),
        (lambda: nb.SymmetricCrossEntropy(A=float("inf")), "`A` must lie in"),
        (lambda: nb.NormalizedCrossEntropyMAE(alpha=-1.0), "`alpha` must lie in"),
        (lambda: nb.Bootstrapping(mode="firm"), "'soft' or 'hard'"),
        (lambda: nb.Bootstrapping(beta=2.0), r"`beta` must lie in \[0, 1\]"),
        (lambda: nb.PriorCrossEntropy(1.5, 10), r"`noise_rate` must lie in \[0, 1\]"),
        (lambda: nb.PriorCrossEntropy(0.4, 1), "`num_classes` must be at least 2"),
        (lambda: nb.ForwardCrossEntropy.symmetric(-0.1, 10), "`noise_rate` must lie in"),
        (lambda: nb.Truncated(0), "`num_samples` must be at least 1"),
        (lambda: nb.Truncated(10, k=0.0), "`k` must lie in"),
        (lambda: nb.Curriculum(noise_rate=-0.1), "`noise_rate` must lie in"),
        (lambda: nb.Curriculum(0.1, base="zero-one"), "`base` must be 'hinge' or"),
        (lambda: nb.EarlyLearning(10, 3, beta=1.1), "`beta` must lie in"),
        (lambda: nb.Focal(gamma=-1.0), "`gamma` must lie in"),
        (lambda: nb.AsymmetricUnhinged(a=1.0), r"`a` must lie in \(1, ∞\), got 1.0"),
        (lambda: nb.AsymmetricExponential(a=0.0), "`a` must lie in"),
        (lambda: nb.TaylorCrossEntropy(order=0), "`order` must be at least 1"),
        (lambda: nb.JensenShannon(label_weight=1.0), r"`label_weight` must lie in \(0, 1\)"),
        (lambda: nb.LabelSmoothing(smoothing=1.5), "`smoothing` must lie in"),
        (lambda: nb.LabelDistributionallyRobust(lam=0.0), "`lam` must lie in"),
    ],
)
def test_bad_arguments_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_fractional_class_numbers_are_refused():
    with pytest.raises(TypeError, match="whole number"):
        nb.PriorCrossEntropy(0.4, 2.5)


def test_wrong_number_of_classes_is_refused():
    with pytest.raises(ValueError, match="made for 10 classes, got logits with 4"):
        nb.PriorCrossEntropy(0.4, 10)(LOGITS, LABELS)
