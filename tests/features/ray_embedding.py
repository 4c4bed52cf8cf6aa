"""Embed on a Ray cluster of this machine's cores: ``ray_embedding.py OUT PHOTOS ONNX``."""

import sys
import threading
import time
from pathlib import Path

import psutil
import ray
import torch

from noisebound.data import embeddings
from noisebound.features import parse_backbone
from noisebound.features.examples import load_raw
from noisebound.features.load import embed_folder


class Slow(torch.nn.Module):
    """The mean color of images, slowly, so that there is time to kill it."""

    def forward(self, images):
        time.sleep(0.1)
        return images.mean((2, 3))


def kill_an_actor(out: Path) -> None:
    """Kill a process that embeds once a shard exists, and note its number."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if list((out / "disturbed").rglob("*.safetensors")):
            for process in psutil.Process().children(recursive=True):
                if any("ShardEmbedder" in word for word in process.cmdline()):
                    process.kill()
                    (out / "killed").write_text(str(process.pid))
                    return
        time.sleep(0.02)


def main(out: Path, photos: Path, onnx: Path) -> None:
    raw = load_raw(photos)
    backbone = parse_backbone(f"onnx:{onnx}")
    embeddings.SHARD_ROWS = 16
    embed_folder(raw, backbone, out / "undisturbed", cluster="local")
    killer = threading.Thread(target=kill_an_actor, args=[out])
    killer.start()
    slow = parse_backbone(Slow(), image_size=8)
    embeddings.SHARD_ROWS = 1
    embed_folder(raw, slow, out / "disturbed", cluster="local")
    killer.join()
    ray.shutdown()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
