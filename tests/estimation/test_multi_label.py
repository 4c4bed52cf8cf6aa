"""Multi-label data: planted rates are found, and the suspects are the planted mistakes."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import noisebound as nb
from noisebound.estimation import EstimatedNoise, OutOfFold
from noisebound.estimation.multi_label import are_multi_label, of_true_label, suspects_of_label

MISSED, ADDED = (0.4, 0.2, 0.0, 0.3), (0.0, 0.0, 0.1, 0.02)
PREVALENCE = (0.5, 0.2, 0.3, 0.05)


def problem(n=5000, spread=1.5, seed=0):
    """True and noisy labels, and probabilities by a model that knows the noisy ones."""
    g = torch.Generator().manual_seed(seed)
    missed, added, prevalence = map(torch.tensor, (MISSED, ADDED, PREVALENCE))
    true = (torch.rand(n, 4, generator=g) < prevalence).long()
    flips = torch.rand(n, 4, generator=g) < torch.where(true == 1, missed, added)
    logits = 4.0 * (2 * true - 1) + spread * torch.randn(n, 4, generator=g)
    probs = added + (1 - missed - added) * logits.double().sigmoid()
    return true, true ^ flips.long(), probs


TRUE, NOISY, PROBS = problem()
ESTIMATE = nb.estimate_noise(PROBS, NOISY)


def test_planted_rates_are_found():
    assert isinstance(ESTIMATE, nb.MultiLabelEstimate)
    assert ESTIMATE.missed.tolist() == pytest.approx(MISSED, abs=0.08)
    assert ESTIMATE.added.tolist() == pytest.approx(ADDED, abs=0.03)
    assert ESTIMATE.prevalence.tolist() == pytest.approx(PREVALENCE, abs=0.03)
    assert ESTIMATE.noise_rate == pytest.approx((TRUE != NOISY).double().mean().item(), abs=0.02)


def test_intervals_hold_the_planted_rates():
    for rates, intervals in (
        (MISSED, ESTIMATE.missed_intervals),
        (ADDED, ESTIMATE.added_intervals),
    ):
        low, high = intervals.T
        assert bool(((low <= torch.tensor(rates)) & (torch.tensor(rates) <= high)).all())
    low, high = ESTIMATE.interval
    assert low <= ESTIMATE.noise_rate <= high


def test_the_whole_is_the_sum_of_the_labels():
    share = torch.stack([each.transition * each.class_prior for each in ESTIMATE.by_label]).mean(0)
    torch.testing.assert_close(ESTIMATE.transition * ESTIMATE.class_prior, share)
    rates = [each.noise_rate for each in ESTIMATE.by_label]
    assert ESTIMATE.noise_rate == pytest.approx(np.mean(rates))
    assert "of the true labels are missing" in ESTIMATE.summary


def test_a_label_missed_by_almost_half_is_never_predicted_and_still_found():
    """A model of its observed labels gives it less than one half, even where it surely belongs."""
    g = torch.Generator().manual_seed(0)
    true = (torch.rand(4000, 2, generator=g) < 0.3).long()
    labels = true * (torch.rand(4000, 2, generator=g) < 0.45)  # 55 % are missed
    noise = 0.02 * torch.rand(4000, 2, generator=g)
    probs = (0.45 * true + noise).clamp(0, 0.49)
    suspects = nb.find_suspects(probs, labels)
    found = suspects.ranking[: int((true != labels).sum())]
    precision = (true != labels)[found[:, 0], found[:, 1]].double().mean()
    assert precision > 0.9


def test_suspects_are_the_planted_mistakes_in_one_ranking():
    suspects = nb.find_suspects(PROBS, NOISY)
    is_wrong = TRUE != NOISY
    found = suspects.probability > 0.5
    hits = (found & is_wrong).sum()
    assert 2 * hits / (found.sum() + is_wrong.sum()) > 0.8
    top = suspects.ranking[:500]
    assert is_wrong[top[:, 0], top[:, 1]].double().mean() > 0.95
    assert torch.equal(found, suspects.is_missing | suspects.is_added)
    assert suspects.is_missing[:, 0].sum() > 100 > suspects.is_added[:, 0].sum()
    scores = suspects.score[suspects.ranking[:, 0], suspects.ranking[:, 1]]
    assert bool((scores.diff() <= 0).all())
    assert len(suspects.ranking) == NOISY.numel()
    assert suspects.summary.startswith(f"{int(found.sum()):,} of 20,000 labels")


def test_given_rates_judge_like_estimated_ones():
    matrices = torch.tensor([[[1 - a, m], [a, 1 - m]] for m, a in zip(MISSED, ADDED, strict=True)])
    given = nb.find_suspects(PROBS, NOISY, transition=matrices)
    estimated = nb.find_suspects(PROBS, NOISY)
    agree = (given.score > 0) == (estimated.score > 0)
    assert agree.double().mean() > 0.98
    true = (PROBS - torch.tensor(ADDED)) / (1 - torch.tensor(MISSED) - torch.tensor(ADDED))
    corrected = nb.find_suspects(true.clamp(0, 1), NOISY, transition=matrices, corrected=True)
    assert ((corrected.score > 0) == (given.score > 0)).double().mean() > 0.98


def test_labels_that_were_not_given_count_for_nothing():
    labels, probs = NOISY.clone(), PROBS.clone()
    labels[::3, 1] = -1
    probs[::3, 1] = 0.5
    suspects = nb.find_suspects(probs, labels)
    kept = labels[:, 1] >= 0
    assert not suspects.probability[~kept, 1].any()
    assert len(suspects.ranking) == int((labels >= 0).sum())
    probs[~kept, 1] = 0.9
    assert torch.equal(nb.find_suspects(probs, labels).score, suspects.score)


def test_rates_of_rare_labels_are_drawn_to_the_mean():
    """Chance differences between the labels shrink, and real ones stay."""
    g = torch.Generator().manual_seed(1)
    true = (torch.rand(1500, 12, generator=g) < 0.03).long()
    probs = 0.02 + 0.96 * true + 0.01 * torch.rand(1500, 12, generator=g)
    found = nb.estimate_noise(probs, nb.corrupt(true, "missing", 0.3, generator=g).labels)
    assert found.missed.std() < 0.06  # by chance alone, it is 0.46 / sqrt(20) = 0.1
    assert found.missed.mean().item() == pytest.approx(0.3, abs=0.07)
    apart = torch.where(torch.arange(12) < 6, 0.1, 0.6)
    found = nb.estimate_noise(probs, nb.corrupt(true, "missing", apart, generator=g).labels)
    assert found.missed[6:].mean() - found.missed[:6].mean() > 0.35


def test_a_label_that_the_model_knows_nothing_about_has_no_suspects():
    probs = PROBS.clone()
    probs[:, 2] = torch.rand(len(probs), generator=torch.Generator().manual_seed(3)).double()
    with pytest.warns(nb.UnknownNoiseWarning, match="no suspects of the labels 2:"):
        suspects = nb.find_suspects(probs, NOISY)
    assert not (suspects.probability[:, 2] > 0.5).any()
    estimate = nb.estimate_noise(probs, NOISY)
    assert "labels 2: the predictions have nothing to do" in estimate.diagnostics.warnings[0]
    assert estimate.diagnostics.rejection is None


def test_anchor_points_are_found_by_the_noisy_probabilities():
    found = nb.estimate_noise(PROBS[:, :1], NOISY[:, :1], "anchor")
    two_classes = torch.cat([1 - PROBS[:, :1], PROBS[:, :1]], 1)
    alone = nb.estimate_noise(two_classes, NOISY[:, 0], "anchor")
    torch.testing.assert_close(found.transitions[0], alone.transition)
    assert found.missed.item() == pytest.approx(MISSED[0], abs=0.15)


def test_multi_label_is_told_from_several_annotators():
    two = torch.tensor([[0.9, 0.1], [0.2, 0.8]]).repeat(50, 1)
    votes = torch.tensor([[1, 0], [0, 1]]).repeat(50, 1)
    assert nb.estimate_noise(two, votes).annotators is not None
    multi_label = nb.estimate_noise(two, votes, multi_label=True)
    assert isinstance(multi_label, nb.MultiLabelEstimate)
    assert nb.find_suspects(two, votes, multi_label=True).score.shape == (100, 2)
    arrays = nb.estimate_noise(PROBS.numpy(), NOISY.numpy().astype(bool))
    assert torch.equal(arrays.missed, ESTIMATE.missed)


@pytest.mark.parametrize(
    ("probs", "labels", "words"),
    [
        (PROBS[:, :3], NOISY, "same shape"),
        (PROBS[:, 0], NOISY[:, 0], r"shape \[examples, labels\]"),
        (PROBS, 2 * NOISY, "must be 0, 1, or -1 where a label was not given; got 2"),
        (2 * PROBS, NOISY, r"in \[0, 1\], such as sigmoid\(logits\)"),
        (PROBS, NOISY * torch.tensor([1, 1, 0, 1]), "label 2 is never present"),
        (PROBS, NOISY.clamp(torch.tensor([0, 1, 0, 0])), "label 1 is always present"),
        (PROBS[:19], NOISY[:19], "label 3 is never|at least 20 examples"),
    ],
)
def test_bad_input_is_refused(probs, labels, words):
    for function in (nb.estimate_noise, nb.find_suspects):
        with pytest.raises(ValueError, match=words):
            function(probs, labels, multi_label=True)


def test_options_without_meaning_are_refused():
    with pytest.raises(TypeError, match="do not apply to multi-label"):
        nb.estimate_noise(PROBS, NOISY, second_probs=PROBS)
    with pytest.raises(ValueError, match=r"one matrix per label.* for 4 labels"):
        nb.find_suspects(PROBS, NOISY, transition=torch.eye(3))


def test_the_run_of_a_label_has_the_same_estimate_and_suspects():
    seen = PROBS[:, 0]
    logits = torch.stack([1 - seen, seen], dim=1).log()
    examples = torch.arange(len(seen))
    noise = EstimatedNoise.of(OutOfFold(logits, NOISY[:, 0], examples, counts_alike=True))
    alone = nb.estimate_noise(PROBS[:, :1], NOISY[:, :1], multi_label=True)
    torch.testing.assert_close(noise.transition, alone.transitions[0])
    assert noise.interval == alone.by_label[0].interval
    found = nb.find_suspects(
        PROBS[:, :1], NOISY[:, :1], transition=noise.transition[None], multi_label=True
    )
    score = suspects_of_label(seen, NOISY[:, 0], noise.transition).score
    torch.testing.assert_close(score, found.score[:, 0])


def test_single_labels_may_come_from_a_network():
    probs = torch.tensor([[0.9, 0.1], [0.2, 0.8]]).repeat(50, 1)
    labels = torch.tensor([0, 1]).repeat(50)
    expected = nb.find_suspects(probs, labels).ranking
    for given in (probs.clone().requires_grad_(), probs.bfloat16()):
        assert not are_multi_label(given, labels)
    assert torch.equal(nb.find_suspects(probs.clone().requires_grad_(), labels).ranking, expected)


def test_bytes_of_255_are_refused():
    labels = NOISY.to(torch.uint8).clone()
    labels[0, 0] = 255
    with pytest.raises(ValueError, match="got 255"):
        nb.estimate_noise(PROBS, labels, multi_label=True)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_tables(frame):
    probs, labels = frame(PROBS.numpy()), frame(NOISY.numpy())
    assert torch.equal(nb.estimate_noise(probs, labels).missed, ESTIMATE.missed)
    found = nb.find_suspects(probs, labels, transition=ESTIMATE.transitions)
    assert found.score.shape == PROBS.shape
    corrupted = nb.corrupt(labels, "missing", 0.3, generator=torch.Generator())
    assert corrupted.labels.shape == NOISY.shape


def test_labels_that_belong_nowhere_have_no_nan():
    """If all labels look added, no true label shows the rate at which it is missed."""
    nowhere = 0
    for seed in range(10):
        g = torch.Generator().manual_seed(seed)
        labels = (torch.rand(500, 1, generator=g) < 0.02).long()
        estimate = nb.estimate_noise(torch.rand(500, 1, generator=g), labels, multi_label=True)
        assert not estimate.transition.isnan().any()
        if estimate.prevalence == 0:
            nowhere += 1
            assert estimate.transition[:, 1].tolist() == [0, 1]
    assert nowhere


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_predictions_of_observed_labels_become_those_of_true_labels(share):
    missed, added, true = 0.4, 0.1, np.linspace(0, 1, 5, dtype=np.float32)
    matrix = torch.tensor([[1 - added, missed], [added, 1 - missed]], dtype=torch.float64)
    observed = added + (1 - missed - added) * true
    mean = share * observed + (1 - share) * true
    np.testing.assert_allclose(of_true_label(mean, matrix, share), true, atol=1e-3)
    beyond = np.array([0.0, 0.05, 0.7, 0.9, 1.0], dtype=np.float32)  # no true label explains these
    assert (np.diff(of_true_label(beyond, matrix, share)) > 0).all()
