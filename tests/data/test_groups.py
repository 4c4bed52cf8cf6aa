"""Groups of examples that no fold divides."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given, strategies as st

import noisebound as nb
from noisebound.data import Dataset, load
from noisebound.data.dataset import stratified_indices
from noisebound.data.groups import group_indices
from noisebound.data.text_columns import weigh_text
from noisebound.errors import DataError
from noisebound.search.confirmation import held_out_split
from noisebound.search.cross_fit import half_folds
from noisebound.training import TrainingConfig
from noisebound.training.data import TrainingData, split_validation, validation_mask


def drawn(n, most, seed):
    """Labels of three classes, and groups of up to ``most`` examples."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (n,), generator=generator)
    sizes = torch.randint(1, most + 1, (n,), generator=generator)
    groups = torch.arange(n).repeat_interleave(sizes)[:n]
    return labels, groups[torch.randperm(n, generator=generator)]


def overlap(groups, first, second):
    return set(groups[first].tolist()) & set(groups[second].tolist())


@given(n=st.integers(30, 300), most=st.integers(2, 6), seed=st.integers(0, 10**6))
def test_halves_have_whole_groups_and_balanced_classes(n, most, seed):
    labels, groups = drawn(n, most, seed)
    first, second = half_folds(labels, seed, groups)
    assert torch.equal(torch.cat([first, second]).sort().values, torch.arange(n))
    assert not overlap(groups, first, second)
    counts = [torch.bincount(labels[half], minlength=3) for half in (first, second)]
    assert (counts[0] - counts[1]).abs().max() <= most + 1
    assert torch.equal(half_folds(labels, seed, groups)[0], first)


@given(n=st.integers(2, 200), seed=st.integers(0, 10**6))
def test_groups_of_one_change_nothing(n, seed):
    labels, _ = drawn(n, 1, seed)
    without = stratified_indices(labels, n // 3, seed)
    alone = torch.randperm(n, generator=torch.Generator().manual_seed(seed)) * 7
    assert torch.equal(stratified_indices(labels, n // 3, seed, alone), without)


def test_groups_that_are_the_classes_still_have_two_halves():
    labels = torch.arange(4).repeat_interleave(10)
    first, second = half_folds(labels, 0, labels)
    assert len(first) == len(second) == 20
    assert not overlap(labels, first, second)


def test_one_group_is_divided_because_nothing_else_can_be():
    labels = torch.arange(2).repeat(20)
    first, second = half_folds(labels, 0, torch.zeros(40, dtype=torch.int64))
    assert len(first) == len(second) == 20


def test_validation_keeps_whole_groups_of_the_size_asked_for():
    labels, groups = drawn(400, 5, 0)
    data = Dataset(torch.zeros(400, 2), labels, ("a", "b", "c"), groups=groups)
    config = TrainingConfig(validation_share=0.1)
    split, _ = split_validation(nb.data.Splits("x", data, None, "memory"), config)
    assert split.validation is not None
    assert len(split.validation) == pytest.approx(40, abs=3)
    assert not overlap(groups, split.positions, split.validation_positions)
    decided = torch.zeros(400, dtype=torch.bool)
    decided[split.validation_positions[0]] = True
    left = validation_mask(data, config, decided).nonzero().squeeze(1)
    assert set(left.tolist()) < set(split.validation_positions.tolist())
    assert not overlap(groups, left, split.validation_positions[:1])


@pytest.mark.parametrize(("count", "expected"), [(20, 1), (2, 0)])
def test_validation_takes_one_of_a_few_groups_unless_they_are_large(count, expected):
    groups = torch.arange(count).repeat_interleave(200 // count)
    data = Dataset(torch.zeros(200, 2), torch.arange(200) % 2, ("a", "b"), groups=groups)
    kept = validation_mask(data, TrainingConfig(validation_share=0.02))
    assert len(groups[kept].unique()) == expected


def test_what_confirms_a_choice_is_of_other_groups():
    labels, groups = drawn(300, 4, 1)
    data = TrainingData.unsplit(
        Dataset(torch.zeros(300, 2), labels, ("a", "b", "c"), groups=groups)
    )
    data = data.subset(torch.arange(300))
    kept, held_out = held_out_split(data, data, 0)
    assert len(held_out) == pytest.approx(30, abs=4)
    assert not set(kept.train.groups.tolist()) & set(held_out.groups.tolist())


def test_a_text_that_only_tells_groups_apart_does_not_help():
    random = np.random.default_rng(0)
    authors = np.arange(240) % 40
    labels = torch.from_numpy(random.integers(0, 2, 40)[authors])
    columns, text = random.normal(size=(240, 2)), np.eye(40)[authors]
    assert weigh_text(columns, text, labels)[0] > 0
    assert weigh_text(columns, text, labels, torch.from_numpy(authors))[0] == 0
    assert weigh_text(columns, text, labels, labels)[0] > 0  # whole groups would lack a class


def patients(**columns):
    x = np.random.default_rng(0).normal(size=(40, 2)).round(3)
    frame = pl.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": ["no", "yes"] * 20})
    return frame.with_columns(pl.Series(name, values) for name, values in columns.items())


def test_a_column_groups_rows_and_is_no_feature():
    frame = patients(patient=[f"p{row // 4}" for row in range(40)])
    found = load(frame, target="y", groups="patient")
    assert torch.equal(found.train.groups, torch.arange(40) // 4)
    assert list(found.encoder.types) == ["a", "b"]
    assert torch.equal(found.train.subset(torch.tensor([9, 0])).groups, torch.tensor([2, 0]))
    assert load(frame, target="y", groups="patient", id="patient").train.groups is not None


def test_a_class_in_one_group_is_noted():
    groups = [place if label == "no" else 99 for place, label in enumerate(["no", "yes"] * 20)]
    (note,) = load(patients(place=groups), target="y", groups="place").notes
    assert note.startswith("all examples of the class 'yes' are in one group")


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({}, {"groups": "patient"}, "has no column 'patient'"),
        ({"patient": ["p"] * 40}, {"groups": "patient"}, "puts all examples into one group"),
        ({"patient": [1, None] * 20}, {"groups": "patient"}, "20 of 40 examples have no value in"),
        ({}, {"groups": "y"}, "holds the labels and cannot name the rows or groups"),
        ({"p": [1, 2] * 20}, {"groups": "p", "types": {"p": "number"}}, "is not a feature"),
    ],
)
def test_columns_that_group_nothing_are_refused(columns, options, message):
    with pytest.raises(DataError, match=message):
        load(patients(**columns), target="y", **options)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, 2], "one value for each of 4 examples, got 2"),
        (np.zeros((4, 2)), "got lists"),
        ([1.0, np.nan, 2.0, 2.0], "1 of 4 examples have no value"),
        (["a", None, "b", "b"], "1 of 4 examples have no value"),
        (["a", "b", np.nan, np.nan], "2 of 4 examples have no value"),
        (pd.Series(["a", "b", None, pd.NA], dtype=object), "2 of 4 examples have no value"),
    ],
)
def test_values_that_group_nothing_are_refused(values, message):
    with pytest.raises(DataError, match=message):
        group_indices(values, 4)


@pytest.mark.parametrize("values", [[3, 3, 1, 2], ["c", "c", "a", "b"], torch.tensor([3, 3, 1, 2])])
def test_values_of_any_type_group(values):
    first, second, *others = group_indices(values, 4).tolist()
    assert first == second
    assert len({first, *others}) == 3


def test_numbers_of_groups_do_not_depend_on_what_polars_has_seen():
    other = pl.Series(["z", "b", "a"]).cast(pl.Categorical)
    assert group_indices(["a", "b", "z"], len(other)).tolist() == [0, 1, 2]


def test_fit_takes_groups_as_values_or_as_a_column(tmp_path):
    frame = patients(patient=[row // 4 for row in range(40)]).sample(
        200, with_replacement=True, seed=0
    )
    options = {"quick": True, "show": False, "report": False, "learner": "linear"}
    named = nb.fit(frame, target="y", groups="patient", **options)
    given = nb.fit(frame.drop("patient"), target="y", groups=frame["patient"].to_numpy(), **options)
    assert named.noise.out_of_fold is not None
    assert torch.equal(named.noise.out_of_fold.logits, given.noise.out_of_fold.logits)
    with pytest.raises(DataError, match="does not apply to arrays"):
        nb.fit((np.eye(4), [0, 1, 0, 1]), groups="patient", **options)
