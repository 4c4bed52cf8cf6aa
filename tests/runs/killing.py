"""Train, and kill the training at random moments. See test_resume.py.

Each run is a fork of this process, which saves imports. SIGKILL leaves it no time to clean up.
"""

import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

import torch

from noisebound.runs import train_run
from noisebound.training import TrainingConfig
from training_data import NOISE_RATE, noisy_clouds

CONFIG = TrainingConfig(loss="elr+b", bound=0.5, noise_rate=NOISE_RATE, epochs=80, batch_size=30)


def run(out: Path) -> int:
    """Train in a child, and return its process id."""
    child = os.fork()
    if child == 0:
        try:
            train_run(noisy_clouds(), CONFIG, out, resume=True, checkpoint_seconds=0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return child


def main(out: Path, kills: int) -> None:
    """Kill runs until there were ``kills``; another run follows one that finishes first."""
    torch.set_num_threads(1)  # a fork has no other threads
    moments = random.Random(0)
    number = done = 0
    while done < kills:
        child = run(out / str(number))
        time.sleep(moments.uniform(0.01, 0.2))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            done += 1
        elif os.waitstatus_to_exitcode(status) == 0:
            number += 1
        else:
            sys.exit("a run failed")
    _, status = os.waitpid(run(out / str(number)), 0)
    sys.exit(os.waitstatus_to_exitcode(status))
