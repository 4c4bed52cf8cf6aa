"""Train on digits with 60% wrong labels in two processes with ``torchrun`` and ``StepBound``.

Run ``torchrun --standalone --nproc-per-node 2 examples/torchrun_digits.py``. ``StepBound`` reduces
two numbers per step; the rest is DistributedDataParallel as PyTorch documents it.
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import noisebound as nb
from noisebound.data import Normalization, load

NOISE_RATE, NUM_CLASSES, BATCH = 0.6, 10, 300


def main(epochs: int) -> None:
    """Train and print the accuracy on clean test labels."""
    dist.init_process_group("gloo")

    digits = load("digits")
    normalize = Normalization.of(digits.train.inputs)
    noisy = nb.corrupt(
        digits.train.labels, "symmetric", NOISE_RATE, NUM_CLASSES,
        generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    data = TensorDataset(normalize(digits.train.inputs).flatten(1), noisy.labels)
    sampler: DistributedSampler[tuple[torch.Tensor, ...]] = DistributedSampler(data, seed=0)
    loader = DataLoader(data, BATCH // dist.get_world_size(), sampler=sampler)

    torch.manual_seed(0)
    plain_model = nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, NUM_CLASSES)
    )
    model = DistributedDataParallel(plain_model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    loss = nb.SymmetricCrossEntropy()
    bound = nb.noise_bound(loss, NOISE_RATE, NUM_CLASSES)
    step_bound = nb.StepBound(optimizer, bound)
    averaged = nb.AveragedWeights(plain_model, steps=5 * len(loader))  # 5 epochs

    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            mean = loss(model(images), labels)
            step_bound.observe(mean, count=len(labels))
            mean.backward()
            optimizer.step()  # goes uphill if the mean over all processes is below the bound
            averaged.update_parameters(plain_model)

    if dist.get_rank() == 0:
        hits = averaged(normalize(digits.test.inputs).flatten(1)).argmax(1) == digits.test.labels
        print(
            f"{dist.get_world_size()} processes, bound {bound:.3f}, {step_bound.share_below:.0%} "
            f"of the steps uphill, accuracy on clean test labels {hits.float().mean():.1%}",
            flush=True,
        )
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # gloo's threads sometimes abort during Python's normal shutdown


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=200)
    main(parser.parse_args().epochs)
