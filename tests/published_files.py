"""Small files in exactly the formats in which the data sets are published."""

import gzip
import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image

FINE = [f"fine_{k}" for k in range(100)]
EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n"
TEN = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def idx(array: np.ndarray) -> bytes:
    """MNIST's format, uncompressed."""
    header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    return header + array.astype(np.uint8).tobytes()


def write_idx_pair(folder: Path, prefix: str, images: np.ndarray, labels: np.ndarray) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{prefix}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images), mtime=0))
    (folder / f"{prefix}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels), mtime=0))


def some_images(n: int, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, *shape), dtype=np.uint8)


def cifar_records(labels: np.ndarray, images: np.ndarray) -> bytes:
    """CIFAR's binary format: label bytes, then the planes."""
    columns = labels.reshape(len(images), -1).astype(np.uint8)
    return np.concatenate([columns, images.reshape(len(images), -1)], axis=1).tobytes()


class RunsCode:
    """Creates a file when it is unpickled without protection."""

    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self):
        return Path.touch, (self.witness,)


def torch_file_that_runs_code(witness: Path) -> bytes:
    stream = io.BytesIO()
    torch.save({"clean_label": RunsCode(witness)}, stream)
    return stream.getvalue()


def write_cifar10_binary(root: Path, per_file: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """The unpacked release; returns the training images and labels in order."""
    folder = root / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    images = some_images(6 * per_file, 3, 32, 32)
    labels = np.arange(6 * per_file) % 10
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
    parts = zip(names, np.split(labels, 6), np.split(images, 6), strict=True)
    for name, some_labels, pixels in parts:
        (folder / name).write_bytes(cifar_records(some_labels, pixels))
    # the published file ends with empty lines
    (folder / "batches.meta.txt").write_text("\n".join(TEN) + "\n\n\n")
    return images[: 5 * per_file], labels[: 5 * per_file]


def write_cifar100_binary(root: Path, n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    folder = root / "cifar-100-binary"
    folder.mkdir(parents=True)
    images = some_images(n, 3, 32, 32)
    fine, coarse = np.arange(n) % 100, np.arange(n) % 20
    records = cifar_records(np.stack([coarse, fine], axis=1), images)
    (folder / "train.bin").write_bytes(records)
    (folder / "test.bin").write_bytes(records)
    (folder / "fine_label_names.txt").write_text("\n".join(FINE) + "\n")
    return images, fine


def human_labels_file(clean: np.ndarray, noisy: np.ndarray, key: str) -> bytes:
    stream = io.BytesIO()
    torch.save({"clean_label": clean, key: noisy}, stream)
    return stream.getvalue()


def encoded_image(pixels: np.ndarray, kind: str = "PNG") -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


def plain_image(color: tuple[int, int, int] | int, size: int = 64, kind: str = "JPEG") -> bytes:
    """An image of one color, which JPEG hardly changes."""
    shape = (size, size) if isinstance(color, int) else (size, size, 3)
    return encoded_image(np.broadcast_to(np.array(color, np.uint8), shape).copy(), kind)


WNIDS = ["n02124075", "n04067472", "n01443537"]


def write_tiny_imagenet(root: Path, per_class: int = 2) -> None:
    """The unpacked release, with three of its classes."""
    base = root / "tiny-imagenet-200"
    for index, wnid in enumerate(WNIDS):
        images = base / "train" / wnid / "images"
        images.mkdir(parents=True)
        for i in range(per_class):
            (images / f"{wnid}_{i}.JPEG").write_bytes(plain_image((80 * index, 40 * i, 0)))
        (base / "train" / wnid / f"{wnid}_boxes.txt").write_text(f"{wnid}_0.JPEG\t0\t0\t63\t63\n")
    (base / "val" / "images").mkdir(parents=True)
    lines = []
    for i, wnid in enumerate([WNIDS[2], WNIDS[0]]):
        (base / "val" / "images" / f"val_{i}.JPEG").write_bytes(plain_image(100))
        lines.append(f"val_{i}.JPEG\t{wnid}\t0\t32\t44\t62\n")
    (base / "val" / "val_annotations.txt").write_text("".join(lines))
    (base / "test" / "images").mkdir(parents=True)
    (base / "test" / "images" / "test_0.JPEG").write_bytes(plain_image(1))
    (base / "wnids.txt").write_text("\n".join(WNIDS) + "\n")
    (base / "words.txt").write_text(
        "n01443537\tgoldfish, Carassius auratus\nn02124075\tEgyptian cat\nn04067472\treel\n"
        "n00001740\tentity\n"
    )


def write_animals10n(root: Path) -> None:
    for part, count in (("training", 12), ("testing", 10)):
        (root / part).mkdir(parents=True)
        for i in range(count):
            name = f"{i % 10}_{part}_{i}.jpg"
            (root / part / name).write_bytes(plain_image((20 * (i % 10), 0, 0)))


def zip_folder(folder: Path, target: Path) -> None:
    """With the folder itself as the first part of every name, as publishers do."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder.parent))
