"""Evaluate bounding and averaging on 10,000 images of FashionMNIST with 40% wrong labels.

The network is an MLP 784-512-512-10, trained with Adam at 3e-4 for 50 epochs in batches of 300,
without validation data. Each of three seeds has its own images, noise and weights. The table shows
the clean test accuracy after the last epoch. It takes fifteen minutes; finished runs are reused.

    python benchmarks/accuracy.py --data-dir … --out accuracy
"""

import argparse
import statistics
from dataclasses import replace
from pathlib import Path

import torch

import noisebound as nb
from noisebound.data import Splits, load
from noisebound.runs import train_run
from noisebound.training import TrainingConfig

RATE, SEEDS, LOSSES = 0.4, (0, 1, 2), ("ce", "gce", "sce", "fce", "cep")


def noisy_splits(whole: Splits, seed: int) -> Splits:
    """Return 10,000 training images with symmetric noise in their labels."""
    train = whole.train.take(10_000, seed)
    generator = torch.Generator().manual_seed(seed)
    noisy = nb.corrupt(train.labels, "symmetric", RATE, train.num_classes, generator=generator)
    return replace(whole, train=train.with_labels(noisy.labels))


def main() -> None:
    """Train all losses and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("accuracy"))
    options = parser.parse_args()
    whole = load("fashion-mnist", data_dir=options.data_dir)
    found: dict[str, list[str]] = {}
    for loss in (name + suffix for name in LOSSES for suffix in ("", "+b")):
        finals = []
        for seed in SEEDS:
            config = TrainingConfig(
                loss=loss,
                noise_rate=RATE,
                model="mlp",
                epochs=50,
                learning_rate=3e-4,
                validation_share=0,
                seed=seed,
            )
            folder = options.out / str(seed) / loss
            run = train_run(noisy_splits(whole, seed), config, folder, resume=True)
            finals.append(run.result.final.model_dump())
        found[loss] = [
            f"{statistics.mean(shares):.1f} ± {statistics.stdev(shares):.1f}"
            for shares in (
                [100 * final[name] for final in finals]
                for name in ("test_top1", "averaged_test_top1", "memorized")
            )
        ]
    print("| loss | last epoch | averaged weights | wrong labels reproduced, last epoch |")
    print("|---|---|---|---|")
    for loss, columns in found.items():
        print(f"| {loss} | {' | '.join(columns)} |")


if __name__ == "__main__":
    main()
