import inspect

import pytest
import torch

import noisebound as nb
from noisebound.catalog import METHOD_NAMES
from noisebound.data import Dataset, ReadingOptions
from noisebound.estimation import GivenRate, UnknownNoise
from noisebound.losses import RememberingLoss
from noisebound.search.problem import known_noise
from noisebound.training import TrainingConfig
from noisebound.training.objective import make_objective, mix_up

FIVE = ("ce", "fce", "gce", "sce", "cep")


def objective_of(config, num_classes=10, num_samples=50):
    """The objective for the noise that the config gives."""
    data = Dataset(torch.zeros(1, 1), torch.zeros(1, dtype=torch.long), ("",) * num_classes)
    noise = known_noise(config, data) or UnknownNoise(num_classes)
    return make_objective(config, num_classes, num_samples, noise)


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_every_method_gives_a_loss(name):
    objective = objective_of(TrainingConfig(loss=name, noise_rate=0.4))
    assert objective.bound is None
    logits, labels = torch.randn(5, 10), torch.arange(5)
    extra = (torch.arange(5),) if isinstance(objective.criterion, RememberingLoss) else ()
    assert objective.criterion(logits, labels, *extra).ndim == 0


@pytest.mark.parametrize("name", FIVE)
def test_bounds_are_noise_bounds(name):
    config = TrainingConfig(loss=f"{name}+b", noise_rate=0.4)
    expected = nb.create_loss(f"{name}+b", noise_rate=0.4, num_classes=10).bound
    assert objective_of(config).bound == pytest.approx(expected)


def test_bound_of_ones_own():
    config = TrainingConfig(loss="elr+b", bound=0.7)
    assert objective_of(config).bound == 0.7


def test_classes_in_the_bound():
    """The paper's non-uniform EMNIST: 47 classes, but two in the bound."""
    config = TrainingConfig(loss="ce+b", noise_rate=0.4, bound_classes=2)
    expected = nb.noise_bound(nb.CrossEntropy(), 0.4, 2)
    assert objective_of(config, 47).bound == pytest.approx(float(expected))


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({"loss": "ce+b"}, "needs to know how noisy the labels are"),
        ({"loss": "hinge"}, "unknown loss 'hinge': choose one of ce, fce"),
        ({"loss": "fce"}, "noise_rate"),
        ({"loss": "elr+b", "noise_rate": 0.4}, "no noise-bound"),
        ({"loss": "mixup+b", "noise_rate": 0.4}, "mixup has no noise-bound"),
        ({"loss": "ce", "bound": 0.5}, r"'ce' is not bounded: ask for 'ce\+b'"),
    ],
)
def test_what_cannot_be_made(config, complaint):
    with pytest.raises((ValueError, TypeError), match=complaint):
        objective_of(TrainingConfig(**config))


def test_the_learning_rate_drops():
    config = TrainingConfig(learning_rate=1e-4)
    assert config.learning_rate_at(0) == config.learning_rate_at(59) == 1e-4
    assert config.learning_rate_at(60) == pytest.approx(0.6e-4)


@pytest.mark.parametrize(
    "option",
    [{"epochs": 0}, {"noise_rate": 1.5}, {"learning_rate": -1}, {"model": "vgg"}, {"lr": 1}],
)
def test_configs_are_checked(option):
    with pytest.raises(ValueError, match=next(iter(option))):
        TrainingConfig(**option)


def test_a_percentage_and_a_file_are_read(tmp_path):
    matrix = ((0.9, 0.2), (0.1, 0.8))
    (tmp_path / "T.csv").write_text("0.9,0.2\n0.1,0.8\n")
    config = TrainingConfig(validation_share="15%", transition=tmp_path / "T.csv")
    assert (config.validation_share, config.transition) == (0.15, matrix)
    (tmp_path / "T.csv").write_text("a,b\n")
    with pytest.raises(ValueError, match="file with a matrix of numbers"):
        TrainingConfig(transition=tmp_path / "T.csv")


def test_config_survives_json():
    config = TrainingConfig(loss="sce+b", noise_rate=0.25, learning_rate=1e-4)
    assert TrainingConfig.model_validate_json(config.model_dump_json()) == config


def test_fit_shows_every_option():
    """Each option is declared once, in a model, and is a keyword of nb.fit."""
    shown = inspect.signature(nb.fit).parameters
    assert {*TrainingConfig.model_fields, *ReadingOptions.model_fields} < {*shown}
    assert shown["epochs"].default == TrainingConfig().epochs
    assert "options" not in shown


def test_a_wrong_setting_is_named():
    with pytest.raises(
        nb.NoiseboundError, match=r"`epochs` must be greater than or equal to 1, got 0"
    ):
        nb.fit("digits", epochs=0)


class TestWeightsAndTargets:
    logits = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 1, 2, 3, 0, 1])

    def mean(self, name, labels, weights):
        objective = make_objective(TrainingConfig(loss=name), 4, 6, GivenRate(0.2, 4))
        return objective.mean(self.logits, labels, weights, torch.arange(6))

    @pytest.mark.parametrize("name", ["ce", "sce", "elr", "truncated", "curriculum"])
    def test_weights_of_one_change_nothing(self, name):
        weighted = self.mean(name, self.labels, torch.ones(6))
        torch.testing.assert_close(weighted, self.mean(name, self.labels, None))

    @pytest.mark.parametrize("name", ["ce", "sce", "gce"])
    def test_a_weight_counts_as_repetition(self, name):
        weights = torch.tensor([0.0, 1.0, 2.0, 0.0, 1.0, 3.0])
        repeated = torch.arange(6).repeat_interleave(weights.long())
        loss = nb.create_loss(name)
        torch.testing.assert_close(
            self.mean(name, self.labels, weights),
            loss(self.logits[repeated], self.labels[repeated]),
        )

    def test_no_weight_at_all_is_no_loss(self):
        assert self.mean("ce", self.labels, torch.zeros(6)) == 0

    def test_soft_targets(self):
        targets = torch.eye(4)[self.labels] * 0.8 + 0.05
        expected = torch.nn.functional.cross_entropy(self.logits, targets)
        torch.testing.assert_close(self.mean("ce", targets, None), expected)


def test_examples_and_labels_are_mixed_alike():
    x, y = torch.eye(6), torch.arange(6)
    mixed, targets = mix_up(x, y, 6, torch.Generator().manual_seed(3))
    # with one-hot inputs that are their labels, both blends are the same
    torch.testing.assert_close(mixed, targets)
    torch.testing.assert_close(targets.sum(1), torch.ones(6))
    assert ((targets > 0).sum(1) <= 2).all()


def test_the_shares_of_a_mixture_are_uniform():
    generator = torch.Generator().manual_seed(0)
    shares = torch.stack(
        [mix_up(torch.eye(2), torch.arange(2), 2, generator)[1].max() for _ in range(3000)]
    )
    # half of the time both are exchanged: of λ, max(λ, 1-λ) is seen, even in [1/2, 1]; else 1
    mixed = shares[shares < 1]
    assert abs(len(mixed) - 1500) < 4 * (3000 / 4) ** 0.5
    assert abs(mixed.mean() - 0.75) < 4 * (1 / 48 / len(mixed)) ** 0.5
