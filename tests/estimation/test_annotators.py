"""Several labels per example: planted annotators are found again."""

import math

import pytest
import torch
from hypothesis import given, settings, strategies as st

import noisebound as nb
from noisebound.errors import InvalidTypeError, InvalidValueError
from noisebound.estimation.annotators import estimate_annotators
from noisebound.estimation.consensus import as_votes, fit_votes

CLASSES = 4
EYE = torch.eye(CLASSES, dtype=torch.float64)
PLANTED = {
    "good": nb.bounds.symmetric_transition(0.1, CLASSES),
    "bad": nb.bounds.symmetric_transition(0.4, CLASSES),
    "spammer": torch.full((CLASSES, CLASSES), 1 / CLASSES, dtype=torch.float64),
    "adversary": 0.2 * EYE + 0.8 * EYE.roll(1, 0),
    "fair": nb.bounds.symmetric_transition(0.2, CLASSES),
}


def draw(transitions, n=3000, missing=0.0, seed=0, repeat=0.0):
    """Return labels and true classes; a part of the labels repeats the first one."""
    g = torch.Generator().manual_seed(seed)
    true = torch.randint(CLASSES, (n,), generator=g)
    columns = [torch.multinomial(each.T[true], 1, generator=g) for each in transitions]
    labels = torch.cat(columns, 1)
    labels = torch.where(torch.rand(labels.shape, generator=g) < repeat, labels[:, :1], labels)
    return labels.masked_fill(torch.rand(labels.shape, generator=g) < missing, -1), true


def predictions(true, seed=1):
    """Return calibrated probabilities of the true class; the likeliest class is mostly right."""
    g = torch.Generator().manual_seed(seed)
    signal = 2 * torch.nn.functional.one_hot(true, CLASSES)
    return (2 * (signal + torch.randn(signal.shape, generator=g))).softmax(1)


def test_named_annotators_are_told_apart():
    labels, true = draw(PLANTED.values(), missing=0.3)
    found = nb.estimate_annotators(labels, predictions(true), names=list(PLANTED))
    planted = torch.stack(list(PLANTED.values()))
    assert (found.transitions - planted).abs().max() < 0.08
    wrong = (labels != true[:, None]) & (labels >= 0)
    rates = wrong.sum(0) / found.counts
    assert (found.error_rates - rates).abs().max() < 0.04
    assert bool(((found.intervals[:, 0] <= rates) & (rates <= found.intervals[:, 1])).all())
    assert found.interval[0] < float(wrong.sum() / found.counts.sum()) < found.interval[1]
    assert abs(found.agreement[2]) < 0.05 < found.agreement[0]
    assert found.agreement[3] < 0
    majority = torch.stack([(labels == label).sum(1) for label in range(CLASSES)], 1).argmax(1)
    right = (found.consensus_labels == true).double().mean()
    assert right > (majority == true).double().mean() + 0.05
    assert abs(found.consensus_rate - (1 - right)) < 0.02


@pytest.mark.parametrize("second", [1.0, 0.1])
def test_a_second_label_of_some_examples_gives_the_rate(second):
    labels, true = draw([PLANTED["fair"], PLANTED["fair"]], n=4000)
    labels[int(second * 4000) :, 1] = -1
    found = nb.estimate_noise(predictions(true), labels)
    one = nb.estimate_noise(predictions(true), labels[:, 0])
    assert abs(found.noise_rate - 0.2) < 0.03
    assert found.interval[0] < 0.2 < found.interval[1]
    widths = [end - start for start, end in (found.interval, one.interval)]
    assert widths[0] < widths[1] / 2
    assert found.annotators is not None
    assert found.transition.sum(0).tolist() == pytest.approx([1.0] * CLASSES)
    assert "independently" in found.words


def test_mistakes_that_annotators_share_widen_the_interval():
    """A quarter of the labels repeat the first one, so agreement hides some of the noise."""
    labels, true = draw([PLANTED["fair"]] * 5, repeat=0.25)
    found = estimate_annotators(labels, predictions(true))
    independent = estimate_annotators(draw([PLANTED["fair"]] * 5)[0], predictions(true))
    assert independent.correlation < 0.02 < 0.05 < found.correlation
    assert found.interval[0] < 0.2 < found.interval[1]


@given(st.integers(0, 2**16), st.booleans())
@settings(max_examples=10)
def test_order_does_not_matter(seed, are_named):
    """Neither does that of examples, nor that of the labels of unknown annotators."""
    labels, _ = draw(list(PLANTED.values())[:3], n=60, missing=0.2, seed=seed)
    g = torch.Generator().manual_seed(seed)
    rows, columns = torch.randperm(60, generator=g), torch.randperm(3, generator=g)
    names = ["Ann", "Ben", "Cy"] if are_named else None
    found = estimate_annotators(labels, names=names)
    other = labels[rows] if are_named else labels[rows][:, columns]
    again = estimate_annotators(other, names=names)
    assert again.noise_rate == pytest.approx(found.noise_rate, abs=1e-6)
    torch.testing.assert_close(again.consensus, found.consensus[rows])


def test_without_correlation_the_likelihood_is_that_of_dawid_and_skene():
    labels, _ = draw([PLANTED["good"], PLANTED["bad"]], n=50, missing=0.3)
    votes = as_votes(labels, CLASSES, are_named=True)
    found = fit_votes(votes, None, 0.0)
    joint = found.log_prior.exp().expand(50, -1).clone()
    for place in range(2):
        has = labels[:, place] >= 0
        joint[has] *= found.transitions[place, labels[has, place]]
    assert found.log_likelihood == pytest.approx(float(joint.sum(1).log().sum()), rel=1e-3)


def test_the_consensus_has_a_lower_floor_than_the_labels():
    labels, _ = draw([PLANTED["good"], PLANTED["bad"], PLANTED["fair"]])
    found = estimate_annotators(labels, names=["good", "bad", "fair"])
    loss = nb.CrossEntropy()
    planted = [nb.noise_bound(loss, rate, CLASSES) for rate in (0.1, 0.4, 0.2)]
    assert found.bound(loss) == pytest.approx(sum(planted) / 3, abs=0.05)
    assert found.bound(loss, "consensus") < 0.7 * found.bound(loss)


def test_examples_in_doubt_are_labeled_next():
    labels, true = draw([PLANTED["good"]] * 3, n=900)
    labels[:300, 1:] = -1
    labels[300:600, 1] = (labels[300:600, 0] + 1) % CLASSES
    labels[300:600, 2] = -1
    labels[600:] = true[600:, None]
    found = estimate_annotators(labels)
    first = found.next_to_label(300)
    assert ((first >= 300) & (first < 600)).double().mean() > 0.95
    assert len(found.next_to_label(5000)) == 900


def test_checked_labels_take_precedence():
    labels, true = draw([PLANTED["fair"], PLANTED["bad"]])
    at = torch.arange(0, 3000, 15)
    found = nb.estimate_noise(predictions(true), labels, trusted=(at, true[at]))
    assert found.condition == "by 200 checked labels"
    assert found.annotators is not None
    assert found.interval[0] < 0.3 < found.interval[1]


def test_odd_annotators_are_reported():
    labels, _ = draw([PLANTED["good"]] * 4, n=200)
    labels[:, 2] = -1
    labels[:, 3] = 1
    found = estimate_annotators(labels, names=["Ann", "Ben", "Cy", "Di"])
    assert found.warnings == (
        "annotator Cy has no labels",
        "annotator Di has the same label for all 200 examples",
    )
    assert math.isnan(found.agreement[2])
    assert bool(torch.isfinite(found.transitions).all())


def test_labels_that_agree_by_chance_are_rejected():
    labels = torch.randint(3, (500, 2), generator=torch.Generator().manual_seed(0))
    found = nb.estimate_noise(torch.full((500, 3), 1 / 3), labels)
    assert found.diagnostics.rejection == "labels of the same example agree no more than by chance"
    assert not found.is_reliable


TWO = [[0, 1], [1, 1], [0, 0]]


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        ([[0], [1]], {}, "at least two columns"),
        ([[-1, -1], [-1, -1]], {}, "there is no label"),
        ([[0, -1], [-1, 1]], {}, "no example has two `labels`"),
        ([[0, -2], [1, 1]], {}, "be -1 where a label is missing"),
        ([[0, 3], [1, 1], [0, 0]], {"probs": [[0.5, 0.5]] * 3}, r"must lie in 0 … 1"),
        (TWO, {"probs": [[0.5, 0.5]] * 2}, "one row per example, 3"),
        (TWO, {"names": ["Ann", "Ann"]}, "'Ann' twice"),
        (TWO, {"names": ["Ann"]}, "one per column, 2; got 1"),
        ([[0, 0], [0, 0]], {}, "at least two classes"),
    ],
)
def test_labels_that_cannot_be_compared_are_refused(labels, options, message):
    with pytest.raises(InvalidValueError, match=message):
        estimate_annotators(labels, **options)


def test_missing_labels_are_minus_one_and_nothing_else():
    with pytest.raises(InvalidTypeError, match="-1 where a label is missing"):
        estimate_annotators([[0.0, math.nan], [1.0, 1.0]])
