"""An audit: random, weighted rightly, and honest about what it does not know yet."""

import pytest
import torch

from noisebound.data import Dataset
from noisebound.estimation import Suspects, estimate_noise
from noisebound.estimation.trusted import Trusted, audited_rate
from noisebound.review import Audit, DecisionFile, ReviewedData


def planted(n=3000, seed=0):
    """Return labels, the truth, and suspicions that are half as high as they should be."""
    generator = torch.Generator().manual_seed(seed)
    true = torch.arange(n) % 2
    chance = torch.rand(n, generator=generator).double() ** 2
    wrong = torch.rand(n, generator=generator).double() < chance
    labels = torch.where(wrong, 1 - true, true)
    suspicion = (chance / 2).clamp(1e-6, 1 - 1e-6)
    return labels, true, suspicion


def make_audit(folder, labels, suspicion, seed=0):
    train = Dataset(torch.zeros(len(labels), 1), labels, ("a", "b"))
    path = folder / "decisions.jsonl"
    path.unlink(missing_ok=True)
    file = DecisionFile(path, ReviewedData(train))
    probs = torch.full((len(labels), 2), 0.5).double()
    probs.scatter_(1, labels[:, None], (1 - suspicion)[:, None])
    probs.scatter_(1, 1 - labels[:, None], suspicion[:, None])
    suspects = Suspects(suspicion.logit(), 1 - labels)
    return Audit(probs, suspects, file, run_rate=0.1, seed=seed)


def answer(audit, true, count):
    names = audit.data.class_names
    made = [
        audit.decisions.make(each, "right", where="audit")
        if int(true[each]) == int(audit.data.labels[each])
        else audit.decisions.make(each, "wrong", names[int(true[each])], where="audit")
        for each in audit.next(count)
    ]
    audit.decisions.add(made)


def test_the_rate_is_unbiased_though_suspicions_are_not(tmp_path):
    labels, true, suspicion = planted()
    actual = (labels != true).double().mean().item()
    errors, held = [], []
    for seed in range(40):
        audit = make_audit(tmp_path, labels, suspicion, seed)
        answer(audit, true, 100)
        estimate = audit.result().estimate
        errors.append(estimate.noise_rate - actual)
        held.append(estimate.interval[0] <= actual <= estimate.interval[1])
    errors = torch.tensor(errors)
    assert errors.mean().abs() < 3 * errors.std() / 40**0.5
    assert errors.std() < 0.047  # of as many labels drawn alike
    assert sum(held) >= 35


@pytest.mark.parametrize("suspicions", ["too little", "too much", "nothing"])
def test_intervals_contain_rare_noise_for_any_suspicions(tmp_path, suspicions):
    """Three labels in a hundred are wrong: the variance of answers would often be too small."""
    generator = torch.Generator().manual_seed(1)
    log_odds = 2.5 * torch.randn(4000, generator=generator).double() - 6
    true = torch.arange(4000) % 2
    wrong = torch.rand(4000, generator=generator).double() < log_odds.sigmoid()
    labels = torch.where(wrong, 1 - true, true)
    shown = {
        "too little": log_odds - 3,
        "too much": 2.5 * log_odds + 2,
        "nothing": torch.randn(4000, generator=generator).double(),
    }[suspicions]
    held = 0
    for seed in range(60):
        audit = make_audit(tmp_path, labels, shown.sigmoid().clamp(1e-8, 1 - 1e-8), seed)
        positions = torch.tensor(audit.next(100))
        weights = torch.tensor([audit.stands_for(each) for each in positions.tolist()])
        found = audited_rate(
            wrong[positions],
            audit.probability[positions],
            audit.probability,
            weights.double(),
        )
        held += found.interval[0] <= wrong.double().mean() <= found.interval[1]
    assert held >= 52  # of 57 expected; 95 % less three standard errors


def test_no_answer_stands_for_more_than_twice_its_even_share(tmp_path):
    labels, _, suspicion = planted()
    certain = torch.where(torch.arange(3000) % 50 == 0, 0.5, 1e-9).double()
    for each in (suspicion, certain):
        audit = make_audit(tmp_path, labels, each)
        stands_for = torch.tensor([audit.stands_for(place) for place in range(3000)])
        even = (1 / stands_for).mean()  # an example is drawn by the inverse of what it stands for
        assert (stands_for * even).max() <= 2 + 1e-9


def test_how_many_it_takes_follows_the_answers(tmp_path):
    """The suspicions say that nothing is wrong, and half of the labels are."""
    true = torch.arange(1000) % 2
    generator = torch.Generator().manual_seed(0)
    labels = torch.where(torch.rand(1000, generator=generator) < 0.5, 1 - true, true)
    audit = make_audit(tmp_path, labels, torch.full((1000,), 1e-4).double())
    before = audit.size_for(0.05)
    answer(audit, true, 40)
    after = audit.size_for(0.05)
    assert after > 2 * before
    result = audit.result()
    assert result.answered + result.more_for(0.05) == after


def test_the_result_in_words(tmp_path):
    labels, true, suspicion = planted()
    audit = make_audit(tmp_path, labels, suspicion)
    before = audit.result()
    assert before.estimate is None
    assert before.run_rate == 0.1
    assert "10 more answers are needed" in before.words
    assert audit.size_for(0.03) > audit.size_for(0.05) == before.more_for(0.05) > 20
    first = audit.next(1)[0]
    answer(audit, true, 150)
    assert first not in audit.next(1)
    audit.decisions.decide(audit.next(1)[0], "unsure", where="audit")
    result = audit.result()
    assert (result.answered, result.undecided) == (150, 1)
    assert sum(each.count for each in result.confusions) == result.wrong
    assert sum(each.checked for each in result.reliability) == 150
    surest = result.reliability[-1]
    assert surest.found > surest.predicted  # half of what it should be
    assert "which is corrected" in result.words
    assert (
        abs(result.wrong / 150 - result.estimate.noise_rate) > 0.01
    )  # uncertain labels were drawn more often
    assert "each answer counts for the labels that it represents" in result.words


def test_suspects_that_were_decided_elsewhere_do_not_bias_it(tmp_path):
    labels, true, suspicion = planted()
    audit = make_audit(tmp_path, labels, suspicion)
    answer(audit, true, 20)
    later = audit.next(2000)[1500:]
    for position in later[:5]:
        audit.decisions.decide(position, "right")
    assert audit.result().answered == 20


def test_an_answer_records_the_examples_it_represents(tmp_path):
    labels, _, suspicion = planted()
    audit = make_audit(tmp_path, labels, suspicion)
    certain, doubtful = int(suspicion.argmin()), int(suspicion.argmax())
    made = [audit.decide(each, "right") for each in (certain, doubtful)]
    assert made[0].where == "audit"
    assert made[0].stands_for > made[1].stands_for > 0


def test_weights_undo_unequal_chances():
    labels = torch.tensor([0, 1] * 500)
    probs = torch.full((1000, 2), 0.5)
    at = torch.arange(40)
    true = labels[at].clone()
    true[:20] = 1 - true[:20]  # the first twenty are wrong, and stand for three times as many
    weights = torch.tensor([3.0] * 20 + [1.0] * 20).double()
    found = estimate_noise(probs, labels, trusted=Trusted(at, true, weights))
    assert found.noise_rate == pytest.approx(0.75)
    alike = estimate_noise(probs, labels, trusted=Trusted(at, true))
    assert alike.noise_rate == pytest.approx(0.5)
    assert found.interval[0] < 0.75 < found.interval[1]


def test_equal_weights_change_nothing():
    generator = torch.Generator().manual_seed(0)
    wrong = torch.rand(80, generator=generator) < 0.3
    suspicion = torch.rand(500, generator=generator).double()
    plain = audited_rate(wrong, suspicion[:80], suspicion)
    weighted = audited_rate(wrong, suspicion[:80], suspicion, torch.full((80,), 7.0).double())
    assert weighted.rate == pytest.approx(plain.rate, rel=1e-12)
    assert weighted.interval == pytest.approx(plain.interval, rel=1e-12)
