"""Trains with several methods on some ranks: ``two_ranks.py DEVICES OUT``. See test_ranks.py."""

import sys
from pathlib import Path

from lightning_fabric import Fabric

from noisebound.runs import train_run
from noisebound.training import TrainingConfig
from noisebound.training.devices import leave_ranks
from training_data import NOISE_RATE, noisy_clouds, noisy_images

METHODS = ("ce+b", "sce+b", "ce", "elr", "truncated", "fce+b")


def main(devices: int, out: Path) -> None:
    fabric = Fabric(accelerator="cpu", devices=devices, precision="64-true")
    fabric.launch()
    for loss in METHODS:
        config = TrainingConfig(
            loss=loss,
            noise_rate="auto" if loss == "fce+b" else NOISE_RATE,
            epochs=52 if loss == "truncated" else 10,  # it prunes at 40 and 50
            batch_size=31,  # of 108: uneven in every way
            accumulate=2,
            learning_rate=1e-2,
        )
        train_run(noisy_clouds(), config, out / loss, fabric=fabric)
    config = TrainingConfig(
        loss="ce+b", model="small_cnn", noise_rate=NOISE_RATE, epochs=4, batch_size=11
    )
    train_run(noisy_images(), config, out / "batch-norm", fabric=fabric)
    leave_ranks(fabric)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
