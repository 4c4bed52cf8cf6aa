"""Time the forward and backward pass of each loss, as a ratio to ``F.cross_entropy``.

In every round, each loss gets one turn, in random order, so that other load on the machine affects
all alike; a ratio compares medians over the rounds. A turn is five steps timed together;
``--turn 1`` times single steps, whose caches another loss has filled. Peak memory is in multiples
of the size of the logits. For comparison there are styles found in published code: softmax,
one-hot, clamp, sort, matmul.

    make bench                                    # both sizes, as in benchmarks/README.md
    python benchmarks/losses.py --size 512 1000   # one of them
"""

import argparse
import itertools
import os
import platform
import random
import statistics
import time
from collections.abc import Callable

os.environ.setdefault("KINETO_LOG_LEVEL", "5")  # silence the profiler, which measures the memory

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

import noisebound as nb

RATE = 0.4
SIZES = ((512, 1000), (128, 32000))
GOALS = {  # the largest accepted ratio to F.cross_entropy, for each of SIZES
    "gce": (1.25, 1.1),
    "sce": (1.25, 1.1),
    "fce symmetric": (1.25, 1.1),
    "mae": (1.25, 1.1),
    "ce bounded": (1.25, 1.1),
    "cep": (2.0, 2.0),
}
Criterion = Callable[[Tensor, Tensor], Tensor]


def ours(num_classes: int) -> dict[str, Criterion]:
    """Return the library's losses; those with a C × C matrix only up to 2,000 classes."""
    losses: dict[str, Criterion] = {
        "ce": nb.CrossEntropy(),
        "ce bounded": nb.NoiseBoundedLoss(nb.CrossEntropy(), RATE, num_classes),
        "gce": nb.GeneralizedCrossEntropy(),
        "gce bounded": nb.NoiseBoundedLoss(nb.GeneralizedCrossEntropy(), RATE, num_classes),
        "sce": nb.SymmetricCrossEntropy(),
        "fce symmetric": nb.ForwardCrossEntropy.symmetric(RATE, num_classes),
        "mae": nb.MeanAbsoluteError(),
        "cep": nb.PriorCrossEntropy(RATE, num_classes),
        "backward symmetric": nb.BackwardCrossEntropy.symmetric(RATE, num_classes),
        "mse": nb.MeanSquaredError(),
        "nce-mae": nb.NormalizedCrossEntropyMAE(),
        "spherical": nb.Spherical(),
        "bootstrap soft": nb.Bootstrapping(),
        "bootstrap hard": nb.Bootstrapping("hard"),
        "curriculum": nb.Curriculum(RATE),
    }
    if num_classes <= 2000:
        transition = nb.ForwardCrossEntropy.symmetric(RATE, num_classes).noise_model.transition
        losses["fce general"] = nb.ForwardCrossEntropy(transition)
        losses["backward general"] = nb.BackwardCrossEntropy(transition)
    return losses


def published_styles(num_classes: int) -> dict[str, Criterion]:
    """Return the same losses as they are often written."""
    wrong = RATE / (num_classes - 1)
    prior = torch.full((num_classes,), wrong)
    prior[0] = 1 - RATE

    def softmax_gather_gce(z: Tensor, y: Tensor) -> Tensor:
        q = F.softmax(z, dim=1).gather(1, y.unsqueeze(1))
        return ((1 - q**0.4) / 0.4).mean()

    def one_hot_clamp_sce(z: Tensor, y: Tensor) -> Tensor:
        q = F.softmax(z, dim=1).clamp(1e-7, 1.0)
        label = F.one_hot(y, num_classes).float().clamp(1e-4, 1.0)
        reverse = -(q * label.log()).sum(1)
        return F.cross_entropy(z, y) + reverse.mean()

    def one_hot_mae(z: Tensor, y: Tensor) -> Tensor:
        return (F.softmax(z, dim=1) - F.one_hot(y, num_classes).float()).abs().sum(1).mean() / 2

    def sorted_cep(z: Tensor, y: Tensor) -> Tensor:
        log_q = F.log_softmax(z, dim=1)
        ordered = log_q.sort(dim=1, descending=True).values
        return F.nll_loss(log_q, y) - (prior * ordered).sum(1).mean()

    styles: dict[str, Criterion] = {
        "gce, softmax and gather": softmax_gather_gce,
        "sce, one-hot and clamp": one_hot_clamp_sce,
        "mae, one-hot": one_hot_mae,
        "cep, sort": sorted_cep,
    }
    if num_classes <= 2000:
        transition = nb.ForwardCrossEntropy.symmetric(RATE, num_classes).noise_model.transition
        matrix = transition.float()

        def matmul_fce(z: Tensor, y: Tensor) -> Tensor:
            return F.nll_loss((F.softmax(z, dim=1) @ matrix.T).clamp(1e-7).log(), y)

        styles["fce, matmul"] = matmul_fce
    return styles


def step(criterion: Criterion, logits: Tensor, labels: Tensor) -> None:
    """Run one forward and one backward pass."""
    logits.grad = None
    criterion(logits, labels).backward()


def time_ratios(
    criteria: dict[str, Criterion], logits: Tensor, labels: Tensor, rounds: int, turn: int
) -> tuple[dict[str, float], float]:
    """Return each criterion's median time divided by the first one's, and the latter in seconds."""
    seconds: dict[str, list[float]] = {name: [] for name in criteria}
    shuffle = random.Random(0).shuffle
    order = list(criteria)
    for round_number in range(rounds + 3):
        shuffle(order)  # otherwise each would always find the caches that the same loss left
        for name in order:
            started = time.perf_counter()
            for _ in range(turn):
                step(criteria[name], logits, labels)
            if round_number >= 3:  # the first rounds warm up
                seconds[name].append((time.perf_counter() - started) / turn)
    medians = {name: statistics.median(taken) for name, taken in seconds.items()}
    base = next(iter(medians.values()))
    return {name: median / base for name, median in medians.items()}, base


def peak_memory(criterion: Criterion, logits: Tensor, labels: Tensor) -> float:
    """Return the most memory held at once beyond the logits, in multiples of their size.

    The gradient, which must exist in the end, is one of them.
    """
    logits.grad = None
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        criterion(logits, labels).backward()
    events = profiler.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    held = itertools.accumulate(change for _, change in changes)
    return max(held) / (logits.numel() * logits.element_size())


def report(size: tuple[int, int], rounds: int, turn: int) -> None:
    """Time all losses at one size and print a Markdown table."""
    batch, num_classes = size
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(batch, num_classes, generator=generator).requires_grad_()
    labels = torch.randint(num_classes, (batch,), generator=generator)
    own = ours(num_classes)
    criteria = {"F.cross_entropy": F.cross_entropy, **own, **published_styles(num_classes)}
    ratios, base_seconds = time_ratios(criteria, logits, labels, rounds, turn)
    print(f"\n### {batch} × {num_classes}\n")
    milliseconds = 1000 * base_seconds
    print(f"`F.cross_entropy`: {milliseconds:.2f} ms; {rounds} rounds, {turn} steps per turn.\n")
    print("| loss | time | goal | peak memory |")
    print("|---|---|---|---|")
    for name, ratio in ratios.items():
        limit = GOALS.get(name, (None, None))[size == SIZES[1]] if name in own else None
        goal = f"≤ {limit}" if limit else ""
        memory = peak_memory(criteria[name], logits, labels)
        print(f"| {name} | {ratio:.2f} | {goal} | {memory:.2f} |")


def main() -> None:
    """Parse the command line and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", type=int, nargs=2, metavar=("BATCH", "CLASSES"))
    parser.add_argument("--rounds", type=int, help="default: 100, or 20 for the larger size")
    parser.add_argument("--turn", type=int, default=5, help="steps per turn")
    arguments = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {platform.machine()}")
    for size in [tuple(arguments.size)] if arguments.size else SIZES:
        report(
            size,
            arguments.rounds or (100 if size[0] * size[1] < 1_000_000 else 20),
            arguments.turn,
        )


if __name__ == "__main__":
    main()
