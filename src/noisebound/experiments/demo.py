"""Digits with 60 % wrong labels: five losses, plain and bounded."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from matplotlib.figure import Figure

from noisebound.corruption import corrupt
from noisebound.data import Splits, load
from noisebound.data.folders import written_whole
from noisebound.report.plots import draw_loss_against_floor, save_figure
from noisebound.training import TrainingConfig, fit
from noisebound.training.metrics import read_metrics

NOISE_RATE = 0.6
LOSSES = ("ce", "fce", "gce", "sce", "cep")


@dataclass(frozen=True)
class Row:
    """Accuracies on clean test labels after the last epoch, averaged weights, in percent."""

    loss: str
    bound: float
    plain: float
    bounded: float

    @property
    def gain(self) -> float:
        """What the bound adds."""
        return self.bounded - self.plain


@dataclass(frozen=True)
class Demo:
    """A row for each loss."""

    noise_rate: float
    examples: int
    rows: tuple[Row, ...]

    def to_json(self) -> str:
        """For a program."""
        rows = [asdict(row) | {"gain": row.gain} for row in self.rows]
        return json.dumps(asdict(self) | {"rows": rows}, indent=2)

    def to_text(self) -> str:
        """For a terminal."""
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
        return "\n".join(lines)

    def to_markdown(self) -> str:
        """For a page."""
        lines = ["| loss | bound | plain | bounded | gain |", "|---|---|---|---|---|"]
        lines += [
            f"| {row.loss.upper()} | {row.bound:.3f} | {row.plain:.1f} | {row.bounded:.1f} | "
            f"{row.gain:+.1f} |"
            for row in self.rows
        ]
        return "\n".join(lines) + "\n"


def run_demo(out: Path, epochs: int = 100) -> Demo:
    """Train all ten, and write the table and the picture; finished runs are not repeated."""
    splits, realized = noisy_digits()
    names = [name + suffix for name in LOSSES for suffix in ("", "+b")]
    results = {}
    for name in names:
        config = TrainingConfig(loss=name, noise_rate=NOISE_RATE, epochs=epochs)
        results[name] = fit(splits, config, out / "runs" / name, resume=True)
    rows = tuple(
        Row(
            name,
            results[f"{name}+b"].bound or float("nan"),
            *(100 * results[name + suffix].final["averaged_test_top1"] for suffix in ("", "+b")),
        )
        for name in LOSSES
    )
    outcome = Demo(realized, len(splits.train), rows)
    for file, text in (("table.md", outcome.to_markdown()), ("table.json", outcome.to_json())):
        with written_whole(out / file) as part:
            part.write_text(text, encoding="utf-8")
    _plot(out)
    return outcome


def noisy_digits() -> tuple[Splits, float]:
    """The digits with symmetric noise, and its rate as it turned out."""
    splits = load("digits")
    noisy = corrupt(
        splits.train.labels,
        "symmetric",
        NOISE_RATE,
        splits.train.num_classes,
        generator=torch.Generator().manual_seed(0),
    )
    return replace(splits, train=splits.train.with_labels(noisy.labels)), noisy.noise_rate


def _plot(out: Path) -> None:
    histories = {
        label: read_metrics(out / "runs" / name / "metrics.jsonl")
        for label, name in (("CE", "ce"), ("CE, bounded", "ce+b"))
    }
    figure = Figure(figsize=(6, 4), layout="constrained")
    draw_loss_against_floor(figure.subplots(), histories)
    save_figure(figure, out / "training.png")
