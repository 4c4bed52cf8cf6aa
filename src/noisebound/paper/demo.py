"""The demo: digits with 60 % wrong labels, learned by five losses, plain and bounded."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean

import torch

from noisebound.corruption import corrupt
from noisebound.data import Splits, load
from noisebound.estimation.estimate import UNPREDICTABLE
from noisebound.models import ModelName
from noisebound.pages.comparison_page import comparison_page
from noisebound.pages.run_page import memorizing_since, run_page
from noisebound.pages.training_plots import draw_loss_against_floor
from noisebound.report.page import Fact, Page, write_page
from noisebound.report.plots import one_panel, save_figure
from noisebound.runs import Run, load_run, train_run
from noisebound.system.files import write_text
from noisebound.training import TrainingConfig

NOISE_RATE = 0.6
LOSSES = ("ce", "fce", "gce", "sce", "cep")
MODEL: ModelName = "mlp"  # it memorizes 1,257 digits in seconds


@dataclass(frozen=True)
class Row:
    """A loss without and with its bound.

    Args:
        loss: the name of the loss
        bound: its noise-bound
        plain: the accuracy on clean test labels without the bound, in percent, of the averaged
            weights after the last epoch
        bounded: the same with the bound
    """

    loss: str
    bound: float
    plain: float
    bounded: float

    @property
    def gain(self) -> float:
        """The percentage points that the bound adds."""
        return self.bounded - self.plain


@dataclass(frozen=True)
class Auto:
    """The training that is not given the noise rate.

    Args:
        noise_rate: the estimated noise rate
        interval: its interval at 95 % confidence
        recipe: the chosen recipe, in words
        accuracy: the accuracy on clean test labels, in percent
    """

    noise_rate: float
    interval: tuple[float, float]
    recipe: str
    accuracy: float


@dataclass(frozen=True)
class Demo:
    """The outcome of the demo.

    Args:
        noise_rate: the realized noise rate
        examples: the number of training examples
        rows: one row per loss, with the noise rate given
        auto: the training that estimates the noise rate
    """

    noise_rate: float
    examples: int
    rows: tuple[Row, ...]
    auto: Auto

    def to_json(self) -> str:
        """Return the outcome for a program."""
        rows = [asdict(row) | {"gain": row.gain} for row in self.rows]
        return json.dumps(asdict(self) | {"rows": rows}, indent=2)

    def to_text(self) -> str:
        """Return the outcome for a terminal."""
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
        low, high = self.auto.interval
        lines.append(
            f"with the noise rate not given, noisebound estimates it as "
            f"{self.auto.noise_rate:.1%} ({low:.1%} to {high:.1%}, "
            f"{UNPREDICTABLE}),"
        )
        lines.append(
            f"chooses a recipe by trials ({self.auto.recipe}) and reaches {self.auto.accuracy:.1f}"
        )
        return "\n".join(lines)

    def to_markdown(self) -> str:
        """Return the table for a page."""
        lines = ["| loss | bound | plain | bounded | gain |", "|---|---|---|---|---|"]
        lines += [
            f"| {row.loss.upper()} | {row.bound:.3f} | {row.plain:.1f} | {row.bounded:.1f} | "
            f"{row.gain:+.1f} |"
            for row in self.rows
        ]
        return "\n".join(lines) + "\n"


def run_demo(out: Path, epochs: int = 100) -> Demo:
    """Train all losses, and write the table and the page; finished runs are not repeated.

    Args:
        out: the folder for the table, the page and the runs
        epochs: the number of epochs of each training
    """
    splits, realized = noisy_digits()
    names = [name + suffix for name in LOSSES for suffix in ("", "+b")]
    results = {}
    for name in names:
        config = TrainingConfig(loss=name, noise_rate=NOISE_RATE, epochs=epochs, model=MODEL)
        results[name] = train_run(splits, config, out / "runs" / name, resume=True)
    rows = tuple(
        Row(
            name,
            results[f"{name}+b"].result.bound or float("nan"),
            *(_accuracy(results[name + suffix]) for suffix in ("", "+b")),
        )
        for name in LOSSES
    )
    config = TrainingConfig(recipe="auto", epochs=epochs, model=MODEL)
    estimated = train_run(splits, config, out / "runs" / "auto", resume=True)
    outcome = Demo(realized, len(splits.train), rows, _auto(estimated))
    for file, text in (("table.md", outcome.to_markdown()), ("table.json", outcome.to_json())):
        write_text(out / file, text)
    _plot(out)
    write_page(_page(outcome, out / "runs", names, splits), out / "report.html")
    return outcome


def noisy_digits() -> tuple[Splits, float]:
    """Return the digits with symmetric noise, and the realized noise rate."""
    splits = load("digits")
    noisy = corrupt(
        splits.train.labels,
        "symmetric",
        NOISE_RATE,
        splits.train.num_classes,
        generator=torch.Generator().manual_seed(0),
    )
    return replace(splits, train=splits.train.with_labels(noisy.labels)), noisy.noise_rate


def _accuracy(run: Run) -> float:
    """Return the accuracy on clean test labels in percent."""
    return 100 * (run.final("test_top1") or 0.0)


def _auto(run: Run) -> Auto:
    assert run.recipe is not None
    interval = run.noise.interval or (0.0, 1.0)
    return Auto(run.noise.assumed_rate, interval, run.recipe.label, _accuracy(run))


def _plot(out: Path) -> None:
    bounded, plain = (load_run(out / "runs" / name) for name in ("ce+b", "ce"))
    figure, axes = one_panel()
    histories = {"CE, bounded": bounded.epochs, "CE": plain.epochs}
    draw_loss_against_floor(axes, histories, bounded.floor, memorizing_since(plain))
    save_figure(figure, out / "training.png")


def _page(outcome: Demo, runs: Path, names: Sequence[str], splits: Splits) -> Page:
    """Return the page: plain against bounded, then the training that estimated the noise."""
    title = f"Digits of which {NOISE_RATE:.0%} are labeled wrong"
    given = comparison_page([load_run(runs / name) for name in names], title, "noisebound demo")
    *sections, repeat = given.sections
    *found, _ = run_page(load_run(runs / "auto"), splits).sections
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
