"""Forward and backward correction by a matrix ``T``."""

import pytest
import torch
from hypothesis import given, strategies as st

import noisebound as nb
from all_losses import ALL_LOSSES, CLASSES, RATE, SYMMETRIC, TRANSITION

FORWARD, BACKWARD = ("fce", "fce-symmetric"), ("backward", "backward-symmetric")

logits_of = st.lists(
    st.lists(st.floats(-20, 20), min_size=CLASSES, max_size=CLASSES), min_size=1, max_size=4
).map(lambda rows: torch.tensor(rows, dtype=torch.float64))


@given(logits_of)
def test_symmetric_closed_forms_are_the_general_ones(logits):
    labels = torch.arange(len(logits)) % CLASSES
    for family in (nb.ForwardCrossEntropy, nb.BackwardCrossEntropy):
        general = family(SYMMETRIC, reduction="none")
        closed = family.symmetric(RATE, CLASSES, reduction="none")
        torch.testing.assert_close(closed(logits, labels), general(logits, labels))


@given(logits_of)
def test_backward_correction_is_unbiased(logits):
    """Its mean over the noise is the clean cross-entropy."""
    loss = nb.BackwardCrossEntropy(TRANSITION, reduction="none")
    clean = nb.CrossEntropy(reduction="none")
    for true in range(CLASSES):
        noisy = torch.tensor(TRANSITION[:, true]).expand(len(logits), CLASSES)
        truth = torch.full((len(logits),), true)
        torch.testing.assert_close(loss(logits, noisy), clean(logits, truth))


@given(logits_of)
def test_without_noise_both_are_cross_entropy(logits):
    labels = torch.arange(len(logits)) % CLASSES
    expected = nb.CrossEntropy()(logits, labels)
    for family in (nb.ForwardCrossEntropy, nb.BackwardCrossEntropy):
        torch.testing.assert_close(family(torch.eye(CLASSES))(logits, labels), expected)
        torch.testing.assert_close(family.symmetric(0.0, CLASSES)(logits, labels), expected)


def test_forward_correction_keeps_the_gradient_of_an_impossible_label():
    """In probability space the loss would be infinite and its gradient NaN."""
    transition = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    logits = torch.tensor([[-500.0, 500.0]], requires_grad=True)
    value = nb.ForwardCrossEntropy(transition)(logits, torch.tensor([0]))
    value.backward()
    assert value.item() == 1000
    torch.testing.assert_close(logits.grad, torch.tensor([[-1.0, 1.0]]))


def test_forward_correction_by_a_matrix_that_rules_out_a_label():
    """An estimated matrix does so for a class that was never observed."""
    transition = torch.tensor([[0.8, 0.3, 0.5], [0.2, 0.7, 0.5], [0.0, 0.0, 0.0]])
    logits = torch.tensor([[1.0, 0.0, 2.0]], requires_grad=True)
    labels = torch.tensor([[0.9, 0.1, 0.0]])
    value = nb.ForwardCrossEntropy(transition)(logits, labels)
    noised = torch.softmax(logits, 1) @ transition.T
    expected = -(labels[:, :2] * noised[:, :2].log()).sum()
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(
        torch.autograd.grad(value, logits)[0], torch.autograd.grad(expected, logits)[0]
    )


def test_symmetric_forward_correction_above_the_limit():
    with pytest.warns(nb.NoiseRateWarning):
        loss = nb.ForwardCrossEntropy.symmetric(0.9, 3, reduction="none")
    transition = torch.full((3, 3), 0.45) - 0.35 * torch.eye(3)
    general = nb.ForwardCrossEntropy(transition, reduction="none")
    logits = torch.tensor([[2.0, 0.0, -1.0]] * 3)
    torch.testing.assert_close(loss(logits, torch.arange(3)), general(logits, torch.arange(3)))


@pytest.mark.parametrize("family", [nb.ForwardCrossEntropy, nb.BackwardCrossEntropy])
class TestTransition:
    def test_rows_instead_of_columns(self, family):
        with pytest.raises(ValueError, match="pass its transpose"):
            family([[0.9, 0.1], [0.3, 0.7]])

    def test_columns_that_do_not_sum_to_one(self, family):
        with pytest.raises(ValueError, match=r"a column that sums to 1\.2"):
            family([[0.9, 0.3], [0.3, 0.7]])

    def test_negative_entries(self, family):
        with pytest.raises(ValueError, match=r"negative entry -0\.1"):
            family([[1.1, 0.3], [-0.1, 0.7]])

    def test_nan(self, family):
        with pytest.raises(ValueError, match="finite"):
            family([[float("nan"), 0.3], [0.1, 0.7]])

    @pytest.mark.parametrize("shape", [(2, 3), (4,), (2, 2, 2), (1, 1)])
    def test_wrong_shape(self, family, shape):
        with pytest.raises(ValueError, match="square matrix"):
            family(torch.full(shape, 0.5))

    def test_wrong_number_of_classes(self, family):
        with pytest.raises(ValueError, match="made for 2 classes, got logits with 3"):
            family([[0.9, 0.3], [0.1, 0.7]])(torch.zeros(1, 3), torch.tensor([0]))


def test_backward_correction_refuses_a_singular_matrix():
    with pytest.raises(ValueError, match="singular"):
        nb.BackwardCrossEntropy([[0.5, 0.5], [0.5, 0.5]])
    with pytest.raises(ValueError, match="singular"):
        nb.BackwardCrossEntropy.symmetric(0.9, 10)


def test_forward_correction_takes_a_singular_matrix():
    loss = nb.ForwardCrossEntropy([[0.5, 0.5], [0.5, 0.5]])
    torch.testing.assert_close(
        loss(torch.randn(3, 2), torch.tensor([0, 1, 0])), torch.tensor(2.0).log()
    )


@pytest.mark.parametrize("case", ALL_LOSSES, ids=str)
class TestWhatALossPredicts:
    def test_only_the_corrections_predict_the_true_class(self, case):
        assert case.make().predicts_true_class == (case.name in FORWARD + BACKWARD)

    def test_assumed_transition(self, case):
        assumed = case.make().assumed_transition
        if case.name not in FORWARD + BACKWARD:
            assert assumed is None
            return
        matrix = SYMMETRIC if case.name.endswith("symmetric") else TRANSITION
        torch.testing.assert_close(assumed, torch.tensor(matrix))

    def test_on_observed_labels(self, case):
        loss = case.make()
        judge = loss.on_observed_labels()
        if case.name in BACKWARD:
            assert judge is None
        elif case.name in FORWARD:
            assert type(judge) is nb.CrossEntropy
        else:
            assert judge is loss


@pytest.mark.parametrize("case", [c for c in ALL_LOSSES if c.name in FORWARD], ids=str)
@given(logits=logits_of)
def test_forward_correction_is_cross_entropy_of_the_noised_prediction(case, logits):
    """FCE of ``q`` is the cross-entropy of ``T q``, whatever the options."""
    options = {
        "weight": torch.linspace(0.5, 2, CLASSES),
        "ignore_index": 1,
        "label_smoothing": 0.1,
        "reduction": "none",
    }
    loss = case.make(**options)
    judge = loss.on_observed_labels()
    for name, value in options.items():
        assert getattr(judge, name) is value or getattr(judge, name) == value
    labels = torch.arange(len(logits)) % CLASSES
    noised = loss.noise_model.forward(logits.softmax(1)).log()
    torch.testing.assert_close(loss(logits, labels), judge(noised, labels))
