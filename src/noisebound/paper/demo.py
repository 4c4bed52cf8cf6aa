"""The demo: five losses, plain and bounded, on digits with 60 % wrong labels."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from joblib import Parallel, delayed

from noisebound.corruption import corrupt
from noisebound.data import Splits, load
from noisebound.estimation.estimate import UNPREDICTABLE
from noisebound.models import ModelName
from noisebound.pages.comparison_page import comparison_page
from noisebound.pages.page import write_page
from noisebound.pages.table import Table, number_cell, pivot, to_markdown
from noisebound.runs import Run, train_run
from noisebound.runs.folder import RunFolder
from noisebound.system.files import write_json, write_text
from noisebound.system.progress import track
from noisebound.training import TrainingConfig
from noisebound.training.session import alone

NOISE_RATE = 0.6
LOSSES = ("ce", "fce", "gce", "sce", "cep")
MODEL: ModelName = "mlp"  # it memorizes 1,257 digits in seconds


def run_demo(out: Path, epochs: int = 100, n_jobs: int = -1) -> dict[str, Any]:
    """Train all losses, write the table and the page, and return the content of ``table.json``.

    It has the realized noise rate, the number of training examples, a row per loss with its
    accuracies on clean test labels in percent, and the training that was not given the noise rate.
    Finished runs are not repeated. Results do not depend on ``n_jobs``, the number of processes.
    """
    splits, realized = _noisy_digits()
    train = {
        name: partial(train_run, splits, config, out / "runs" / name, resume=True, show=False)
        for name, config in _configs(epochs).items()
    }
    unfinished = [name for name in train if not RunFolder(out / "runs" / name).result.exists()]
    if unfinished:
        done = Parallel(n_jobs, batch_size=1, return_as="generator_unordered")(
            delayed(_finish)(train[name]) for name in unfinished
        )
        for _ in track(done, "training", len(unfinished)):
            pass  # each run is in its folder
    runs = {name: finished() for name, finished in train.items()}
    estimated = runs.pop("auto")
    assert estimated.recipe is not None
    rows = []
    for loss in LOSSES:
        plain, bounded = _accuracy(runs[loss]), _accuracy(runs[f"{loss}+b"])
        bound = runs[f"{loss}+b"].result.bound
        row = {"loss": loss, "bound": bound, "plain": plain, "bounded": bounded}
        rows.append(row | {"gain": bounded - plain})
    auto = {
        "noise_rate": estimated.noise.assumed_rate,
        "interval": estimated.noise.interval or (0.0, 1.0),
        "recipe": estimated.recipe.label,
        "accuracy": _accuracy(estimated),
    }
    outcome = {"noise_rate": realized, "examples": len(splits.train), "rows": rows, "auto": auto}
    write_text(out / "table.md", to_markdown(demo_table(outcome)))
    write_json(out / "table.json", outcome)
    title = f"Digits of which {NOISE_RATE:.0%} are labeled wrong"
    page = comparison_page([*runs.values(), estimated], title, "noisebound demo")
    write_page(page, out / "report.html")
    return outcome


def _configs(epochs: int) -> dict[str, TrainingConfig]:
    """Return what to train, by name; the longest training comes first."""
    auto_epochs = -(-epochs // 2)  # of 100, that is the default of fit
    configs = {"auto": TrainingConfig(recipe="auto", epochs=auto_epochs, measure_every=5)}
    for loss, bounded in product(LOSSES, ("", "+b")):
        name = f"{loss}{bounded}"
        configs[name] = TrainingConfig(
            loss=name, noise_rate=NOISE_RATE, epochs=epochs, model=MODEL, measure_every=5
        )
    return configs


def _finish(train: Callable[[], Run]) -> None:
    """Finish a run in a process of its own; the run stays in its folder."""
    alone(train)


def demo_table(outcome: Mapping[str, Any]) -> Table:
    """Return the accuracies with the noise rate given, and in words the outcome without it."""
    formats = {"bound": ".3f", "plain": ".1f", "bounded": ".1f", "gain": "+.1f"}
    cells = {
        (each["loss"], name): number_cell(each[name], form)
        for each, (name, form) in product(outcome["rows"], formats.items())
    }
    auto, (low, high) = outcome["auto"], outcome["auto"]["interval"]
    return Table(
        name="table",
        title=f"digits: {outcome['examples']} training examples, {outcome['noise_rate']:.1%} of "
        "their labels wrong; accuracy on clean test labels, %",
        header=("loss", *formats),
        rows=pivot(cells, {loss: loss.upper() for loss in LOSSES}, formats),
        summary=f"With the noise rate not given, noisebound estimates it as "
        f"{auto['noise_rate']:.1%} ({low:.1%} to {high:.1%}, {UNPREDICTABLE}), "
        f"chooses {auto['recipe']} by trials, and reaches {auto['accuracy']:.1f}.",
    )


def _noisy_digits() -> tuple[Splits, float]:
    splits = load("digits")
    generator = torch.Generator().manual_seed(0)
    labels, classes = splits.train.labels, splits.train.num_classes
    noisy = corrupt(labels, "symmetric", NOISE_RATE, classes, generator=generator)
    return replace(splits, train=splits.train.with_labels(noisy.labels)), noisy.noise_rate


def _accuracy(run: Run) -> float:
    return 100 * (run.final("test_top1") or 0.0)
