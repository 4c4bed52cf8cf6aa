"""Wrong labels are found, with probabilities that can be believed."""

from dataclasses import replace

import pytest
import torch
from sklearn.metrics import roc_auc_score

import noisebound as nb
from noisebound.estimation import UnknownNoiseWarning, estimate_noise
from noisebound.estimation.suspects import suspects_by_evidence
from noisebound.estimation.transitions import true_class_probabilities

CLASSES = 6


def observed(kind="pairwise", rate=0.4, n=20_000, spread=2.0, seed=0):
    """Noisy labels, and a model that is calibrated about the true class but unsure of it."""
    generator = torch.Generator().manual_seed(seed)
    logits = spread * torch.randn(n, CLASSES, generator=generator).double()
    probs = logits.softmax(1)
    true = torch.multinomial(probs, 1, generator=generator).squeeze(1)
    return probs, nb.corrupt(true, kind, rate, CLASSES, generator=generator), true


def mean_miscalibration(probability, is_wrong):
    parts = probability.argsort().tensor_split(10)
    gaps = [(probability[part].mean() - is_wrong[part].double().mean()).abs() for part in parts]
    return torch.stack(gaps).mean().item()


@pytest.mark.parametrize("kind", ["pairwise", "symmetric"])
@pytest.mark.parametrize("corrected", [True, False])
def test_probabilities_are_those_that_come_true(kind, corrected):
    probs, noisy, _ = observed(kind)
    given = probs if corrected else probs @ noisy.transition.T
    suspects = nb.find_suspects(
        given, noisy.labels, transition=noisy.transition, corrected=corrected
    )
    assert mean_miscalibration(suspects.probability, noisy.is_noisy) < 0.03
    exact = nb.find_suspects(probs, noisy.labels, transition=noisy.transition, corrected=True)
    best = roc_auc_score(noisy.is_noisy, exact.score)
    assert roc_auc_score(noisy.is_noisy, suspects.score) > best - 0.01


def test_structure_of_the_noise_is_used():
    """Under pairwise noise the label's own probability says little: 0.4 against 0.6."""
    probs, noisy, _ = observed("pairwise", spread=6.0)
    given = probs @ noisy.transition.T
    suspects = nb.find_suspects(given, noisy.labels)  # which estimates the matrix
    of_label = given.gather(1, noisy.labels[:, None]).squeeze(1)
    assert roc_auc_score(noisy.is_noisy, suspects.score) > (
        roc_auc_score(noisy.is_noisy, -of_label) + 0.05
    )


def test_the_suggestion_is_the_true_label():
    probs, noisy, true = observed("symmetric", spread=8.0)
    suspects = nb.find_suspects(probs, noisy.labels, transition=noisy.transition, corrected=True)
    worst = suspects.ranking[:1000]
    hits = (suspects.suggested[worst] == true[worst]).double().mean()
    assert hits == pytest.approx(probs[worst].max(1).values.mean().item(), abs=0.02)
    assert (suspects.suggested != noisy.labels).all()
    assert (suspects.score[worst].diff() <= 0).all()


def test_without_any_noise_the_odd_one_out_still_comes_first():
    """A matrix that knows of no noise does not rule it out."""
    probs = torch.eye(CLASSES).double().repeat_interleave(50, 0) * 0.97 + 0.03 / CLASSES
    labels = torch.arange(CLASSES).repeat_interleave(50)
    labels[7] = 3
    suspects = nb.find_suspects(probs, labels, transition=torch.eye(CLASSES), corrected=True)
    assert suspects.ranking[0] == 7
    assert suspects.suggested[7] == 0


def test_certainty_stays_finite():
    probs = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).repeat(20, 1)
    with pytest.warns(UnknownNoiseWarning, match="nothing to do with the labels"):
        suspects = nb.find_suspects(probs, torch.zeros(40, dtype=torch.long))
    assert torch.isfinite(suspects.score).all()


@pytest.mark.parametrize("shares", [[1.0, 1.0], [19.0, 1.0], [1.0] * 10])
def test_guesses_give_no_probability(shares):
    """They had given labels over 99 % that were wrong no more often than others."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.multinomial(torch.tensor(shares), 1000, replacement=True, generator=generator)
    probs = torch.randn(1000, len(shares), generator=generator).softmax(1)
    with pytest.warns(UnknownNoiseWarning, match="nothing to do with the labels"):
        suspects = nb.find_suspects(probs, labels)
    assert (suspects.probability - 0.5).abs().max() < 0.01
    assert len(suspects.ranking.unique()) == 1000


def test_a_rare_class_that_is_known_makes_suspects():
    """Nearly all labels are of one class, so that guessing agrees with as many of them."""
    generator = torch.Generator().manual_seed(0)
    true = (torch.rand(1000, generator=generator) < 0.05).long()
    noisy = nb.corrupt(true, "symmetric", 0.1, 2, generator=generator)
    logits = 4.0 * torch.eye(2)[true] + torch.randn(1000, 2, generator=generator)
    suspects = nb.find_suspects(logits.softmax(1), noisy.labels)
    is_wrong = noisy.labels != true
    assert suspects.probability[is_wrong].mean() > 0.7
    assert suspects.probability[~is_wrong].mean() < 0.2


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.6, 0.8])
def test_deconvolution_undoes_the_noise(rate):
    probs, noisy, _ = observed("symmetric", rate=rate, n=500, spread=1.0)
    found = true_class_probabilities(probs @ noisy.transition.T, noisy.transition)
    torch.testing.assert_close(found, probs, atol=1e-3, rtol=0)


def test_predictions_that_no_noise_explains_have_a_likeliest_cause():
    """Labels surer than the noise allows: the cause is as sure as can be."""
    transition = torch.tensor([[0.6, 0.4], [0.4, 0.6]]).double()
    found = true_class_probabilities(torch.tensor([[0.9, 0.1]]).double(), transition)
    torch.testing.assert_close(found, torch.tensor([[1.0, 0.0]]).double(), atol=1e-3, rtol=0)


@pytest.mark.parametrize("kind", ["pairwise", "symmetric"])
def test_rows_that_settle_early_end_where_em_ends(kind, monkeypatch):
    """The search in blocks, of the rows that still move, against EM on all rows to its end."""
    probs, noisy, _ = observed(kind, n=400)
    transition = noisy.transition
    generator = torch.Generator().manual_seed(1)
    blurred = (probs @ transition.T).log() * 1.3
    given = (blurred + 0.3 * torch.randn(blurred.shape, generator=generator)).softmax(1)
    by_em = probs
    for _ in range(5000):
        by_em = by_em * ((given / (by_em @ transition.T)) @ transition)
    monkeypatch.setattr("noisebound.estimation.transitions.NUMBERS_AT_ONCE", 64 * CLASSES)
    found = true_class_probabilities(given, transition)

    def log_likelihood(true_probs):
        return (given * (true_probs @ transition.T).log()).sum(1)

    assert (log_likelihood(by_em) - log_likelihood(found)).max() < 2e-3
    assert (by_em - found).abs().mean() < 1e-3
    assert (by_em - found).abs().max() < 0.05
    single = true_class_probabilities(given.float(), transition)  # which is not copied as a whole
    torch.testing.assert_close(single, found, atol=0.01, rtol=0)


def test_losses_that_are_all_the_same_say_nothing():
    suspects = nb.find_suspects(torch.ones(30), torch.zeros(30, dtype=torch.long))
    assert (suspects.probability == 0.5).all()


def test_losses_alone():
    generator = torch.Generator().manual_seed(0)
    is_wrong = torch.rand(3000, generator=generator) < 0.2
    losses = torch.where(is_wrong, 3.0, 0.5) + 0.4 * torch.randn(3000, generator=generator)
    suspects = nb.find_suspects(losses, torch.zeros(3000, dtype=torch.long))
    assert suspects.suggested is None
    assert roc_auc_score(is_wrong, suspects.score) > 0.99
    assert suspects.probability.mean() == pytest.approx(0.2, abs=0.02)
    assert (losses[suspects.ranking].diff() <= 1e-6).all()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"probs_or_losses": torch.ones(40, 2)}, ValueError, "`probs` must sum to one"),
        (
            {"labels": torch.zeros(3, dtype=torch.long)},
            ValueError,
            "`labels` must be one per example",
        ),
        ({"transition": torch.eye(3)}, ValueError, "transition is of 3 classes, probs are of 2"),
        (
            {"probs_or_losses": torch.ones(40), "corrected": True},
            TypeError,
            "apply to probabilities",
        ),
        ({"probs_or_losses": torch.ones(39)}, ValueError, "one label for each"),
        ({"probs_or_losses": torch.full((40,), torch.nan)}, ValueError, "losses must be finite"),
    ],
)
def test_bad_input(change, error, message):
    given = {
        "probs_or_losses": torch.full((40, 2), 0.5),
        "labels": torch.zeros(40, dtype=torch.long),
    }
    with pytest.raises(error, match=message):
        nb.find_suspects(**(given | change))


def test_suspects_of_a_run_are_as_many_as_its_estimate_allows():
    """One cross-fit is uninformative; the rate comes from two of them."""
    g = torch.Generator().manual_seed(0)
    labels = torch.randint(2, (600,), generator=g)
    probs = torch.rand(600, 1, generator=g)
    probs = torch.cat([probs, 1 - probs], 1).double()
    better = replace(estimate_noise(probs, labels), noise_rate=0.05, interval=(0.0, 0.1))
    alone = suspects_by_evidence(probs, labels)
    both = suspects_by_evidence(probs, labels, None, better)
    assert (alone.suspects.probability > 0.5).double().mean() > 0.3
    assert (both.suspects.probability > 0.5).double().mean() <= 0.1
