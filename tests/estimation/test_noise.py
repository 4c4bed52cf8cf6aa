"""What is known of the noise: one family, one set of questions, a record without loss."""

import json
from dataclasses import replace

import pytest
import torch
from pydantic import TypeAdapter, ValidationError

import noisebound as nb
from noisebound.estimation import (
    EstimatedNoise,
    GivenRate,
    GivenTransition,
    OutOfFold,
    UnknownNoise,
    estimated_noise,
)
from noisebound.runs.noise_record import StoredNoise, noise_record

MATRIX = torch.tensor([[0.7, 0.1, 0.2], [0.2, 0.8, 0.1], [0.1, 0.1, 0.7]], dtype=torch.float64)
PRIOR = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)


def out_of_fold(is_underfit=False, n=600):
    """Predictions by a model that knows as much as can be known."""
    generator = torch.Generator().manual_seed(0)
    true = torch.multinomial(PRIOR, n, replacement=True, generator=generator)
    noisy = nb.corrupt(true, "transition", transition=MATRIX, generator=generator)
    logits = MATRIX[:, true].T.log().float()
    return OutOfFold(logits, noisy.labels, torch.arange(n), is_underfit)


STORED = TypeAdapter(StoredNoise)
ALL_KINDS = {
    "unknown": UnknownNoise(3, "too little was learned"),
    "rejected": estimated_noise(out_of_fold(is_underfit=True)),
    "rate": GivenRate(0.3, 3),
    "bound classes": GivenRate(0.6, 3, bound_classes=2),
    "transition": GivenTransition(MATRIX, PRIOR),
    "estimated": estimated_noise(out_of_fold()),
}


@pytest.mark.parametrize("name", ALL_KINDS)
class TestEveryKind:
    def test_it_comes_back_from_json_without_loss(self, name):
        noise = ALL_KINDS[name]
        again = STORED.validate_json(json.dumps(noise_record(noise)))
        assert type(again) is type(noise)
        assert noise_record(again) == noise_record(noise)
        assert torch.equal(again.transition, noise.transition)
        assert (again.rate, again.interval) == (noise.rate, noise.interval)
        assert again.warnings == noise.warnings

    def test_its_matrix_is_one(self, name):
        columns = ALL_KINDS[name].transition.sum(0)
        torch.testing.assert_close(columns, torch.ones(3, dtype=torch.float64))

    @pytest.mark.parametrize("loss", [nb.CrossEntropy(), nb.GeneralizedCrossEntropy()])
    def test_it_bounds_a_loss(self, name, loss):
        chosen = ALL_KINDS[name].bound(loss)
        assert 0 <= chosen.level <= nb.noise_bound(loss, 2 / 3, 3)
        assert chosen.reason


def test_unknown_noise_makes_for_plain_training():
    noise = ALL_KINDS["rejected"]
    assert isinstance(noise, UnknownNoise)
    assert noise.rate is None
    assert noise.assumed_rate == 0
    assert noise.estimate.noise_rate == pytest.approx(0.3, abs=0.1)
    assert noise.bound(nb.CrossEntropy()).level == 0


def test_a_given_rate_is_the_papers_bound():
    chosen = GivenRate(0.4, 10).bound(nb.SymmetricCrossEntropy())
    assert chosen.level == pytest.approx(nb.noise_bound(nb.SymmetricCrossEntropy(), 0.4, 10))
    two = GivenRate(0.6, 47, bound_classes=2).bound(nb.CrossEntropy())
    assert two.level == pytest.approx(nb.entropy(nb.CrossEntropy(), [0.4, 0.6]))


def test_a_given_matrix_has_its_rate_and_its_entropy():
    noise = GivenTransition(MATRIX, PRIOR)
    assert noise.rate == pytest.approx(1 - (0.7 * 0.5 + 0.8 * 0.3 + 0.7 * 0.2))
    expected = nb.transition_bound(nb.CrossEntropy(), MATRIX, PRIOR)
    assert noise.bound(nb.CrossEntropy()).level == pytest.approx(expected)


def test_an_estimate_without_its_predictions_has_the_derived_bound():
    noise = ALL_KINDS["estimated"]
    assert isinstance(noise, EstimatedNoise)
    stored = STORED.validate_python(noise_record(noise))
    assert stored.floor(nb.CrossEntropy()) is None
    assert stored.bound(nb.CrossEntropy()).origin == "estimated noise rate"
    complete = replace(stored, out_of_fold=noise.out_of_fold)
    assert complete.bound(nb.CrossEntropy()) == noise.bound(nb.CrossEntropy())


def test_a_record_of_an_earlier_version_is_read():
    noise = ALL_KINDS["estimated"]
    record = noise_record(noise)
    for name in ("rejection", "condition"):
        del record[name]
    assert STORED.validate_python(record).estimate.summary == noise.estimate.summary


@pytest.mark.parametrize(
    "record", [{"kind": "estimated"}, {"kind": "guessed"}, {}, {"kind": "given rate", "rate": 0.1}]
)
def test_a_damaged_record(record):
    with pytest.raises(ValidationError):
        STORED.validate_python(record)


class TestSeveralPredictions:
    """Networks that were trained on other parts of the examples make other mistakes."""

    def mistaken(self, seed):
        found = out_of_fold()
        generator = torch.Generator().manual_seed(seed)
        return replace(
            found,
            logits=found.logits + 1.5 * torch.randn(len(found.labels), 3, generator=generator),
        )

    def test_their_mean_doubts_more_of_the_wrong_labels(self):
        true = out_of_fold().logits.argmax(1)
        found, *others = (self.mistaken(seed) for seed in range(4))
        is_wrong = found.labels != true

        def mistakes(noise):
            return int((noise.is_doubted != is_wrong).sum())

        alone = [mistakes(EstimatedNoise.of(each)) for each in (found, *others)]
        noise = EstimatedNoise.of(found, others=others)
        assert mistakes(noise) < 0.8 * min(alone)
        assert noise.cross_entropy_floor.level < EstimatedNoise.of(found).cross_entropy_floor.level

    def test_better_predictions_judge_the_labels_and_leave_the_estimate(self):
        better = out_of_fold()
        is_wrong = better.labels != better.logits.argmax(1)
        noise = EstimatedNoise.of(self.mistaken(0))
        judged = noise.judged_by([better, better])
        assert judged.estimate is noise.estimate
        assert (judged.is_doubted != is_wrong).sum() < 0.5 * (noise.is_doubted != is_wrong).sum()
        assert judged.cross_entropy_floor.level == noise.cross_entropy_floor.level

    def test_a_class_that_all_exclude_stays_finite(self):
        found = replace(out_of_fold(), logits=torch.tensor([[800.0, 0.0, 0.0]]).repeat(600, 1))
        mean = found.averaged_with([found])
        assert mean.logits.isfinite().all()
        torch.testing.assert_close(mean.probabilities, found.probabilities)

    def test_checked_labels_have_no_part_in_the_estimate(self):
        """They are ignored, although out-of-fold predictions exist for them."""
        is_trusted = torch.arange(600) < 200
        found, other = (self.mistaken(seed) for seed in (0, 1))
        checked = replace(found, is_trusted=is_trusted)
        noise = EstimatedNoise.of(checked, others=[other])
        rest = OutOfFold(found.logits[200:], found.labels[200:], torch.arange(400))
        same = OutOfFold(other.logits[200:], other.labels[200:], torch.arange(400))
        expected = EstimatedNoise.of(rest, others=[same])
        assert noise.rate == expected.rate
        assert noise.cross_entropy_floor.level == expected.cross_entropy_floor.level
        assert not noise.is_doubted[:200].any()
