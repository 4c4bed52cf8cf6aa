"""Time `import noisebound` in addition to `import torch`, which it needs anyway."""

import statistics
import subprocess
import sys

ROUNDS = 5
CODE = """
import time
start = time.perf_counter()
import torch
middle = time.perf_counter()
import noisebound
print(middle - start, time.perf_counter() - middle)
"""


def main() -> None:
    """Time each round in a new process and print the medians."""
    rounds = []
    for _ in range(ROUNDS):
        command = [sys.executable, "-c", CODE]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        rounds.append([float(word) for word in output.split()])
    torch, added = (statistics.median(column) for column in zip(*rounds, strict=True))
    print(f"torch {torch:.3f} s, noisebound adds {added:.3f} s: {added / torch:.3f} times as long")


if __name__ == "__main__":
    main()
