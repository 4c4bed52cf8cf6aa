"""Trains a small module on the ranks that torchrun starts: ``lightning_ranks.py OUT BOUND…``.

See test_lightning.py, which takes the module and its data from here, too.
"""

import os
import sys
import warnings
from pathlib import Path

import lightning.pytorch as pl
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import noisebound as nb
from noisebound.integrations.lightning import MemorizationCallback, NoiseBoundCallback

FEATURES, CLASSES, STEPS, BATCH = 6, 4, 6, 16
EPOCHS = 2


class Classifier(pl.LightningModule):
    """Returns the value of its criterion, by default the plain mean loss."""

    def __init__(self, criterion: nn.Module | None = None) -> None:
        super().__init__()
        self.criterion = nb.CrossEntropy() if criterion is None else criterion
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.net = nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, CLASSES))
        self.double()

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor | dict:
        inputs, labels = batch
        return self.criterion(self.net(inputs), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """With momentum, and a weight decay that the bound must not flip."""
        return torch.optim.SGD(self.net.parameters(), lr=0.3, momentum=0.5, weight_decay=0.01)


def batches_of(size: int, num_batches: int = STEPS) -> DataLoader:
    generator = torch.Generator().manual_seed(1)
    n = num_batches * BATCH
    inputs = torch.randn(n, FEATURES, generator=generator, dtype=torch.float64)
    data = TensorDataset(inputs, torch.randint(CLASSES, (n,), generator=generator))
    return DataLoader(data, batch_size=size)


def make_trainer(folder: Path, *callbacks: pl.Callback, **options: object) -> pl.Trainer:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    defaults = {"accelerator": "cpu", "max_epochs": EPOCHS, "enable_checkpointing": False}
    return pl.Trainer(
        default_root_dir=folder, callbacks=list(callbacks), **{**quiet, **defaults, **options}
    )


def train(bound: float, out: Path) -> None:
    """Train on two micro-batches per rank, which together are one batch of ``BATCH``."""
    callback, monitor = (
        NoiseBoundCallback(bound, average_epochs=0),
        MemorizationCallback(floor=bound),
    )
    model, data = Classifier(), batches_of(BATCH).dataset
    rank = int(os.environ["RANK"])
    trainer = make_trainer(
        out,
        callback,
        monitor,
        devices=2,
        strategy="ddp",
        accumulate_grad_batches=2,
        use_distributed_sampler=False,  # Lightning's own shuffles
    )
    sampler = DistributedSampler(data, num_replicas=2, rank=rank, shuffle=False)
    trainer.fit(model, DataLoader(data, BATCH // 4, sampler=sampler))
    readings = {name: value.item() for name, value in trainer.callback_metrics.items()}
    result = (model.net.state_dict(), callback.share_below, readings)
    torch.save(result, out / f"{bound}-rank{rank}.pt")


def main(out: Path, bounds: list[float]) -> None:
    warnings.simplefilter("ignore")
    for bound in bounds:
        train(bound, out)
    # Not by the interpreter's shutdown, which gloo's threads can abort: see training/devices.py.
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [float(bound) for bound in sys.argv[2:]])
