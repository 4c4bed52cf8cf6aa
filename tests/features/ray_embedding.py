"""Embed on a Ray cluster of this machine's cores: ``ray_embedding.py OUT PHOTOS ONNX``."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import ray
import torch

from noisebound.features import parse_backbone
from noisebound.features.embed_folder import embed_folder
from noisebound.features.load import load_raw
from paper_runs import descendants


class Slow(torch.nn.Module):
    """The mean color of images, slowly, so that there is time to kill it."""

    def forward(self, images):
        time.sleep(0.1)
        return images.mean((2, 3))


def kill_an_actor(out: Path) -> None:
    """When a shard is there: kill a process that embeds, and note its number."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if list((out / "disturbed").rglob("*.safetensors")):
            for pid in descendants("ShardEmbedder"):
                os.kill(pid, signal.SIGKILL)
                (out / "killed").write_text(str(pid))
                return
        time.sleep(0.02)


def main(out: Path, photos: Path, onnx: Path) -> None:
    raw = load_raw(photos)
    backbone = parse_backbone(f"onnx:{onnx}")
    embed_folder(raw, backbone, out / "undisturbed", cluster="local", shard_rows=16)
    killer = threading.Thread(target=kill_an_actor, args=[out])
    killer.start()
    slow = parse_backbone(Slow(), image_size=8)
    embed_folder(raw, slow, out / "disturbed", cluster="local", shard_rows=1)
    killer.join()
    ray.shutdown()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
