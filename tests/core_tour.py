"""A tour of the core of noisebound, which has to work with torch, numpy, scipy and jaxtyping only.

``python core_tour.py`` runs it with what is installed. Further arguments are packages to hide: to
import one of them fails, as if it were not installed.
"""

import doctest
import importlib
import pkgutil
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec

CORE = (
    *("bayes_risk", "bounded", "bounds", "catalog", "checks", "corruption", "errors", "estimation"),
    *("losses", "models", "monitor", "noise_models"),
)


def hide(packages):
    find = PathFinder.find_spec

    def find_visible(name, path=None, target=None):
        return None if name.partition(".")[0] in packages else find(name, path, target)

    PathFinder.find_spec = staticmethod(find_visible)  # dill calls it on an instance


def core_modules():
    for name in CORE:
        module = importlib.import_module(f"noisebound.{name}")
        yield module
        for part in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{module.__name__}."):
            yield importlib.import_module(part.name)


def run_examples():
    """Run the examples of all docstrings."""
    results = [
        doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
        for module in core_modules()
    ]
    assert sum(result.attempted for result in results) > 60
    assert sum(result.failed for result in results) == 0


def train(nb, torch):
    """Every loss trains, plain and bounded."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(60, 4, generator=generator)
    labels = torch.randint(3, (60,), generator=generator)
    facts = {"noise_rate": 0.2, "num_classes": 3, "num_samples": 60}
    for name in nb.LOSS_NAMES:
        bounded = {"bound": 0.3} if name in ("elr", "curriculum", "truncated") else {}
        for loss in (
            nb.create_loss(name, **facts),
            nb.create_loss(f"{name}+b", **facts, **bounded),
        ):
            model = torch.nn.Linear(4, 3)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            remembers = name in ("elr", "truncated")
            value = loss(model(features), labels, *([torch.arange(60)] if remembers else []))
            value.backward()
            optimizer.step()
            assert torch.isfinite(value)


def bounds(nb, torch):
    transition = torch.full((3, 3), 0.1) + 0.7 * torch.eye(3)
    for loss in (nb.CrossEntropy(), nb.GeneralizedCrossEntropy(), nb.SymmetricCrossEntropy()):
        lower, upper = nb.entropy_interval(loss, 0.2, 3)
        assert lower < upper
        assert abs(nb.noise_bound(loss, 0.2, 3) - upper) < 1e-9
        assert abs(nb.transition_bound(loss, transition) - upper) < 1e-6
        assert nb.nonuniform_bound(loss, [0.1, 0.3], 3) < upper
        assert abs(nb.entropy(loss, nb.symmetric_noise(0.2, 3)) - upper) < 1e-9
        assert abs(nb.entropy(loss, nb.pairwise_noise(0.2, 3)) - lower) < 1e-9
    assert abs(nb.noise_bound(nb.CrossEntropy(), 0.4, 10) - 1.5519) < 1e-4
    foreign = nb.noise_bound(
        lambda logits, labels: -logits.log_softmax(1)[range(len(labels)), labels], 0.4, 10
    )
    assert abs(foreign - nb.noise_bound(nb.CrossEntropy(), 0.4, 10)) < 1e-4


def noise(nb, torch):
    """Add every kind of noise, and estimate it by every method but cleanlab's."""
    generator = torch.Generator().manual_seed(0)
    clean = torch.arange(4).repeat(250)
    probs = (4 * torch.eye(4)[clean] + torch.randn(1000, 4, generator=generator)).softmax(1)
    options = {
        "superclass": {"groups": [0, 0, 1, 1]},
        "transition": {"noise_rate": None, "transition": 0.7 * torch.eye(4) + 0.075},
        "classifier": {"probs": probs},
        "instance": {"probs": probs},
        "human": {"noise_rate": None, "human_labels": clean.roll(1)},
    }
    for kind in nb.NOISE_KINDS:
        given = {"noise_rate": 0.3, "num_classes": 4} | options.get(kind, {})
        assert nb.corrupt(clean, kind, generator=generator, **given).noise_rate > 0
    noisy = nb.corrupt(clean, "symmetric", 0.3, 4, generator=generator)
    predicted = probs.double() @ noisy.transition.T
    for method in ("agreement", "anchor"):
        estimate = nb.estimate_noise(predicted, noisy.labels, method)
        assert 0.1 < estimate.noise_rate < 0.6, (method, estimate.noise_rate)
    for given in (predicted, -predicted.gather(1, noisy.labels[:, None]).squeeze(1).log()):
        suspects = nb.find_suspects(given, noisy.labels)
        assert noisy.is_noisy[suspects.ranking[:200]].double().mean() > 0.9
    assert nb.measured_floor(nb.CrossEntropy(), predicted.log(), noisy.labels).level > 0


def confident_learning(nb, torch):
    """A method that needs an extra names it."""
    try:
        nb.estimate_noise(torch.eye(2).repeat(20, 1), [0, 1] * 20, "confident")
    except ModuleNotFoundError as error:
        message = str(error)
    assert message.endswith("[cleanlab]'")


def main(hidden):
    hide(hidden)
    import torch

    import noisebound as nb

    train(nb, torch)
    bounds(nb, torch)
    noise(nb, torch)
    run_examples()
    if find_spec("cleanlab") is None:
        confident_learning(nb, torch)
    sys.stdout.write(f"the core of noisebound {nb.__version__} works\n")


if __name__ == "__main__":
    main(sys.argv[1:])
