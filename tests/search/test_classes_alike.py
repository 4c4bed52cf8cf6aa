"""Labels of multi-label data are judged with both classes counted alike, however rare one is."""

import pytest
import torch
from sklearn.metrics import balanced_accuracy_score

from noisebound.estimation.predictions import hits_of
from noisebound.search.evidence import evidence_of
from noisebound.search.recipes import Candidate

MISSED, ADDED = 0.4, 0.1


def examples(right_if_absent, right_if_present, count=1000, share=0.1):
    """Return predictions, true labels and noisy ones, whose noise depends on the class alone."""
    present = round(share * count)
    true = torch.tensor([0] * (count - present) + [1] * present)
    predicted, noisy = true.clone(), true.clone()
    for k, right, rate in ((0, right_if_absent, ADDED), (1, right_if_present, MISSED)):
        at = (true == k).nonzero().flatten()
        wrong = round((1 - right) * len(at))
        predicted[at[:wrong]] = 1 - k
        for part in (at[:wrong], at[wrong:]):  # as often where the prediction is wrong
            noisy[part[: round(rate * len(part))]] = 1 - k
    return predicted, true, noisy


def agreement(predicted, labels, *, alike):
    return hits_of(predicted, labels, None, alike=alike).double().mean().item()


def test_the_mean_is_the_balanced_accuracy():
    predicted, true, _ = examples(0.9, 0.7)
    expected = balanced_accuracy_score(true, predicted)
    assert agreement(predicted, true, alike=True) == pytest.approx(expected)
    assert agreement(predicted, true, alike=False) == pytest.approx(0.9 * 0.9 + 0.1 * 0.7)


def test_missed_labels_do_not_change_which_classifier_is_better():
    better, never = examples(0.95, 0.9), examples(1.0, 0.0)
    for alike, is_right in ((True, True), (False, False)):
        found = agreement(better[0], better[2], alike=alike)
        assert (found > agreement(never[0], never[2], alike=alike)) == is_right
    for predicted, true, noisy in (better, never, examples(0.5, 0.5)):
        clean = agreement(predicted, true, alike=True) - 0.5
        shown = agreement(predicted, noisy, alike=True) - 0.5
        # The factor is that of the noise alone, whatever is predicted.
        share = noisy.double().mean().item()
        factor = 0.1 * 0.9 * (1 - MISSED - ADDED) / (share * (1 - share))
        assert shown == pytest.approx(factor * clean, abs=2e-3)


def test_evidence_of_weighted_hits():
    predicted, _, noisy = examples(0.95, 0.9)
    shares = hits_of(predicted, noisy, None, alike=True).double()
    plain = hits_of(torch.zeros_like(noisy), noisy, None, alike=True).double()
    options = {"stage": 0, "epochs": 1, "stops_early": False, "counts_alike": True}
    found = evidence_of(Candidate("linear", "plain"), noisy, shares, plain, **options)
    assert found.agreement == pytest.approx(balanced_accuracy_score(noisy, predicted))
    assert found.balanced_gain == found.gain == pytest.approx(found.agreement - 0.5)
    assert found.beats_guessing
    assert not found.favors_common_labels
