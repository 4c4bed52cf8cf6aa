"""Time label noise in a million labels of 1,000 classes, for every kind that needs no inputs.

For comparison, the last row is a loop as found in published code: it draws each label from its
column of the transition matrix, and is timed on a hundredth of the labels.

    make bench
"""

import platform
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

import noisebound as nb

N, C, RATE, ROUNDS = 1_000_000, 1000, 0.4, 5


def seconds_for(work: Callable[[], object]) -> float:
    """Return the median time over the rounds, after one warm-up round."""
    times = []
    for _ in range(ROUNDS + 1):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return statistics.median(times[1:])


def loop_over_labels(labels: np.ndarray, transition: np.ndarray) -> np.ndarray:
    """Corrupt labels in a loop, as it is often written."""
    rng = np.random.RandomState(0)
    return np.array([rng.multinomial(1, transition[:, y]).argmax() for y in labels])


def main() -> None:
    """Print a table."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(C, (N,), generator=generator)
    transition = torch.full((C, C), RATE / (C - 1), dtype=torch.float64).fill_diagonal_(1 - RATE)
    kinds: dict[str, dict[str, object]] = {
        "symmetric": {"noise_rate": RATE},
        "pairwise": {"noise_rate": RATE},
        "superclass": {"noise_rate": RATE, "groups": [k // 5 for k in range(C)]},
        "transition": {"transition": transition},
    }
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {platform.machine()}")
    print("\n| noise | independent, ms | exact, ms |\n|---|---|---|")
    for kind, options in kinds.items():
        independent, exact = (
            seconds_for(
                lambda kind=kind, options=options, exact=exact: nb.corrupt(
                    labels, kind, num_classes=C, generator=generator, exact=exact, **options
                )
            )
            for exact in (False, True)
        )
        print(f"| {kind} | {1000 * independent:.0f} | {1000 * exact:.0f} |")
    some = labels[: N // 100].numpy()
    loop = 100 * seconds_for(lambda: loop_over_labels(some, transition.numpy()))
    print(f"| transition, a loop over the labels | {1000 * loop:.0f} | |")


if __name__ == "__main__":
    main()
