"""Audit labels whose truth is known, and see how often the interval holds the noise rate.

For suspicions that are right, and for some that are off in several ways: the root mean squared
error of 200 audits of 100 labels, the share of them within 0.05 of the true rate, the share of
their intervals that hold it, and the mean width.

    python benchmarks/audits.py
"""

import math
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from torch import Tensor

import noisebound as nb
from noisebound.data import Dataset
from noisebound.estimation import Suspects
from noisebound.estimation.trusted import audited_rate
from noisebound.review import Audit, DecisionFile, ReviewedData

EXAMPLES, ANSWERS, REPETITIONS = 3000, 100, 200


def planted() -> Iterator[tuple[str, Tensor, Tensor]]:
    """Yield a name, the log-odds that labels are said to have of being wrong, and which are."""
    generator = torch.Generator().manual_seed(0)
    for rate, spread in ((0.03, 2.5), (0.1, 2.0), (0.4, 4.0)):
        log_odds = spread * torch.randn(EXAMPLES, generator=generator).double()
        log_odds += _shift(log_odds, rate)
        wrong = torch.rand(EXAMPLES, generator=generator).double() < log_odds.sigmoid()
        noise = torch.randn(EXAMPLES, generator=generator).double()
        for name, said in {
            "right": log_odds,
            "too sure": 2.5 * log_odds,
            "too low": log_odds - 3,
            "blind": noise,
        }.items():
            yield f"planted {rate:.0%}, {name}", said, wrong


def _shift(log_odds: Tensor, rate: float) -> float:
    """Return what to add to log-odds so that their mean probability is the rate."""
    low, high = -30.0, 30.0
    for _ in range(60):
        middle = (low + high) / 2
        is_low = float((log_odds + middle).sigmoid().mean()) < rate
        low, high = (middle, high) if is_low else (low, middle)
    return low


def digits() -> Iterator[tuple[str, Tensor, Tensor]]:
    """Yield the same for digits with planted noise, by out-of-fold predictions."""
    inputs, labels = load_digits(return_X_y=True)
    true = torch.tensor(labels)
    for kind in ("symmetric", "pairwise"):
        for rate in (0.05, 0.2, 0.4):
            generator = torch.Generator().manual_seed(0)
            noisy = nb.corrupt(true, kind, rate, 10, generator=generator).labels
            model = LogisticRegression(C=0.01, max_iter=200)
            probs = cross_val_predict(model, inputs / 16, noisy.numpy(), method="predict_proba")
            suspects = nb.find_suspects(torch.tensor(probs), noisy)
            yield f"digits, {kind} {rate:.0%}", suspects.score, noisy != true


def audits(log_odds: Tensor, wrong: Tensor, folder: Path) -> Tensor:
    """Return the error, whether the interval holds, and the width of each audit."""
    labels, actual = wrong.long(), wrong.double().mean().item()
    data = ReviewedData(Dataset(torch.zeros(len(labels), 1), labels, ("right", "wrong")))
    file, suspects = DecisionFile(folder / "none.jsonl", data), Suspects(log_odds, 1 - labels)
    probs = torch.full((len(labels), 2), 0.5).double()
    rows = []
    for seed in range(REPETITIONS):
        audit = Audit(probs, suspects, file, seed=seed)
        told = [file.make(each, "right", where="audit") for each in audit.next(ANSWERS)]
        at = torch.tensor([each.position for each in told])
        suspicion, weights = suspects.probability, audit.weights(told)
        found = audited_rate(wrong[at], suspicion[at], suspicion, weights)
        low, high = found.interval
        rows.append((found.rate - actual, float(low <= actual <= high), high - low))
    return torch.tensor(rows)


def main() -> None:
    """Print a table."""
    print("| suspicions | root mean squared error | within 0.05 | intervals hold | width |")
    print("|---|---|---|---|---|")
    every = []
    with TemporaryDirectory() as folder:
        for source in (planted(), digits()):
            for name, log_odds, wrong in source:
                found = audits(log_odds, wrong, Path(folder))
                every.append(found)
                print(f"| {name} | {_cells(found)} |", flush=True)
    print(f"| all | {_cells(torch.cat(every))} |")


def _cells(found: Tensor) -> str:
    errors, holds, widths = found.T
    root = math.sqrt(float((errors**2).mean()))
    close = float((errors.abs() <= 0.05).double().mean())
    return f"{root:.4f} | {close:.1%} | {holds.mean():.1%} | {widths.mean():.3f}"


if __name__ == "__main__":
    main()
