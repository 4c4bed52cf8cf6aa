"""Every kind of noise has the rate and the transitions that were asked for.

Random numbers are drawn with fixed seeds. Tolerances are three standard deviations of the binomial
distribution, widened by Bonferroni's correction where many entries are compared at once.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from scipy.stats import norm

import noisebound as nb
from noisebound.corruption import cifar100_superclass_of

N = 100_000


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def some_labels(n, c, seed=1):
    return torch.randint(c, (n,), generator=generator(seed))


def deviations(count=1):
    """Return three for one comparison, and more for several, so that the total risk is equal."""
    return norm.isf(norm.sf(3) / count)


def some_transition(c, seed=2):
    matrix = torch.rand(c, c, generator=generator(seed), dtype=torch.float64)
    matrix += 2 * torch.eye(c)
    return matrix / matrix.sum(0)


def expected_transition(kind, rate, c):
    """Return the transition matrix that each kind of noise should have."""
    eye = torch.eye(c, dtype=torch.float64)
    match kind:
        case "symmetric":
            return (1 - rate) * eye + rate * (1 - eye) / (c - 1)
        case "include_self":
            return (1 - rate) * eye + rate / c
        case "pairwise":
            return (1 - rate) * eye + rate * eye.roll(1, 0)
        case "superclass":
            groups = torch.tensor(GROUPS)
            same = (groups[:, None] == groups).double() - eye
            return (1 - rate) * eye + rate * same / same.sum(0)
    raise AssertionError(kind)


GROUPS = [0, 0, 0, 1, 1, 2, 2, 2, 2, 1]
CASES = {
    "symmetric": {"kind": "symmetric"},
    "include_self": {"kind": "symmetric", "include_self": True},
    "pairwise": {"kind": "pairwise"},
    "superclass": {"kind": "superclass", "groups": GROUPS},
}


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.6, 0.9])
@pytest.mark.parametrize("case", CASES)
def test_realized_transition_is_the_one_asked_for(case, rate, exact):
    c, clean = 10, some_labels(N, 10)
    noisy = nb.corrupt(
        clean, **CASES[case], noise_rate=rate, num_classes=c, generator=generator(), exact=exact
    )
    expected = expected_transition(case, rate, c)
    totals = clean.bincount(minlength=c)
    sigma = (expected * (1 - expected) / totals).sqrt()
    assert ((noisy.transition - expected).abs() <= deviations(c * c) * sigma + 1e-12).all()


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("c", [2, 3, 20])
def test_transition_noise_follows_its_matrix(c, exact):
    clean, matrix = some_labels(N, c), some_transition(c)
    noisy = nb.corrupt(clean, "transition", transition=matrix, generator=generator(), exact=exact)
    sigma = (matrix * (1 - matrix) / clean.bincount(minlength=c)).sqrt()
    assert ((noisy.transition - matrix).abs() <= deviations(c * c) * sigma).all()


def test_a_million_labels_within_two_tenths_of_a_percent():
    """Independent noise deviates by 0.15 % in each of ten classes; exact noise does not."""
    c, n = 10, 1_000_000
    clean, matrix = some_labels(n, c), some_transition(c)
    for options, expected in (
        ({"kind": "transition", "transition": matrix}, matrix),
        ({"kind": "symmetric", "noise_rate": 0.4}, expected_transition("symmetric", 0.4, c)),
    ):
        options |= {"num_classes": c, "generator": generator()}
        exact = nb.corrupt(clean, exact=True, **options)
        assert (exact.transition - expected).abs().max() < 0.002
        independent = nb.corrupt(clean, **options)
        rate = 1 - expected.diagonal()[clean].mean()
        assert abs(independent.noise_rate - rate) < 0.002
        spread = (expected * (1 - expected) / clean.bincount()).sqrt()
        assert ((independent.transition - expected).abs() < deviations(c * c) * spread).all()


@pytest.mark.parametrize("case", [*CASES, "transition"])
def test_exact_noise_is_exact_in_every_class(case):
    """No entry of the matrix is off by more than two labels."""
    c, clean = 10, some_labels(N, 10)
    matrix = some_transition(c) if case == "transition" else expected_transition(case, 0.3, c)
    options = {"noise_rate": 0.3, "num_classes": c} | CASES.get(case, {})
    if case == "transition":
        options = {"kind": "transition", "transition": matrix}
    noisy = nb.corrupt(clean, generator=generator(), exact=True, **options)
    totals = clean.bincount(minlength=c)
    assert ((noisy.transition - matrix) * totals).abs().max() < 2 + 1e-6


def test_impossible_labels_are_never_drawn():
    matrix = torch.tensor([[0.5, 0, 0], [0.5, 1, 0.25], [0, 0, 0.75]], dtype=torch.float64)
    noisy = nb.corrupt(some_labels(N, 3), "transition", transition=matrix, generator=generator())
    assert ((noisy.transition > 0) == (matrix > 0)).all()


def test_columns_that_sum_to_nearly_one():
    """The difference from one is not noise."""
    nearly = 0.99995 * torch.eye(4, dtype=torch.float64)
    noisy = nb.corrupt(some_labels(N, 4), "transition", transition=nearly, generator=generator())
    assert noisy.noise_rate == 0


def test_a_thousand_classes():
    """The search over the columns is right even for the last class."""
    c = 1000
    matrix = expected_transition("pairwise", 1.0, c)
    clean = torch.arange(c).repeat(20)
    noisy = nb.corrupt(clean, "transition", transition=matrix, generator=generator())
    assert torch.equal(noisy.labels, (clean + 1) % c)


@given(
    n=st.integers(1, 300),
    rate=st.floats(0, 0.5),
    c=st.integers(2, 6),
    seed=st.integers(0, 2**31),
    kind=st.sampled_from(["symmetric", "pairwise", "instance"]),
)
def test_exact_replaces_the_exact_number(n, rate, c, seed, kind):
    clean = some_labels(n, c, seed)
    probs = torch.full((n, c), 1 / c) if kind == "instance" else None
    noisy = nb.corrupt(clean, kind, rate, c, generator=generator(seed), exact=True, probs=probs)
    assert noisy.is_noisy.sum() == pytest.approx(rate * n, abs=0.5 + 1e-9)
    if kind != "instance":
        assert noisy.is_noisy.sum() == round(rate * n)


@given(n=st.integers(1, 200), c=st.integers(2, 5), seed=st.integers(0, 2**31))
def test_exact_transition_noise(n, c, seed):
    clean, matrix = some_labels(n, c, seed), some_transition(c, seed)
    noisy = nb.corrupt(clean, "transition", transition=matrix, generator=generator(), exact=True)
    expected = (1 - matrix.diagonal())[clean].sum().item()
    assert abs(noisy.is_noisy.sum() - expected) <= 0.5 + 1e-9


def test_exact_noise_chooses_every_label_alike():
    clean, hits = torch.zeros(50, dtype=torch.long), torch.zeros(50)
    for seed in range(2000):
        hits += nb.corrupt(
            clean, "pairwise", 0.3, 2, generator=generator(seed), exact=True
        ).is_noisy
    assert (hits - 600).abs().max() < deviations(50) * math.sqrt(2000 * 0.3 * 0.7)


@pytest.mark.parametrize(
    ("labels", "rate"),
    [([0, 0, 1, 2, 2, 2, 4], 0.4), ([*range(20)] * 5 + [3], 0.5)],
    ids=["few", "many classes"],
)
def test_exact_noise_favors_no_class(labels, rate):
    """This holds even if neither the shares of the classes nor the total are whole numbers."""
    clean, rounds, c = torch.tensor(labels), 3000, 20
    hits = torch.zeros(len(labels))
    for seed in range(rounds):
        hits += nb.corrupt(
            clean, "pairwise", rate, c, generator=generator(seed), exact=True
        ).is_noisy
    share = round(rate * len(labels)) / len(labels)
    spread = math.sqrt(share * (1 - share) / rounds)
    assert (hits / rounds - share).abs().max() < deviations(len(labels)) * spread


def test_independent_noise_varies_as_a_binomial():
    clean = torch.zeros(1000, dtype=torch.long)
    counts = torch.tensor(
        [
            nb.corrupt(clean, "pairwise", 0.3, 2, generator=generator(seed)).is_noisy.sum()
            for seed in range(500)
        ]
    ).double()
    assert abs(counts.mean() - 300) < 3 * math.sqrt(210 / 500)
    # The variance of a variance is 2σ⁴/(n-1).
    assert abs(counts.var() - 210) < 3 * 210 * math.sqrt(2 / 499)


@pytest.mark.parametrize("kind", ["symmetric", "pairwise", "transition", "instance"])
def test_reported_noise_is_the_realized_noise(kind):
    c, clean = 5, some_labels(2000, 5)
    options = {"noise_rate": 0.3, "num_classes": c}
    if kind == "transition":
        options = {"transition": some_transition(c)}
    if kind == "instance":
        options["probs"] = torch.rand(2000, c, generator=generator()).softmax(1)
    noisy = nb.corrupt(clean, kind, generator=generator(), **options)
    assert torch.equal(noisy.is_noisy, noisy.labels != clean)
    assert noisy.noise_rate == (noisy.labels != clean).double().mean()
    for true in range(c):
        column = noisy.labels[clean == true].bincount(minlength=c).double()
        torch.testing.assert_close(noisy.transition[:, true], column / column.sum())


def test_class_without_examples_has_the_column_of_no_noise():
    noisy = nb.corrupt([0, 1, 0, 1], "symmetric", 0.5, 3, generator=generator())
    assert noisy.transition[:, 2].tolist() == [0, 0, 1]


def test_include_self_is_the_other_convention():
    """A nominal rate of 0.4 is 0.36 with ten classes."""
    options = {"noise_rate": 0.4, "num_classes": 10, "include_self": True}
    noisy = nb.corrupt(some_labels(N, 10), "symmetric", generator=generator(), **options)
    assert abs(noisy.noise_rate - 0.36) < 3 * math.sqrt(0.36 * 0.64 / N)


def test_superclasses_of_cifar100():
    clean = some_labels(N, 100)
    noisy = nb.corrupt(clean, "superclass", 0.4, 100, generator=generator(), exact=True)
    groups = torch.tensor(cifar100_superclass_of())
    assert torch.equal(groups[noisy.labels], groups[clean])
    assert noisy.noise_rate == 0.4
    assert (noisy.transition > 0).sum() == 100 * 5


def test_superclass_table_is_the_published_one():
    """The table is that of CIFAR-100's own coarse labels, in the order of the fine ones."""
    assert cifar100_superclass_of() == (
        4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11,
        6, 11, 5, 10, 7, 6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5,
        5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4, 17, 4, 2, 0, 17, 4, 18, 17,
        10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9, 13, 15, 13,
        16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13,
    )  # fmt: skip


@pytest.fixture(scope="module")
def blobs():
    """Return three overlapping clouds of points in the plane, and their labels."""
    rng = np.random.default_rng(0)
    clean = rng.integers(0, 3, 3000)
    centers = np.array([[0, 0], [3, 0], [0, 3]])
    return centers[clean] + rng.normal(size=(3000, 2)), torch.from_numpy(clean)


def test_classifier_noise_is_what_the_classifier_says(blobs):
    from sklearn.linear_model import LogisticRegression

    inputs, clean = blobs
    said = torch.from_numpy(LogisticRegression().fit(inputs, clean).predict(inputs))
    noisy = nb.corrupt(clean, "classifier", 0.6, 3, inputs=inputs, generator=generator())
    # Changed labels are the classifier's, except where two fits of it disagree.
    assert (noisy.labels[noisy.is_noisy] == said[noisy.is_noisy]).double().mean() > 0.97
    wrong = (said != clean).double().mean().item()
    assert 0.02 < wrong < 0.2
    assert abs(noisy.noise_rate - 0.6 * wrong) < 3 * math.sqrt(0.6 * wrong / 3000) + 0.002


def test_classifier_noise_by_given_probabilities():
    clean = some_labels(N, 4)
    probs = torch.nn.functional.one_hot((clean + 1) % 4, 4).double()
    noisy = nb.corrupt(clean, "classifier", 0.6, probs=probs, generator=generator(), exact=True)
    assert noisy.noise_rate == 0.6
    assert torch.equal(noisy.labels[noisy.is_noisy], ((clean + 1) % 4)[noisy.is_noisy])


@pytest.mark.parametrize("rate", [0.1, 0.4, 0.6])
def test_instance_noise_grows_with_ambiguity(rate):
    """The rate is linear over equal groups from the clearest to the most ambiguous examples."""
    clean = some_labels(N, 5)
    p = torch.rand(N, generator=generator(3), dtype=torch.float64)
    probs = (1 - p)[:, None].expand(N, 5) / 4
    probs = probs.scatter(1, clean[:, None], p[:, None])
    noisy = nb.corrupt(clean, "instance", rate, probs=probs, generator=generator())
    assert abs(noisy.noise_rate - rate) < 3 * math.sqrt(rate * (1 - rate) / N)
    groups = noisy.is_noisy[p.argsort(descending=True)].double().view(10, -1).mean(1)
    middles = (torch.arange(10) + 0.5) / 10
    line = 2 * rate * middles if rate <= 0.5 else 1 - 2 * (1 - rate) * (1 - middles)
    sigma = (line * (1 - line) / (N / 10)).sqrt()
    assert ((groups - line).abs() < deviations(10) * sigma).all()


def test_instance_noise_draws_similar_classes():
    clean = torch.zeros(N, dtype=torch.long)
    probs = torch.tensor([0.5, 0.4, 0.1, 0.0], dtype=torch.float64).expand(N, 4)
    noisy = nb.corrupt(clean, "instance", 0.5, probs=probs, generator=generator())
    flipped = noisy.labels[noisy.is_noisy]
    assert abs((flipped == 1).double().mean() - 0.8) < 3 * math.sqrt(0.16 / len(flipped))
    assert not (flipped == 3).any()


def test_instance_noise_of_a_certain_classifier():
    """No other class is likely, so that all others are equally likely."""
    clean = some_labels(1000, 3)
    probs = torch.nn.functional.one_hot(clean, 3).double()
    noisy = nb.corrupt(clean, "instance", 0.5, probs=probs, generator=generator(), exact=True)
    assert noisy.is_noisy.sum() == 500


def test_instance_noise_of_examples_that_are_alike():
    """The order of the examples must not decide which is more ambiguous."""
    clean = torch.arange(10).repeat_interleave(N // 10)
    probs = torch.nn.functional.one_hot(clean, 10).double()
    noisy = nb.corrupt(clean, "instance", 0.4, probs=probs, generator=generator())
    rates = 1 - noisy.transition.diagonal()
    assert (rates - 0.4).abs().max() < deviations(10) * math.sqrt(0.24 / (N / 10))


def test_instance_noise_from_inputs(blobs):
    inputs, clean = blobs
    noisy = nb.corrupt(clean, "instance", 0.3, 3, inputs=inputs, generator=generator(), exact=True)
    assert noisy.is_noisy.sum() == 900
    # Clouds 1 and 2 are far apart, so that their labels become 0 more often.
    assert noisy.transition[0, 1] > 2 * noisy.transition[2, 1]


def test_human_noise():
    clean, people = torch.tensor([0, 1, 2, 0]), torch.tensor([0, 2, 2, 1])
    noisy = nb.corrupt(clean, "human", num_classes=3, human_labels=people)
    assert torch.equal(noisy.labels, people)
    assert noisy.noise_rate == 0.5
    torch.testing.assert_close(
        noisy.transition,
        torch.tensor([[0.5, 0, 0], [0.5, 0, 0], [0, 1, 1]], dtype=torch.float64),
    )


@pytest.mark.parametrize(
    "labels",
    [
        [0, 1, 2, 1],
        np.array([0, 1, 2, 1], np.uint64),
        np.frombuffer(b"\0\1\2\1", np.uint8),
        torch.tensor([0, 1, 2, 1], dtype=torch.uint16),
    ],
    ids=["list", "uint64", "read-only", "torch.uint16"],
)
def test_labels_as_any_array(labels):
    noisy = nb.corrupt(labels, "transition", transition=np.roll(np.eye(4), 1, axis=0))
    assert noisy.labels.tolist() == [1, 2, 3, 2]


def test_same_generator_same_noise():
    clean = some_labels(500, 10)
    one, other = (nb.corrupt(clean, "symmetric", 0.4, 10, generator=generator(7)) for _ in range(2))
    assert torch.equal(one.labels, other.labels)


def test_without_a_generator_every_call_draws_anew():
    clean = some_labels(500, 10)
    before = torch.get_rng_state()
    one, other = (nb.corrupt(clean, "symmetric", 0.4, 10) for _ in range(2))
    assert not torch.equal(one.labels, other.labels)
    assert torch.equal(before, torch.get_rng_state())


def test_clean_labels_are_left_as_they_were():
    clean = some_labels(500, 10)
    before = clean.clone()
    nb.corrupt(clean, "symmetric", 0.9, 10, generator=generator())
    assert torch.equal(clean, before)


LABELS = [0, 1, 2, 0]


@pytest.mark.parametrize(
    ("arguments", "error", "complaint"),
    [
        ({"kind": "sym"}, ValueError, "`kind` must be one of symmetric, pairwise"),
        ({"num_classes": 3}, TypeError, "symmetric noise needs `noise_rate`"),
        ({"noise_rate": 0.4}, TypeError, "symmetric noise needs `num_classes`"),
        ({"noise_rate": 1.4, "num_classes": 3}, ValueError, r"\[0, 1\]"),
        ({"noise_rate": 0.4, "num_classes": 2}, ValueError, "must lie in 0 … 1, got 0 … 2"),
        (
            {"noise_rate": 0.4, "num_classes": 3, "groups": [0, 0, 0]},
            TypeError,
            "`groups` does not",
        ),
        ({"kind": "transition"}, TypeError, "needs `transition`"),
        (
            {"kind": "transition", "transition": [[0.5, 0.5], [0.1, 0.9]]},
            ValueError,
            r"transition\.T",
        ),
        (
            {"kind": "transition", "transition": np.eye(4), "num_classes": 3},
            ValueError,
            "`num_classes` is 3, but `transition` has 4 classes",
        ),
        ({"kind": "superclass", "noise_rate": 0.1, "num_classes": 3}, ValueError, "pass `groups`"),
        (
            {"kind": "superclass", "noise_rate": 0.1, "num_classes": 3, "groups": [0, 0, 1]},
            ValueError,
            r"classes \[2\] are alone",
        ),
        (
            {"kind": "superclass", "noise_rate": 0.1, "num_classes": 3, "groups": [0, 0]},
            ValueError,
            "each of 3 classes, got 2",
        ),
        (
            {"kind": "instance", "noise_rate": 0.1, "num_classes": 3},
            TypeError,
            "either `inputs` or",
        ),
        (
            {"kind": "classifier", "noise_rate": 0.1, "num_classes": 3, "inputs": np.eye(3)},
            ValueError,
            "one row per label, 4; got 3",
        ),
        ({"kind": "human", "num_classes": 3}, TypeError, "needs `human_labels`"),
        ({"noise_rate": 0.4, "num_classes": 3, "generator": 0}, TypeError, "torch.Generator"),
        ({"noise_rate": 0.4, "num_classes": math.inf}, TypeError, "whole number"),
        (
            {"kind": "instance", "noise_rate": 0.1, "probs": [0.5, 0.25, 0.25]},
            ValueError,
            r"must have shape \[examples, classes\], got \(3,\)",
        ),
        (
            {"kind": "human", "num_classes": 3, "human_labels": [0, 1]},
            ValueError,
            "`human_labels` must have one row per label, 4; got 2",
        ),
    ],
)
def test_bad_requests(arguments, error, complaint):
    with pytest.raises(error, match=complaint):
        nb.corrupt(LABELS, **arguments)


@pytest.mark.parametrize(
    ("labels", "error"),
    [([0.0, 1.0], TypeError), ([True, False], TypeError), ([[0, 1]], ValueError), ([], ValueError)],
)
def test_bad_labels(labels, error):
    with pytest.raises(error):
        nb.corrupt(labels, "symmetric", 0.4, 3)


def test_noise_that_hides_the_truth_is_warned_of():
    with pytest.warns(nb.NoiseRateWarning):
        nb.corrupt(LABELS, "symmetric", 0.9, 3, generator=generator())
