"""The demo: five losses, plain and bounded, on digits with 60 % wrong labels."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from pydantic import BaseModel, computed_field

from noisebound.corruption import corrupt
from noisebound.data import Splits, load
from noisebound.estimation.estimate import UNPREDICTABLE
from noisebound.models import ModelName
from noisebound.pages.comparison_page import comparison_page
from noisebound.pages.run_page import memorizing_since, run_page
from noisebound.pages.training_plots import draw_loss_against_floor
from noisebound.report.page import Fact, Page, write_page
from noisebound.report.plots import one_panel, save_figure
from noisebound.runs import Run, train_run
from noisebound.system.files import write_text
from noisebound.training import TrainingConfig

NOISE_RATE = 0.6
LOSSES = ("ce", "fce", "gce", "sce", "cep")
MODEL: ModelName = "mlp"  # it memorizes 1,257 digits in seconds


class Row(BaseModel):
    """The accuracies of a loss without and with its bound, on clean test labels, in percent."""

    loss: str
    bound: float
    plain: float
    bounded: float

    @computed_field
    def gain(self) -> float:
        """The gain from the bound, in percentage points."""
        return self.bounded - self.plain


class Auto(BaseModel):
    """The training that estimates the noise rate: its estimate, recipe and accuracy."""

    noise_rate: float
    interval: tuple[float, float]
    recipe: str
    accuracy: float


class Demo(BaseModel):
    """The outcome of the demo."""

    noise_rate: float  # realized
    examples: int  # for training
    rows: tuple[Row, ...]  # one per loss, with the noise rate given
    auto: Auto

    def to_json(self) -> str:
        """Return the outcome as JSON."""
        return self.model_dump_json(indent=2)

    def to_text(self) -> str:
        """Return the outcome as text for a terminal."""
        lines = [
            f"digits: {self.examples} training examples, {self.noise_rate:.1%} of their labels "
            "wrong; accuracy on clean test labels, %",
            f"{'loss':<6}{'bound':>8}{'plain':>9}{'bounded':>9}{'gain':>8}",
        ]
        lines += [
            f"{row.loss.upper():<6}{row.bound:>8.3f}{row.plain:>9.1f}{row.bounded:>9.1f}"
            f"{row.gain:>+8.1f}"
            for row in self.rows
        ]
        auto, (low, high) = self.auto, self.auto.interval
        lines += [
            f"with the noise rate not given, noisebound estimates it as "
            f"{auto.noise_rate:.1%} ({low:.1%} to {high:.1%}, {UNPREDICTABLE}),",
            f"chooses a recipe by trials ({auto.recipe}) and reaches {auto.accuracy:.1f}",
        ]
        return "\n".join(lines)

    def to_markdown(self) -> str:
        """Return the table as Markdown."""
        lines = ["| loss | bound | plain | bounded | gain |", "|---|---|---|---|---|"]
        lines += [
            f"| {row.loss.upper()} | {row.bound:.3f} | {row.plain:.1f} | {row.bounded:.1f} | "
            f"{row.gain:+.1f} |"
            for row in self.rows
        ]
        return "\n".join(lines) + "\n"


def run_demo(out: Path, epochs: int = 100) -> Demo:
    """Train all losses, and write the table and the page; finished runs are not repeated."""
    splits, realized = _noisy_digits()

    def trained(name: str, config: TrainingConfig) -> Run:
        return train_run(splits, config, out / "runs" / name, resume=True)

    shared: dict[str, Any] = {"epochs": epochs, "model": MODEL}
    runs = {
        name: trained(name, TrainingConfig(loss=name, noise_rate=NOISE_RATE, **shared))
        for loss in LOSSES
        for name in (loss, f"{loss}+b")
    }
    rows = tuple(
        Row(
            loss=loss,
            bound=runs[f"{loss}+b"].result.bound or float("nan"),
            plain=_accuracy(runs[loss]),
            bounded=_accuracy(runs[f"{loss}+b"]),
        )
        for loss in LOSSES
    )
    estimated = trained("auto", TrainingConfig(recipe="auto", **shared))
    assert estimated.recipe is not None
    auto = Auto(
        noise_rate=estimated.noise.assumed_rate,
        interval=estimated.noise.interval or (0.0, 1.0),
        recipe=estimated.recipe.label,
        accuracy=_accuracy(estimated),
    )
    outcome = Demo(noise_rate=realized, examples=len(splits.train), rows=rows, auto=auto)
    write_text(out / "table.md", outcome.to_markdown())
    write_text(out / "table.json", outcome.to_json())
    _plot(runs["ce+b"], runs["ce"], out / "training.png")
    write_page(_page(outcome, [*runs.values()], estimated, splits), out / "report.html")
    return outcome


def _noisy_digits() -> tuple[Splits, float]:
    """Return the digits with symmetric noise, and the realized noise rate."""
    splits = load("digits")
    generator = torch.Generator().manual_seed(0)
    labels, classes = splits.train.labels, splits.train.num_classes
    noisy = corrupt(labels, "symmetric", NOISE_RATE, classes, generator=generator)
    return replace(splits, train=splits.train.with_labels(noisy.labels)), noisy.noise_rate


def _accuracy(run: Run) -> float:
    return 100 * (run.final("test_top1") or 0.0)


def _plot(bounded: Run, plain: Run, path: Path) -> None:
    figure, axes = one_panel()
    histories = {"CE, bounded": bounded.epochs, "CE": plain.epochs}
    draw_loss_against_floor(axes, histories, bounded.floor, memorizing_since(plain))
    save_figure(figure, path)


def _page(outcome: Demo, runs: Sequence[Run], estimated: Run, splits: Splits) -> Page:
    """Return the page: plain and bounded trainings, then the one that estimated the noise."""
    title = f"Digits of which {NOISE_RATE:.0%} are labeled wrong"
    given = comparison_page(runs, title, "noisebound demo")
    *sections, repeat = given.sections
    *found, _ = run_page(estimated, splits).sections
    sections += [replace(section, title=f"Noise not given: {section.title}") for section in found]
    auto = outcome.auto
    low, high = auto.interval
    words = f"{given.headline} With the noise rate not given, noisebound estimates that "
    words += f"{auto.noise_rate:.1%} of the labels are wrong, chooses a recipe by trials "
    words += f"({auto.recipe}), and reaches an accuracy of {auto.accuracy:.1f}% on the test set."
    plain = mean(row.plain for row in outcome.rows)
    bounded = mean(row.bounded for row in outcome.rows)
    facts = [
        Fact(f"{plain:.1f}%", "accuracy on the test set without the bound, on average"),
        Fact(f"{bounded:.1f}%", "accuracy with the bound, on average"),
        Fact(f"{auto.accuracy:.1f}%", "accuracy with the noise rate not given"),
        Fact(f"{auto.noise_rate:.1%}", f"estimated noise rate ({low:.1%} to {high:.1%})"),
        Fact(f"{outcome.noise_rate:.1%}", "true noise rate"),
    ]
    return Page(title, words, [*sections, repeat], facts)
