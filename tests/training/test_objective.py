import pytest
import torch

import noisebound as nb
from noisebound.data import Dataset, Loader, Normalization
from noisebound.training import METHOD_NAMES, TrainingConfig
from noisebound.training.memory import prune
from noisebound.training.objective import make_objective

FIVE = ("ce", "fce", "gce", "sce", "cep")


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_every_method_gives_a_loss(name):
    objective = make_objective(TrainingConfig(loss=name, noise_rate=0.4), 10, 50)
    assert objective.bound is None
    logits, labels = torch.randn(5, 10), torch.arange(5)
    extra = (torch.arange(5),) if objective.remembers else ()
    assert objective.criterion(logits, labels, *extra).ndim == 0


@pytest.mark.parametrize("name", FIVE)
def test_bounds_are_noise_bounds(name):
    config = TrainingConfig(loss=f"{name}+b", noise_rate=0.4)
    expected = nb.create_loss(f"{name}+b", noise_rate=0.4, num_classes=10).bound
    assert make_objective(config, 10, 50).bound == pytest.approx(expected)


def test_bound_of_ones_own():
    config = TrainingConfig(loss="elr+b", bound=0.7)
    assert make_objective(config, 10, 50).bound == 0.7


def test_classes_in_the_bound():
    """The paper's non-uniform EMNIST: 47 classes, but two in the bound."""
    config = TrainingConfig(loss="ce+b", noise_rate=0.4, bound_classes=2)
    expected = nb.noise_bound(nb.CrossEntropy(), 0.4, 2)
    assert make_objective(config, 47, 50).bound == pytest.approx(float(expected))


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({"loss": "ce+b"}, "needs to know how noisy the labels are"),
        ({"loss": "hinge"}, "loss must be one of ce, fce"),
        ({"loss": "fce"}, "noise_rate"),
        ({"loss": "elr+b", "noise_rate": 0.4}, "no noise-bound"),
        ({"loss": "mixup+b", "noise_rate": 0.4}, "mixup has no noise-bound"),
        ({"loss": "ce", "bound": 0.5}, r"'ce' is not bounded: ask for 'ce\+b'"),
    ],
)
def test_what_cannot_be_made(config, complaint):
    with pytest.raises((ValueError, TypeError), match=complaint):
        make_objective(TrainingConfig(**config), 10, 50)


@pytest.mark.parametrize(
    ("loss", "rate"), [("ce", 1e-4), ("sce+b", 1e-4), ("mae", 1e-3), ("ELR", 1e-2)]
)
def test_learning_rates_of_the_paper(loss, rate):
    config = TrainingConfig(loss=loss, learning_rate="paper")
    assert config.learning_rate_at(0) == rate
    assert config.learning_rate_at(59) == rate
    assert config.learning_rate_at(60) == pytest.approx(0.6 * rate)


@pytest.mark.parametrize(
    "option",
    [{"epochs": 0}, {"noise_rate": 1.5}, {"learning_rate": -1}, {"model": "vgg"}, {"lr": 1}],
)
def test_configs_are_checked(option):
    with pytest.raises(ValueError, match=next(iter(option))):
        TrainingConfig(**option)


def test_config_survives_json():
    config = TrainingConfig(loss="sce+b", noise_rate=0.25, learning_rate="paper")
    assert TrainingConfig.model_validate_json(config.model_dump_json()) == config


def test_a_granular_bound_does_not_hide_what_a_loss_remembers():
    config = TrainingConfig(loss="truncated+b", bound=0.3, granularity="example")
    objective = make_objective(config, num_classes=4, num_samples=8)
    assert objective.remembers
    data = Dataset(torch.randn(8, 3), torch.arange(8) % 4, tuple("abcd"))
    loader = Loader(data, 4, normalization=Normalization.of(data.inputs))
    assert prune(objective.criterion, torch.nn.Linear(3, 4), loader, 39) is not None
