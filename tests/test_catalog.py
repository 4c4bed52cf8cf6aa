import math

import pytest
import torch

import noisebound as nb

FACTS = {"noise_rate": 0.4, "num_classes": 10, "num_samples": 100}
ROWS = "ce fce gce sce cep backward mse mae nce-mae spherical bootstrap truncated curriculum elr"
PEERS = (
    "focal rce nce nfl nce-rce nfl-mae nfl-rce agce aul ael nce-agce nce-aul nce-ael taylor js ls "
    "nls ldr-kl"
)


def test_every_row_of_the_paper_and_of_other_libraries_has_a_name():
    assert tuple(f"{ROWS} {PEERS}".split()) == nb.LOSS_NAMES


@pytest.mark.parametrize("name", f"{ROWS} {PEERS}".split())
def test_one_call_serves_every_row(name):
    loss = nb.create_loss(name, **FACTS)
    arguments = [torch.zeros(4, 10), torch.arange(4)]
    if name in ("truncated", "elr"):
        arguments.append(torch.arange(4))
    assert torch.isfinite(loss(*arguments))


def test_hyperparameters_are_the_papers():
    shown = {name: repr(nb.create_loss(name, **FACTS)) for name in ("gce", "sce", "cep", "elr")}
    assert shown == {
        "gce": "GeneralizedCrossEntropy(a=0.4)",
        "sce": "SymmetricCrossEntropy(A=8)",
        "cep": "PriorCrossEntropy(noise_rate=0.4, num_classes=10)",
        "elr": "EarlyLearning(num_samples=100, num_classes=10, lam=3, beta=0.7)",
    }


@pytest.mark.parametrize("name", ["ce", "fce", "gce", "sce", "cep", "SCE"])
def test_plus_b_bounds_it(name):
    plain = nb.create_loss(name, **FACTS)
    bounded = nb.create_loss(f"{name}+B", **FACTS)
    assert isinstance(bounded, nb.NoiseBoundedLoss)
    assert bounded.bound == nb.noise_bound(plain, 0.4, 10)


@pytest.mark.parametrize("name", PEERS.split())
def test_every_loss_of_other_libraries_has_a_floor(name):
    """For symmetric noise and for a transition matrix; both are above the loss without noise."""
    loss = nb.create_loss(name)
    bounded = nb.create_loss(f"{name}+b", **FACTS)
    assert bounded.bound == nb.noise_bound(loss, 0.4, 10)
    assert bounded.bound > (0 if name == "nls" else nb.noise_bound(loss, 0.0, 10))
    symmetric = nb.ForwardCrossEntropy.symmetric(0.4, 10).noise_model.transition
    assert nb.transition_bound(loss, symmetric) == pytest.approx(bounded.bound)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rce", 0.4 * math.log(1e4)),
        ("nce", 0.4 / 9),
        ("nfl", 0.4 / 9),
        ("nce-rce", 0.4 / 9 + 0.4 * math.log(1e4)),
        ("nfl-mae", 0.4 / 9 + 0.4),
        ("agce", 0.4 * (1.6**0.6 - 0.6**0.6) / 0.6),
        ("aul", 0.4 * (5.5**3 - 4.5**3) / 3),
        ("ael", 0.4 + 0.6 * math.exp(-1 / 2.5)),
        ("nce-agce", 0.4 / 9 + 4 * 0.4 * (7**1.5 - 6**1.5) / 1.5),
        ("nce-aul", 0.4 / 9 + 4 * 0.4 * (6.3**1.5 - 5.3**1.5) / 1.5),
        ("nce-ael", 0.4 / 9 + 4 * (0.4 + 0.6 * math.exp(-1 / 5))),
        ("taylor", 0.4 * 1.5),
    ],
)
def test_floors_by_hand(name, expected):
    """All but the first class are so unlikely that the best prediction is a vertex."""
    assert nb.noise_bound(nb.create_loss(name), 0.4, 10) == pytest.approx(expected, abs=1e-9)


def test_a_given_bound():
    bounded = nb.create_loss("elr+b", **FACTS, bound=0.3)
    assert isinstance(bounded, nb.BoundedLoss)
    assert bounded.bound == 0.3


@pytest.mark.parametrize(
    ("name", "facts", "message"),
    [
        ("nosuch", FACTS, "unknown loss 'nosuch': choose one of ce, fce"),
        ("ce+c", FACTS, "unknown loss"),
        ("fce", {}, "'fce'.* needs noise_rate and num_classes"),
        ("elr", {"num_classes": 10}, "needs num_samples"),
        ("ce+b", {"num_classes": 10}, "needs noise_rate"),
        ("elr+b", FACTS, "has no noise-bound"),
        ("ce", {"bound": 1.0}, "use 'ce\\+b'"),
    ],
)
def test_impossible_requests_are_explained(name, facts, message):
    with pytest.raises(ValueError, match=message):
        nb.create_loss(name, **facts)
