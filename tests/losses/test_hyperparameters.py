"""The arguments that each loss has: their limits, and values that are refused."""

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
        (lambda: nb.SymmetricCrossEntropy(A=-1.0), "`A` must be finite and not negative"),
        (lambda: nb.SymmetricCrossEntropy(A=float("inf")), "`A` must be finite"),
        (lambda: nb.NormalizedCrossEntropyMAE(alpha=-1.0), "`alpha` must be"),
        (lambda: nb.Bootstrapping(mode="firm"), "'soft' or 'hard'"),
        (lambda: nb.Bootstrapping(beta=2.0), r"`beta` must lie in \[0, 1\]"),
        (lambda: nb.PriorCrossEntropy(1.5, 10), r"`noise_rate` must lie in \[0, 1\]"),
        (lambda: nb.PriorCrossEntropy(0.4, 1), "`num_classes` must be at least 2"),
        (lambda: nb.ForwardCrossEntropy.symmetric(-0.1, 10), "`noise_rate` must lie in"),
        (lambda: nb.Truncated(0), "`num_samples` must be at least 1"),
        (lambda: nb.Truncated(10, k=0.0), "`k` must lie in"),
        (lambda: nb.Curriculum(noise_rate=-0.1), "`noise_rate` must lie in"),
        (lambda: nb.EarlyLearning(10, 3, beta=1.1), "`beta` must lie in"),
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
