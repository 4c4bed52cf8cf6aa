"""Suspects go by the structure of the noise where labels support it, else by self-confidence."""

import pytest
import torch
from sklearn.metrics import roc_auc_score

import noisebound as nb
from noisebound.estimation import OutOfFold
from noisebound.estimation.suspects import suspects_by_evidence, suspects_by_models
from noisebound.noise_models import symmetric_transition

CLASSES = 5


def problem(kind, rate=0.3, n=3000, sharpness=4.0, blur=1.5):
    """Noisy labels, and probabilities of them by a model that knows T and nearly the truth."""
    g = torch.Generator().manual_seed(0)
    logits = sharpness * torch.randn(n, CLASSES, generator=g).double()
    true = logits.argmax(1)
    noisy = nb.corrupt(true, kind, rate, CLASSES, generator=g)
    blurred = logits + blur * torch.randn(logits.shape, generator=g).double()
    return blurred.softmax(1) @ noisy.transition.T, noisy.labels, true


def of_label(probs, labels):
    return probs.gather(1, labels[:, None]).squeeze(1)


def test_a_structure_that_labels_support_is_used():
    probs, labels, true = problem("pairwise")
    found = suspects_by_evidence(probs, labels)
    assert found.is_supported
    is_wrong = labels != true
    assert roc_auc_score(is_wrong, found.suspects.score) > (
        roc_auc_score(is_wrong, -of_label(probs, labels)) + 0.02
    )


def test_without_structure_the_order_is_that_of_self_confidence():
    probs, labels, _ = problem("symmetric")
    ranking = nb.find_suspects(probs, labels).ranking
    assert (of_label(probs, labels)[ranking].diff() >= 0).all()


def test_a_matrix_that_a_weak_model_makes_up_is_not_used():
    """It confuses classes with each other, and its confusion looks like noise of a structure."""
    g = torch.Generator().manual_seed(0)
    true = torch.randint(CLASSES, (600,), generator=g)
    probs = (
        (
            torch.randn(600, CLASSES, generator=g)
            + (true[:, None] // 2 == torch.arange(CLASSES) // 2)
        )
        .double()
        .softmax(1)
    )
    labels = nb.corrupt(true, "symmetric", 0.4, CLASSES, generator=g).labels
    own = of_label(probs, labels)
    score = nb.find_suspects(probs, labels).score
    is_wrong = labels != true
    assert roc_auc_score(is_wrong, score) >= roc_auc_score(is_wrong, -own) - 1e-9


def test_a_matrix_that_explains_few_of_the_differing_labels_is_not_used():
    """Half the hard labels of one class are wrong, which a few of its surest ones hardly show."""
    g = torch.Generator().manual_seed(0)
    true = torch.arange(2).repeat(1000)
    margin = 4 * torch.rand(2000, generator=g).double()
    chance = torch.where(margin < 1.2, 0.5, 0.05)
    is_wrong = (true == 1) & (torch.rand(2000, generator=g) < chance)
    labels = torch.where(is_wrong, 0, true)
    of_true = (2 + margin).sigmoid()[:, None]
    probs = torch.cat([1 - of_true, of_true], 1)
    probs = torch.where((true == 1)[:, None], probs, probs.flip(1))
    probs = probs @ torch.tensor([[1.0, 0.05], [0.0, 0.95]]).double().T
    found = suspects_by_evidence(probs, labels).suspects.probability > 0.5
    assert found.sum() > is_wrong.sum() / 2


@pytest.mark.parametrize("kind", ["symmetric", "pairwise"])
def test_a_good_model_has_probabilities_that_come_true(kind):
    probs, labels, true = problem(kind, blur=0.3)
    probability = nb.find_suspects(probs, labels).probability
    is_wrong = (labels != true).double()
    parts = probability.argsort().tensor_split(10)
    gaps = [(probability[part].mean() - is_wrong[part].mean()).abs() for part in parts]
    assert torch.stack(gaps).mean() < 0.07
    found = probability > 0.5
    f1 = 2 * (found * is_wrong).sum() / (found.sum() + is_wrong.sum())
    assert f1 > 0.9


def test_labels_that_are_equally_probable_are_equally_suspect():
    probs, labels, _ = problem("symmetric", n=300)
    score = nb.find_suspects(probs.repeat(2, 1), labels.repeat(2)).score
    assert torch.equal(score[:300], score[300:])


def test_where_predictions_and_labels_agree_nothing_is_suspect():
    labels = torch.arange(CLASSES).repeat(40)
    probs = torch.eye(CLASSES).double()[labels] * 0.9 + 0.1 / CLASSES
    assert nb.find_suspects(probs, labels).probability.max() < 0.05


@pytest.mark.parametrize(("has_predictions", "rate"), [(True, 0.0), (True, 0.3), (False, 0.0)])
def test_validation_examples_are_no_more_suspect_than_others(has_predictions, rate):
    """A tenth of the examples is the validation split, of which the trained model is sure."""
    generator = torch.Generator().manual_seed(0)
    logit = 2 * torch.randn(2_000, generator=generator, dtype=torch.float64)
    chance = logit.sigmoid() * (1 - 2 * rate) + rate
    honest = torch.stack([chance, 1 - chance], 1)
    labels = (torch.rand(2_000, generator=generator) > chance).long()
    sure = torch.stack([(8 * logit).sigmoid(), (-8 * logit).sigmoid()], 1)
    trained, held_out = torch.arange(200, 2_000), torch.arange(200)
    validation = OutOfFold(honest[held_out].log(), labels[held_out], held_out)
    out_of_fold = OutOfFold(
        honest[trained].log(),
        labels[trained],
        trained,
        validation=validation if has_predictions else None,
    )
    matrix = symmetric_transition(0.3, 2)
    found = suspects_by_models(sure, labels, nb.CrossEntropy(), matrix, out_of_fold)
    first = found.ranking[:100]
    assert (first < 200).double().mean() < 0.2
    assert found.probability[:200].max() <= found.probability[200:].max() + 0.01


def test_labels_that_a_model_has_seen_are_as_suspect_as_others():
    """A model memorizes a part of its own labels, and finds them less suspect than others."""
    probs, labels, true = problem("pairwise")
    trained, held_out = torch.arange(200, 3_000), torch.arange(200)
    model = probs.clone()
    model[trained] = 0.6 * probs[trained] + 0.4 * torch.eye(CLASSES).double()[labels[trained]]
    out_of_fold = OutOfFold(
        probs[trained].log(),
        labels[trained],
        trained,
        validation=OutOfFold(probs[held_out].log(), labels[held_out], held_out),
    )
    transition = nb.estimate_noise(probs, labels).transition
    assert suspects_by_evidence(probs, labels).is_supported
    found = suspects_by_models(model, labels, nb.CrossEntropy(), transition, out_of_fold)
    assert (found.ranking[:200] < 200).double().mean() < 0.15  # 0.067 are validation examples
    assert roc_auc_score(labels != true, found.score) > 0.9


@pytest.mark.parametrize("kind", ["symmetric", "pairwise"])
def test_the_first_suspects_are_not_tied_and_no_label_is_certainly_wrong(kind):
    """Predictions that rule classes out made many labels equally, and certainly, wrong."""
    probs, labels, _ = problem(kind, n=2_000, blur=0.5)
    sharp = (20 * probs.log()).softmax(1)
    trained = torch.arange(200, 2_000)
    held_out = torch.arange(200)
    out_of_fold = OutOfFold(
        probs[trained].log(),
        labels[trained],
        trained,
        validation=OutOfFold(probs[held_out].log(), labels[held_out], held_out),
    )
    noise = nb.estimate_noise(probs, labels)
    for found in (
        suspects_by_models(sharp, labels, nb.CrossEntropy(), noise.transition, out_of_fold),
        suspects_by_models(sharp, labels, nb.CrossEntropy(), noise.transition, None),
        nb.find_suspects(probs, labels),
        nb.find_suspects(sharp, labels, transition=noise.transition),
    ):
        assert len(found.score[found.ranking[:100]].unique()) == 100
        assert found.probability.max() < 0.99999


@pytest.mark.parametrize("unseen", [0, 1, 19])
def test_few_labels_of_validation_are_rated_too(unseen):
    probs, labels, _ = problem("symmetric", n=600, blur=8.0)
    trained = torch.arange(unseen, 600)
    out_of_fold = OutOfFold(probs[trained].log(), labels[trained], trained)
    found = suspects_by_models(
        probs, labels, nb.CrossEntropy(), torch.eye(CLASSES).double(), out_of_fold
    )
    assert found.score.shape == (600,)
    assert found.score.isfinite().all()


class TestAModelThatIsBetterThanTheNetworksBeforeIt:
    """The first 300 of 3,000 labels are the validation split; only the networks are blurred."""

    before, labels, true = problem("symmetric", rate=0.4, blur=9.0)
    knowing, _, _ = problem("symmetric", rate=0.4, blur=0.5)
    trained = torch.arange(300, 3000)
    validation = OutOfFold(before[:300].log(), labels[:300], torch.arange(300))
    out_of_fold = OutOfFold(before[trained].log(), labels[trained], trained, validation=validation)

    def quality(self, model):
        matrix = torch.eye(CLASSES).double()  # of no use, as where noise was not to be estimated
        found = suspects_by_models(
            model, self.labels, nb.CrossEntropy(), matrix, self.out_of_fold
        ).score[self.trained]
        return roc_auc_score((self.labels != self.true)[self.trained], found)

    def test_it_is_asked_if_it_has_not_memorized_its_labels(self):
        networks = suspects_by_evidence(self.before[self.trained], self.labels[self.trained])
        assert not networks.is_supported
        is_wrong = (self.labels != self.true)[self.trained]
        alone = roc_auc_score(is_wrong, networks.suspects.score)
        assert self.quality(self.knowing) > alone + 0.05

    def test_it_is_not_asked_if_it_has(self):
        memorized = self.knowing.clone()
        memorized[self.trained] = (
            0.001 + 0.995 * torch.eye(CLASSES).double()[self.labels[self.trained]]
        )
        without = self.quality(torch.full_like(memorized, 1 / CLASSES))
        assert self.quality(memorized) == pytest.approx(without)

    def test_it_is_not_asked_if_it_knows_less(self):
        ignorant = torch.rand(3000, CLASSES, generator=torch.Generator().manual_seed(0)).double()
        ignorant /= ignorant.sum(1, keepdim=True)
        without = self.quality(torch.full_like(ignorant, 1 / CLASSES))
        assert self.quality(ignorant) == pytest.approx(without)
