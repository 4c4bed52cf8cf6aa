import pytest
import torch
from hypothesis import given, strategies as st

from noisebound.data import DataError, Dataset


def dataset(labels, num_classes=None):
    labels = torch.tensor(labels)
    names = tuple(str(k) for k in range(num_classes or int(labels.max()) + 1))
    return Dataset(torch.arange(len(labels))[:, None].float(), labels, names)


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=200),
    st.integers(0, 2**32),
    st.data(),
)
def test_take_is_stratified(labels, seed, data):
    whole = dataset(labels)
    n = data.draw(st.integers(1, len(labels)))
    part = whole.take(n, seed)
    assert len(part) == n
    shares = whole.class_counts() * n / len(whole)
    assert ((part.class_counts() - shares).abs() < 1).all()
    # distinct examples, with their own labels
    rows = part.dense_inputs.squeeze(1).long()
    assert len(rows.unique()) == n
    assert torch.equal(whole.labels[rows], part.labels)


def test_take_depends_on_the_seed_alone():
    whole = dataset([0, 1] * 100)
    assert torch.equal(whole.take(50, 3).dense_inputs, whole.take(50, 3).dense_inputs)
    assert not torch.equal(whole.take(50, 3).dense_inputs, whole.take(50, 4).dense_inputs)


def test_take_draws_every_example_alike():
    whole = dataset([0] * 30 + [1] * 10)
    hits = torch.zeros(40)
    for seed in range(2000):
        hits[whole.take(20, seed).dense_inputs.squeeze(1).long()] += 1
    # each with probability one half: 3.5 deviations of a binomial over 40 of them
    assert (hits - 1000).abs().max() < 3.5 * (2000 / 4) ** 0.5


def test_take_too_many():
    with pytest.raises(DataError, match="cannot take 5 of 4"):
        dataset([0, 1, 0, 1]).take(5, 0)
    with pytest.raises(ValueError, match="at least 1"):
        dataset([0, 1, 0, 1]).take(0, 0)


def test_true_labels_follow_the_examples():
    noisy = dataset([0, 1, 2, 0]).with_labels(torch.tensor([1, 1, 2, 0]))
    assert noisy.true_labels.tolist() == [0, 1, 2, 0]
    part = noisy.subset(torch.tensor([0, 3]))
    assert part.labels.tolist() == [1, 0]
    assert part.true_labels.tolist() == [0, 0]


def test_true_labels_stay_the_true_ones():
    twice = dataset([0, 1, 0, 1]).with_labels(torch.tensor([1, 1, 0, 1]))
    twice = twice.with_labels(torch.tensor([1, 1, 1, 1]))
    assert twice.true_labels.tolist() == [0, 1, 0, 1]


def test_subset_by_a_mask():
    data = dataset([0, 1, 2, 0])
    assert data.subset(data.labels == 0).dense_inputs.squeeze(1).tolist() == [0, 3]


def test_labels_without_a_class():
    with pytest.raises(DataError, match="indices of 2 classes, got -1 … 9"):
        Dataset(torch.zeros(3, 1), torch.tensor([0, 9, -1]), ("a", "b"))


def test_as_many_labels_as_inputs():
    with pytest.raises(DataError, match=r"labels of 3 inputs must have shape \[3\], got \[2\]"):
        Dataset(torch.zeros(3, 1), torch.zeros(2, dtype=torch.long), ("a", "b"))
