"""Time how long imports take beyond what they need, and how long commands take to start.

These are CPU seconds, which other work on the machine hardly changes; on an idle machine, they are
about the seconds that pass.
"""

import os
import statistics
import subprocess
import sys

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
start = time.process_time()
import {needed}
middle = time.process_time()
import {module}
print(middle - start, time.process_time() - middle)
"""


def run(*arguments: str) -> tuple[str, float]:
    """Run Python in a new process; return its output and the CPU seconds that it took."""
    before = os.times()
    command = [sys.executable, *arguments]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    after = os.times()
    user = after.children_user - before.children_user
    return output, user + after.children_system - before.children_system


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
