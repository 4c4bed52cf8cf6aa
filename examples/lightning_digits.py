"""Train on digits with 60% wrong labels with Lightning: a callback bounds an ordinary module.

In a checkout, run ``pip install -c constraints.txt '.[lightning]'`` and then
``python examples/lightning_digits.py``. The script trains twice, without and with the bound, and
prints what the callbacks observed. The bounding callback also averages the weights;
``average_epochs=0`` would keep the last ones.
"""

import argparse
import logging
import warnings

import lightning.pytorch as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import noisebound as nb
from noisebound.data import Normalization, load
from noisebound.integrations.lightning import MemorizationCallback, NoiseBoundCallback

NOISE_RATE, NUM_CLASSES, BATCH = 0.6, 10, 300
BOUND = nb.noise_bound(nb.SymmetricCrossEntropy(), NOISE_RATE, NUM_CLASSES)


class Digits(pl.LightningModule):
    """An ordinary classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(64, 128),
            nn.ReLU(),
            nn.Linear(128, 128),
            nn.ReLU(),
            nn.Linear(128, NUM_CLASSES),
        )
        self.loss = nb.SymmetricCrossEntropy()

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        """Return the plain mean loss."""
        images, labels = batch
        return self.loss(self.net(images), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the Adam optimizer."""
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(epochs: int) -> None:
    """Print the accuracy on clean test labels, plain and bounded."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", ".*does not have many workers")
    digits = load("digits")
    normalize = Normalization.of(digits.train.inputs)
    noisy = nb.corrupt(
        digits.train.labels, "symmetric", NOISE_RATE, NUM_CLASSES,
        generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    data = TensorDataset(normalize(digits.train.inputs).flatten(1), noisy.labels)
    bounding, watching = NoiseBoundCallback(BOUND), MemorizationCallback(floor=BOUND)
    for name, callback in {"plain": watching, "bounded": bounding}.items():
        pl.seed_everything(0, verbose=False)
        model = Digits()
        trainer = pl.Trainer(
            accelerator="cpu", max_epochs=epochs, callbacks=[callback], logger=False,
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        )  # fmt: skip
        trainer.fit(model, DataLoader(data, BATCH, shuffle=True, drop_last=True))
        test_images = normalize(digits.test.inputs).flatten(1)
        hits = model.net(test_images).argmax(1) == digits.test.labels
        print(f"{name}: accuracy on clean test labels {hits.float().mean():.1%}")
    print(f"plain: below the floor {BOUND:.3f} since epoch {watching.monitor.memorizing_since}")
    print(f"bounded: {bounding.share_below:.0%} of the steps uphill")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=200)
    main(parser.parse_args().epochs)
