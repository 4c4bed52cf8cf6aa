"""Copies, near copies and outliers: found where they are, and not where they are not."""

import tracemalloc

import numpy as np
import polars as pl
import pytest
import torch
from scipy.sparse import csr_array

from noisebound.data import Dataset, Splits, duplicates, load
from noisebound.data.duplicates import find_duplicates, nearest_neighbors
from noisebound.data.rows import SparseRows, as_rows
from noisebound.training import TrainingConfig
from noisebound.training.data import split_validation


def found_in(array, **options):
    return find_duplicates(as_rows(torch.as_tensor(array)), **options)


def normal(n, features, seed=0):
    return np.random.default_rng(seed).normal(size=(n, features)).astype(np.float32)


INDEPENDENT = {
    "normal": lambda seed: normal(600, 5, seed),
    "many features": lambda seed: normal(600, 200, seed),
    "two features": lambda seed: normal(600, 2, seed),
    "heavy tails": lambda seed: np.random.default_rng(seed).standard_t(2, size=(600, 4)),
    "clusters": lambda seed: normal(600, 8, seed) + 20 * (np.arange(600) % 30)[:, None],
    "a plane in many": lambda seed: normal(600, 3, seed) @ normal(3, 64, 9),
    "whole numbers": lambda seed: normal(600, 6, seed).round(),
    "few values": lambda seed: np.random.default_rng(seed).integers(0, [4, 2, 2], (600, 3)),
    "zeros and ones": lambda seed: np.random.default_rng(seed).integers(0, 2, (600, 12)),
    "one of several": lambda seed: np.eye(6)[
        np.random.default_rng(seed).integers(0, 6, (600, 3))
    ].reshape(600, 18),
    "mixed": lambda seed: np.hstack([normal(600, 4, seed).round(1), normal(600, 2, seed) > 0]),
}


@pytest.mark.parametrize("kind", INDEPENDENT)
@pytest.mark.parametrize("seed", range(3))
def test_independent_examples_are_no_duplicates(kind, seed):
    found = found_in(np.asarray(INDEPENDENT[kind](seed), np.float32))
    assert found.groups is None
    assert found.sets == []


@pytest.mark.parametrize("copies", [1, 4])
def test_copies_are_found(copies):
    original = normal(300, 4)
    found = found_in(np.concatenate([original, np.repeat(original[:40], copies, axis=0)]))
    first, *others = found.sets
    assert first == [0, *range(300, 300 + copies)]
    assert len(others) == 39


@pytest.mark.parametrize("features", [10, 20, 200])
def test_near_copies_are_found(features):
    original = normal(500, features)
    change = 0.02 * normal(60, features, seed=1)
    found = found_in(np.concatenate([original, original[:60] + change]))
    pairs = {tuple(each) for each in found.sets}
    assert len(pairs & {(place, 500 + place) for place in range(60)}) >= 57
    assert len(pairs) <= 60


def test_zeros_are_equal_whatever_their_sign():
    data = normal(50, 3)
    data[1] = data[0] * [0, 1, 1]
    data[0] *= [-0.0, 1, 1]
    assert found_in(data).sets == [[0, 1]]


def test_sparse_rows_pictures_and_texts():
    words = normal(60, 30) * (normal(60, 30, 1) > 1)
    words[7] = words[3]
    words[[20, 21]] = 0  # nothing is known of them
    assert find_duplicates(SparseRows(csr_array(words))).sets == [[3, 7]]
    ones = SparseRows(csr_array((np.arange(60)[:, None] % [3, 4] == 0).astype(float)))
    assert find_duplicates(ones).groups is None
    pictures = torch.randint(256, (40, 1, 4, 4), dtype=torch.uint8)
    pictures[9] = pictures[4]
    assert found_in(pictures).sets == [[4, 9]]
    texts = [f"text number {place}" for place in range(40)]
    texts[5] = "  Text  NUMBER 3"
    frame = pl.DataFrame({"text": texts, "y": ["a", "b"] * 20})
    assert load(frame, target="y", text="text").duplicates.sets == [[3, 5]]


def test_a_table_of_few_values_says_that_rows_are_equal_by_chance():
    random = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "sex": random.choice(["f", "m"], 400),
            "class": random.choice(["first", "second", "third"], 400),
            "y": random.choice(["no", "yes"], 400),
        }
    )
    splits = load(frame, target="y").with_duplicates_together()
    assert splits.train.groups is None
    assert splits.notes[-1].startswith("394 rows equal an earlier row; the columns have few values")


def test_columns_are_left_out_without_a_copy_of_each():
    array = np.random.default_rng(0).integers(0, 5, (1000, 1000)).astype(np.float32)
    array[1] = array[0]
    tracemalloc.start()
    assert found_in(array).sets == [[0, 1]]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.5 * 8 * array.size  # the columns as numbers, and their marks


def test_a_common_value_is_no_set_of_copies():
    data = normal(300, 4)
    data[:30] = 0
    data[299] = data[298]
    assert found_in(data).sets == [[298, 299]]


def test_neighbors_in_parts_are_nearly_those_of_all(monkeypatch):
    data = torch.from_numpy(normal(1200, 12))
    data[600:] = data[:600] + 0.01 * torch.from_numpy(normal(600, 12, 1))
    distances, neighbors = nearest_neighbors(data, 5)
    apart = torch.cdist(data.double(), data.double()).fill_diagonal_(torch.inf)
    exact = apart.topk(5, largest=False)
    assert torch.allclose(distances.double(), exact.values, atol=1e-4)
    assert torch.equal(neighbors[:, 0], exact.indices[:, 0])
    monkeypatch.setattr(duplicates, "_WHOLE", 100)
    monkeypatch.setattr(duplicates, "_CELL", 100)
    _, in_parts = nearest_neighbors(data, 5)
    assert (in_parts[:, 0] == exact.indices[:, 0]).double().mean() > 0.99


def test_the_remotest_example_is_an_outlier():
    data = normal(400, 6)
    data[17] += 30
    remoteness = found_in(data).remoteness
    assert int(remoteness.argmax()) == 17
    assert remoteness[17] > 5
    assert remoteness.median() == pytest.approx(1)


def test_duplicates_stay_on_one_side_and_a_note_names_them():
    data = normal(200, 4)
    data[100:] = data[:100]
    labels = torch.arange(200) % 2
    labels[0] = 1
    splits = Splits("x", Dataset(torch.from_numpy(data), labels, ("a", "b")), None, "memory")
    split, kept = split_validation(splits, TrainingConfig(validation_share=0.2))
    ones, others = (places % 100 for places in (split.positions, split.validation_positions))
    assert len(others) == 40
    assert not set(ones.tolist()) & set(others.tolist())
    assert (
        "200 examples are copies or near copies of one another, in 100 sets, 1 of" in kept.notes[-1]
    )
    assert "such as #0 = #100; #1 = #101" in kept.notes[-1]
    own = Splits(
        "x", Dataset(splits.train.inputs, labels, ("a", "b"), groups=torch.arange(200)), None, ""
    )
    assert split_validation(own, TrainingConfig())[1].notes == ()


def test_data_without_duplicates_is_divided_as_ever():
    whole = Dataset(torch.from_numpy(normal(300, 4)), torch.arange(300) % 3, ("a", "b", "c"))
    config = TrainingConfig(validation_share=0.1)
    found, kept = split_validation(Splits("x", whole, None, "memory"), config)
    assert kept.train is not whole
    assert found.train.groups is None
    assert kept.notes == ()
