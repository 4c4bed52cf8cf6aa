import pytest
import torch

import noisebound as nb

FACTS = {"noise_rate": 0.4, "num_classes": 10, "num_samples": 100}
ROWS = "ce fce gce sce cep backward mse mae nce-mae spherical bootstrap truncated curriculum elr"


def test_every_row_of_the_paper_has_a_name():
    assert tuple(ROWS.split()) == nb.LOSS_NAMES


@pytest.mark.parametrize("name", ROWS.split())
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


def test_a_bound_of_ones_own():
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
def test_what_cannot_be_made_says_why(name, facts, message):
    with pytest.raises(ValueError, match=message):
        nb.create_loss(name, **facts)
