"""The demo, for two epochs: it runs, and prints a row for each loss."""

import runpy
from pathlib import Path

import torch

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits.py"


def test_prints_a_row_for_each_loss(capsys):
    names = runpy.run_path(str(EXAMPLE), run_name="digits")
    names["main"].__globals__["EPOCHS"] = 2
    names["main"]()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("digits: 1257 training images")
    assert [line.split()[0].lower() for line in lines[2:]] == list(names["NAMES"])


def test_noise_has_the_rate_and_never_keeps_the_label():
    names = runpy.run_path(str(EXAMPLE), run_name="digits")
    labels = torch.arange(100_000) % 10
    noisy = names["with_symmetric_noise"](labels, torch.Generator().manual_seed(0))
    # Three standard deviations of the share of 100,000 independent draws.
    assert abs((noisy != labels).float().mean() - 0.6) < 3 * (0.24 / 100_000) ** 0.5
