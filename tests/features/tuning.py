"""Encoders that are quick to fine-tune, and runs that do it on several ranks.

``tuning.py DEVICES OUT MODEL_FOLDER`` trains an encoder of images and one of texts.
"""

import sys
from pathlib import Path

import polars as pl
import torch
from lightning_fabric import Fabric

import noisebound as nb
from noisebound.training.devices import leave_ranks
from training_data import noisy_images

EXACT = {
    "loss": "ce+b",
    "bound": 1.2,  # between the first loss and the last, so that steps go both ways
    "noise_rate": None,
    "model": "linear",
    "epochs": 4,
    "batch_size": 14,
    "learning_rate": 2e-2,
    "show": False,
    "report": False,
}


class SmallEncoder(torch.nn.Module):
    """Vectors of gray images of 8×8 pixels, with batch norm and a layer that is not used."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3, stride=2),
            torch.nn.BatchNorm2d(4),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(36, 6),
        )
        self.unused = torch.nn.Linear(2, 2)
        for weight in self.parameters():
            torch.nn.init.normal_(weight, std=0.3, generator=generator)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images)


def texts_and_numbers() -> pl.DataFrame:
    """Return 24 texts of several lengths with a number beside each, of two classes."""
    animals, money = "The dog barks at a cat.", "Shares fell on Monday."
    return pl.DataFrame(
        {
            "text": [(animals if k % 2 else money) + " And so on." * (k % 5) for k in range(24)],
            "stars": [float((7 * k) % 10) for k in range(24)],
            "label": ["animals" if k % 2 else "money" for k in range(24)],
        }
    )


def tune_images(out: Path, **settings: object) -> nb.Run:
    """Fine-tune the small encoder."""
    settings = {"encoder_rate": 0.5, **EXACT, **settings}
    return nb.fit(noisy_images(), out=out, backbone=SmallEncoder(), unfreeze=True, **settings)


def tune_texts(out: Path, folder: Path, **settings: object) -> nb.Run:
    """Fine-tune a transformer, with a column of numbers beside its texts."""
    settings = {**EXACT, "bound": 0.6, "epochs": 3, "batch_size": 10, **settings}
    return nb.fit(
        texts_and_numbers(),
        out=out,
        target="label",
        text="text",
        backbone=f"hf:{folder}",
        unfreeze=True,
        **settings,
    )


def main(devices: int, out: Path, folder: Path) -> None:
    fabric = Fabric(accelerator="cpu", devices=devices, precision="64-true")
    fabric.launch()
    tune_images(out / "images", fabric=fabric)
    tune_texts(out / "texts", folder, fabric=fabric)
    leave_ranks(fabric)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
