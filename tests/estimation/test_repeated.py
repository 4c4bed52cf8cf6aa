"""The noise rate by the labels of copies."""

import pytest
import torch
from hypothesis import given, strategies as st

import noisebound as nb
from noisebound.estimation.repeated import FEWEST_SETS, noise_of_repeated, rate_of_agreement


@given(classes=st.integers(2, 50), share=st.floats(0, 1))
def test_the_rate_solves_the_equation_of_agreement(classes, share):
    rate = share * (1 - 1 / classes)  # beyond, labels are right less often than by guessing
    agreement = (1 - rate) ** 2 + rate**2 / (classes - 1)
    found = rate_of_agreement(agreement, classes)
    assert (1 - found) ** 2 + found**2 / (classes - 1) == pytest.approx(agreement, abs=1e-9)
    assert found == pytest.approx(rate, abs=1e-5)


def test_less_agreement_than_by_guessing_is_the_largest_rate():
    assert rate_of_agreement(0.1, 4) == 0.75


def repeated(sets, seed, copies=2):
    true = torch.arange(4).repeat_interleave(copies).repeat(sets // 4)
    generator = torch.Generator().manual_seed(seed)
    labels = nb.corrupt(true, "symmetric", 0.2, 4, generator=generator).labels
    return labels, [range(first, first + copies) for first in range(0, len(true), copies)]


@pytest.mark.parametrize("copies", [2, 3])
def test_the_interval_holds_the_rate(copies):
    found = [noise_of_repeated(*repeated(200, seed, copies), 4) for seed in range(60)]
    held = sum(low <= 0.2 <= high for low, high in (each.interval for each in found))
    assert held >= 54
    assert sum(each.noise_rate for each in found) / 60 == pytest.approx(0.2, abs=0.015)


def test_few_copies_show_nothing():
    labels, sets = repeated(200, 0)
    assert noise_of_repeated(labels, sets[: FEWEST_SETS - 1], 4) is None
    assert "of 30 sets of copies agree in" in noise_of_repeated(labels, sets[:30], 4).words
    alike = noise_of_repeated(labels[:60] * 0, sets[:30], 4).words
    assert "of all 30 sets of copies agree: either at most 6.0% of them are wrong, or" in alike
