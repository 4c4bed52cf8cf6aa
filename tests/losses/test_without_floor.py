"""Truncated and ELR, which remember their examples, and Curriculum, which ranks its batch."""

import pytest
import torch
from hypothesis import given, strategies as st
from torch.nn import functional as F

import noisebound as nb
from noisebound.losses.without_floor import choose_by_curriculum

LOGITS = torch.tensor([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 4.0], [4.0, 0.0, 0.0]])
LABELS = torch.tensor([0, 1, 0, 1])  # the last two are unlikely
INDICES = torch.tensor([5, 2, 7, 0])


def make(family):
    return family(8) if family is nb.Truncated else family(8, 3)


@pytest.mark.parametrize("family", [nb.Truncated, nb.EarlyLearning])
class TestIndices:
    def test_missing(self, family):
        with pytest.raises(ValueError, match=r"loss\(logits, labels, indices\)"):
            make(family)(LOGITS, LABELS)

    def test_out_of_range(self, family):
        with pytest.raises(ValueError, match=r"0 … 7 \(num_samples=8\), got 8"):
            make(family)(LOGITS, LABELS, INDICES + 1)

    def test_of_the_wrong_shape(self, family):
        with pytest.raises(ValueError, match="integer indices"):
            make(family)(LOGITS, LABELS, INDICES[:2])

    def test_not_needed_in_evaluation(self, family):
        loss = make(family).eval()
        everything = make(family).train()(LOGITS, LABELS, INDICES)
        assert torch.isfinite(loss(LOGITS, LABELS))
        assert torch.isfinite(everything)

    def test_memory_is_saved(self, family):
        loss = make(family)
        loss(LOGITS, LABELS, INDICES)
        if family is nb.Truncated:
            loss.choose(LOGITS, LABELS, INDICES)
        twin = make(family)
        twin.load_state_dict(loss.state_dict())
        torch.testing.assert_close(
            twin.eval()(LOGITS, LABELS, INDICES), loss.eval()(LOGITS, LABELS, INDICES)
        )


@pytest.mark.parametrize("family", [nb.Truncated, nb.EarlyLearning])
def test_ignored_examples_count_for_nothing(family):
    labels = torch.tensor([0, 1, -100, -100])
    everything = make(family)(LOGITS, labels, INDICES)
    torch.testing.assert_close(everything, make(family)(LOGITS[:2], labels[:2], INDICES[:2]))


def test_truncated_drops_unlikely_labels_and_takes_them_back():
    loss = nb.Truncated(8, reduction="none")
    everything = loss(LOGITS, LABELS, INDICES)
    loss.choose(LOGITS, LABELS, INDICES)
    assert loss.kept.tolist() == [False, True, True, True, True, True, True, False]
    kept = torch.tensor([True, True, False, False])
    torch.testing.assert_close(loss(LOGITS, LABELS, INDICES), everything * kept)
    loss.choose(LOGITS, LOGITS.argmax(1), INDICES)
    assert loss.kept.all()


def test_truncated_agrees_with_the_threshold_on_the_loss():
    """An example is kept if its GCE is below that of probability k (Zhang & Sabuncu, eq. 9)."""
    loss = nb.Truncated(200, reduction="none")
    logits = 3 * torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(200) % 3
    losses = loss(logits, labels, torch.arange(200))
    loss.choose(logits, labels, torch.arange(200))
    assert torch.equal(loss.kept, losses < 0)
    assert 0 < loss.kept.sum() < 200


def test_truncated_prunes_on_its_schedule():
    assert [epoch for epoch in range(1, 71) if nb.Truncated(1).prunes_at(epoch)] == [40, 50, 60, 70]


def test_early_learning_targets_are_running_means_without_gradient():
    loss = nb.EarlyLearning(8, 3)
    logits = LOGITS.clone().requires_grad_()
    q = torch.softmax(LOGITS, 1)
    loss(logits, LABELS, INDICES)
    value = loss(logits, LABELS, INDICES)
    target = 0.7 * (0.3 * q) + 0.3 * q
    torch.testing.assert_close(loss.targets[INDICES], target)
    assert not loss.targets[[1, 3, 4, 6]].any()
    fixed = (
        F.cross_entropy(logits, LABELS)
        + 3 * torch.log(1 - (target * torch.softmax(logits, 1)).sum(1)).mean()
    )
    torch.testing.assert_close(value, fixed)
    torch.testing.assert_close(
        torch.autograd.grad(value, logits)[0], torch.autograd.grad(fixed, logits)[0]
    )


def test_early_learning_targets_are_not_updated_in_evaluation():
    loss = nb.EarlyLearning(8, 3).eval()
    torch.testing.assert_close(loss(LOGITS, LABELS, INDICES), F.cross_entropy(LOGITS, LABELS))
    assert not loss.targets.any()


def test_early_learning_has_a_floor_however_long_it_agrees():
    loss = nb.EarlyLearning(1, 3)
    logits = torch.tensor([[1e4, -1e4, -1e4]], requires_grad=True)
    for _ in range(100):
        value = loss(logits, torch.tensor([0]), torch.tensor([0]))
    assert value.item() >= 3 * torch.log(torch.tensor(0.99e-4)).item()
    value.backward()
    assert torch.isfinite(logits.grad).all()


def test_truncated_chooses_by_class_indices_only():
    with pytest.raises(ValueError, match="class indices"):
        nb.Truncated(8).choose(LOGITS, torch.softmax(LOGITS, 1), INDICES)


@pytest.mark.parametrize("family", [nb.Truncated, nb.EarlyLearning])
@pytest.mark.usefixtures("unchecked_shapes")
def test_compiles_without_graph_break(family):
    torch.compiler.reset()
    eager, traced = make(family), make(family)
    compiled = torch.compile(traced, fullgraph=True, backend="aot_eager")
    for _ in range(3):  # the memory changes the second loss
        eager_logits, compiled_logits = (LOGITS.clone().requires_grad_() for _ in range(2))
        expected = eager(eager_logits, LABELS, INDICES)
        value = compiled(compiled_logits, LABELS, INDICES)
        expected.backward()
        value.backward()
        torch.testing.assert_close(value, expected)
        torch.testing.assert_close(compiled_logits.grad, eager_logits.grad)
    torch.testing.assert_close(traced.state_dict(), eager.state_dict())


def test_early_learning_remembers_in_the_precision_of_the_logits():
    logits = LOGITS.double()
    loss = nb.EarlyLearning(8, 3)
    q = torch.softmax(logits, 1)
    loss(logits, LABELS, INDICES)
    value = loss(logits, LABELS, INDICES)
    target = 0.7 * (0.3 * q) + 0.3 * q
    regularizer = torch.log(1 - (target * q).sum(1)).mean()
    expected = F.cross_entropy(logits, LABELS) + 3 * regularizer
    torch.testing.assert_close(value, expected, rtol=1e-14, atol=1e-14)


@given(st.lists(st.floats(0, 10), min_size=1, max_size=9, unique=True), st.floats(0, 9, width=32))
def test_choice_attains_the_minimum_over_all_choices(losses, threshold):
    """Lyu & Tsang's Proposition 1: it minimizes ``max(Σ v l, C - Σ v)`` over all v in {0, 1}^n."""
    values = torch.tensor(losses, dtype=torch.float64)

    def objective(chosen):
        return max((chosen * values).sum().item(), threshold - chosen.sum().item())

    every_choice = torch.cartesian_prod(*[torch.tensor([False, True])] * len(losses))
    best = min(objective(chosen) for chosen in every_choice.reshape(-1, len(losses)))
    chosen = choose_by_curriculum(values, torch.tensor(threshold, dtype=torch.float64))
    assert objective(chosen) <= best + 1e-9


def test_drops_the_highest_losses():
    logits = torch.zeros(10, 2)
    logits[:, 0] = 6.0
    labels = torch.tensor([0, 0, 1, 0, 0, 0, 1, 0, 0, 0])
    loss = nb.Curriculum(noise_rate=0.2, base="cross-entropy", reduction="none")
    assert torch.equal(loss(logits, labels) > 0, labels == 0)
    _, weights = nb.Curriculum(noise_rate=0.2).weighted_losses(logits, labels)
    assert torch.equal(weights > 0, labels == 0)


def test_the_hinge_admits_far_more_untrained_examples_than_cross_entropy():
    """An untrained model gives equal probabilities: the hinge is 1, and CE is log 47."""
    logits = 0.01 * torch.randn(300, 47, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(300) % 47
    admitted = {
        base: nb.Curriculum(0.4, base).weighted_losses(logits, labels)[1].sum().item()
        for base in ("hinge", "cross-entropy")
    }
    assert 125 < admitted["hinge"] < 150
    assert 50 < admitted["cross-entropy"] < 65


def test_nothing_admitted_is_zero_and_not_nan():
    logits = torch.tensor([[0.0, 50.0]], requires_grad=True)
    value = nb.Curriculum(noise_rate=0.5)(logits, torch.tensor([0]))
    value.backward()
    assert value.item() == 0
    assert not logits.grad.any()


def test_logits_that_are_nan_are_not_left_out():
    logits = torch.zeros(4, 3)
    logits[1] = torch.nan
    labels = torch.tensor([0, 1, 2, -100])
    for reduction in ("mean", "sum"):
        assert nb.Curriculum(noise_rate=0.4, reduction=reduction)(logits, labels).isnan()
    losses = nb.Curriculum(noise_rate=0.4, reduction="none")(logits, labels)
    assert losses.isnan().tolist() == [False, True, False, False]
