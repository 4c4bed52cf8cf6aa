"""A page about trainings, as ``fit`` leaves them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noisebound.report.page import Code, Page, Picture, Section
from noisebound.report.plots import training_figure
from noisebound.training.metrics import Metrics, read_metrics
from noisebound.training.run_folder import RunFolder


@dataclass(frozen=True)
class _Fit:
    """A folder that `noisebound.training.fit` wrote."""

    name: str
    config: dict[str, Any]
    history: list[Metrics]

    @staticmethod
    def read(path: Path) -> "_Fit":
        folder = RunFolder(path)
        try:
            config = json.loads(folder.config.read_text(encoding="utf-8"))
            config["loss"]
        except (FileNotFoundError, json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"{folder.config} is not the config of a training") from error
        return _Fit(path.resolve().name, config, read_metrics(folder.metrics))


def training_page(paths: Sequence[Path]) -> Page:
    """Each with its losses, its accuracies and its config."""
    fits = [_Fit.read(path) for path in paths]
    fits = [fit for fit in fits if fit.history]
    if not fits:
        raise ValueError(f"{paths[0]} has not finished an epoch yet")
    title = fits[0].name if len(fits) == 1 else f"{len(fits)} trainings"
    return Page(
        title,
        _in_words(fits[0]) if len(fits) == 1 else "Each with its training loss and its floor.",
        [
            Section(
                fit.name,
                "" if len(fits) == 1 else _in_words(fit),
                pictures=[Picture(training_figure(fit.history), f"Training of {fit.name}")],
                code=[Code("config", json.dumps(fit.config, indent=2))],
            )
            for fit in fits
        ],
    )


def _in_words(fit: _Fit) -> str:
    final = fit.history[-1]
    words = f"{fit.config['loss']} after {final['epoch']} epochs: training loss "
    words += f"{final['train_loss']:.3f}"
    if final["bound"] is not None:
        words += f" with a floor at {final['bound']:.3f}"
    for name, text in (
        ("validation_top1", "right on held-out examples, whose labels are noisy too"),
        ("test_top1", "right on the test set"),
        ("memorized", "of the wrong labels reproduced"),
    ):
        value = final.get(f"averaged_{name}", final.get(name))
        words += "" if value is None else f"; {value:.1%} {text}"
    return words + "."
