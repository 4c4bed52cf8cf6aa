"""Noise in multi-label data has the rates that were asked for, label by label."""

import numpy as np
import pytest
import torch

import noisebound as nb

TRUE = (torch.rand(20_000, 3, generator=torch.Generator().manual_seed(0)) < 0.3).long()
RATES = [0.4, 0.1, 0.0]


def corrupt(kind, rate, labels=TRUE, seed=0, **options):
    return nb.corrupt(labels, kind, rate, generator=torch.Generator().manual_seed(seed), **options)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(("kind", "changed"), [("missing", [1]), ("added", [0]), ("flip", [0, 1])])
def test_rates_are_realized(kind, changed, exact):
    noisy = corrupt(kind, RATES, exact=exact)
    assert torch.equal(noisy.is_noisy, noisy.labels != TRUE)
    assert noisy.noise_rate == pytest.approx(noisy.is_noisy.double().mean().item())
    for value in (0, 1):
        rates = [noisy.is_noisy[TRUE[:, k] == value, k].double().mean().item() for k in range(3)]
        assert noisy.transition[:, 1 - value, value].tolist() == pytest.approx(rates)
        wanted = RATES if value in changed else [0.0] * 3
        # Exact flips have the right number of changes in all, not for each value.
        assert rates == pytest.approx(wanted, abs=1e-4 if exact and kind != "flip" else 0.02)
    torch.testing.assert_close(noisy.transition.sum(1), torch.ones(3, 2).double())


def test_one_rate_serves_all_labels_and_the_generator_decides():
    assert torch.equal(corrupt("flip", 0.2).labels, corrupt("flip", [0.2] * 3).labels)
    assert not torch.equal(corrupt("flip", 0.2).labels, corrupt("flip", 0.2, seed=1).labels)


def test_labels_that_were_not_given_stay_so():
    labels = TRUE.clone()
    labels[::2, 0] = -1
    noisy = corrupt("flip", 0.5, labels.numpy().astype(np.int8))
    assert bool((noisy.labels[::2, 0] == -1).all())
    assert noisy.noise_rate == pytest.approx(0.5, abs=0.02)
    assert noisy.transition[0, 0, 1].item() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: corrupt("missing", 0.2, TRUE[:, 0]), "a matrix of labels 0 and 1"),
        (lambda: corrupt("missing", 0.2, TRUE + 1), "0, 1, or -1.*got 2"),
        (lambda: corrupt("missing", [0.2, 0.1]), "one number or one per label, 3"),
        (lambda: corrupt("missing", 1.2), r"lie in \[0, 1\]"),
        (lambda: corrupt("missing", None), "needs `noise_rate`"),
        (lambda: corrupt("missing", 0.2, num_classes=3), "`num_classes` does not apply"),
        (lambda: corrupt("flip", 0.2, transition=torch.eye(2)), "`transition` does not apply"),
        (lambda: corrupt("symmetric", 0.2, num_classes=2), "multi-label data use the `kind`"),
    ],
)
def test_bad_requests(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call()
