"""Trains with several methods on some ranks. See test_ranks.py."""

import os
from pathlib import Path

from lightning_fabric import Fabric

from noisebound.runs import train_run
from noisebound.training import TrainingConfig
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
    fabric.barrier()
    if fabric.world_size == 1:
        return
    if fabric.is_global_zero:  # alone: the other has left, so a reduction would fail
        config = TrainingConfig(loss="ce+b", noise_rate=NOISE_RATE, epochs=2, accumulate=2)
        train_run(noisy_clouds(), config, out / "alone")
    os._exit(0)  # gloo's threads can abort the interpreter's shutdown
