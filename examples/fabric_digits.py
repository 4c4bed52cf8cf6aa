"""Train on digits with 60% wrong labels in two processes with Lightning Fabric and ``StepBound``.

Run ``python examples/fabric_digits.py``, or add ``--devices 1`` for one process. Each step has two
micro-batches per device, and the mean loss over all of them decides its sign.
"""

import argparse

import torch
from lightning_fabric import Fabric
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import noisebound as nb
from noisebound.data import Normalization, load
from noisebound.training.devices import leave_ranks

NOISE_RATE, NUM_CLASSES, BATCH, MICRO_BATCHES = 0.6, 10, 300, 2


def main(devices: int, epochs: int) -> None:
    """Train and print the accuracy on clean test labels."""
    fabric = Fabric(accelerator="cpu", devices=devices)
    fabric.launch()

    digits = load("digits")
    normalize = Normalization.of(digits.train.inputs)
    noisy = nb.corrupt(
        digits.train.labels, "symmetric", NOISE_RATE, NUM_CLASSES,
        generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    data = TensorDataset(normalize(digits.train.inputs).flatten(1), noisy.labels)
    loader = fabric.setup_dataloaders(
        DataLoader(data, BATCH // devices // MICRO_BATCHES, shuffle=True, drop_last=True)
    )

    fabric.seed_everything(0)
    plain_model = nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, NUM_CLASSES)
    )
    plain_optimizer = torch.optim.Adam(plain_model.parameters(), lr=1e-3)
    model, optimizer = fabric.setup(plain_model, plain_optimizer)

    loss = nb.SymmetricCrossEntropy()
    bound = nb.noise_bound(loss, NOISE_RATE, NUM_CLASSES)
    step_bound = nb.StepBound(plain_optimizer, bound)
    averaged = nb.AveragedWeights(plain_model, steps=5 * len(loader) / MICRO_BATCHES)  # 5 epochs

    for _ in range(epochs):
        for number, (images, labels) in enumerate(loader, start=1):
            is_last = number % MICRO_BATCHES == 0
            with fabric.no_backward_sync(model, enabled=not is_last):
                mean = loss(model(images), labels)
                step_bound.observe(mean, count=len(labels))
                fabric.backward(mean / MICRO_BATCHES)
            if is_last:
                optimizer.step()  # goes uphill if the mean over all devices is below the bound
                optimizer.zero_grad()
                averaged.update_parameters(plain_model)
        optimizer.zero_grad()  # drop what an odd number of micro-batches leaves over

    hits = averaged(normalize(digits.test.inputs).flatten(1)).argmax(1) == digits.test.labels
    fabric.print(
        f"{fabric.world_size} processes, bound {bound:.3f}, {step_bound.share_below:.0%} of the "
        f"steps uphill, accuracy on clean test labels {hits.float().mean():.1%}"
    )
    leave_ranks(fabric)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=200)
    arguments = parser.parse_args()
    main(arguments.devices, arguments.epochs)
