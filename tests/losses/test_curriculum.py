import torch
from hypothesis import given
from hypothesis import strategies as st

import noisebound as nb
from noisebound.losses.curriculum import choose_by_curriculum


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
    """At first all classes are about equally likely, and the hinge is 1 where CE is log 47."""
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
