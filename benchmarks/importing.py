"""Time how long imports take beyond what they need, and how long commands take to start."""

import statistics
import subprocess
import sys
import time

ROUNDS = 5
IMPORTS = [
    ("torch", "noisebound as nb; nb.CrossEntropy, nb.estimate_noise, nb.corrupt"),
    ("torch, sklearn.linear_model", "noisebound.integrations.sklearn"),
]
COMMANDS = [
    "--version",
    "--help",
    "fit --help",
    "data list",
    "bound sce --noise-rate 0.4 --classes 10",
]
CODE = """
import time
start = time.perf_counter()
import {needed}
middle = time.perf_counter()
import {module}
print(middle - start, time.perf_counter() - middle)
"""


def run(*arguments: str) -> tuple[str, float]:
    """Run Python in a new process; return its output and the seconds that it took."""
    start = time.perf_counter()
    command = [sys.executable, *arguments]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return output, time.perf_counter() - start


def main() -> None:
    """Time each round in a new process and print the medians."""
    for needed, module in IMPORTS:
        code = CODE.format(needed=needed, module=module)
        rounds = [[float(word) for word in run("-c", code)[0].split()] for _ in range(ROUNDS)]
        before, added = (statistics.median(column) for column in zip(*rounds, strict=True))
        name = module.split()[0].rstrip(";")
        print(f"{needed} {before:.2f} s, {name} adds {added:.2f} s")
    for command in COMMANDS:
        seconds = [run("-m", "noisebound", *command.split())[1] for _ in range(ROUNDS)]
        print(f"noisebound {command}: {statistics.median(seconds):.2f} s")


if __name__ == "__main__":
    main()
