"""Images decoded once: a safetensors file in the cache folder, memory-mapped from then on."""

import errno
import hashlib
import json
import math
import os
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from safetensors import SafetensorError, safe_open
from torch import Tensor

from noisebound.data.checksums import RowChecksums, crc
from noisebound.data.folders import cache_folder
from noisebound.data.formats.archives import Files
from noisebound.data.formats.images import Mode, decoded_one_by_one, probe_images
from noisebound.data.limits import readable_size
from noisebound.data.rows import TensorRows
from noisebound.errors import DataError
from noisebound.system.files import load_tensors, save_tensors, written_whole

_WORTH_CACHING = 1000  # images; fewer are decoded in about a second
_WORTH_MAPPING = 2**28  # bytes: a choice; fewer are held in memory without harm
_HEADER = 1024  # bytes before the first tensor, most of them spaces, which the format allows


@dataclass(frozen=True, eq=False)
class DecodedImages:
    """Images of one size.

    Args:
        images: the images that could be read, in memory or in a mapped file
        kept: position, among the names that were asked for, of each of ``images``
        bad: the files that could not be read
        written: size of the file that was written to the cache folder, in bytes; 0 if none was
    """

    images: UInt8[Tensor, "n channels height width"] | TensorRows
    kept: tuple[int, ...]
    bad: tuple[str, ...]
    written: int


def probe_once(files: Files, names: Sequence[str]) -> tuple[Mode, set[tuple[int, int]]]:
    """Return what `probe_images` gives, from the cache if the same files were probed before."""
    if len(names) < _WORTH_CACHING:
        return probe_images(files, names)
    path = _place("headers", f"{files.where()}|{names[0]}")
    fingerprint = _fingerprint(files, names)
    try:
        _, known = load_tensors(path)
    except (OSError, DataError):  # absent or damaged
        known = {}
    if known.get("fingerprint") != fingerprint:
        mode, sizes = probe_images(files, names)
        known = {"fingerprint": fingerprint, "mode": mode, "sizes": sorted(sizes)}
        with suppress(OSError):  # which the larger cache of the images tells
            save_tensors(path, {}, known)
    return known["mode"], {(height, width) for height, width in known["sizes"]}


def decode_once(
    files: Files, names: Sequence[str], *, mode: Mode, size: tuple[int, int], skip_bad: bool = False
) -> DecodedImages:
    """Decode every image to one mode and one size, unless the cache has them decoded already.

    The cache holds one file per release and way of decoding; it is rewritten when the images
    have changed. Images are written to it as they are decoded, and are then mapped, so that they
    may be more than the memory holds.

    Args:
        files: where the files are
        names: names of the files
        mode: ``"L"`` for one gray channel, ``"RGB"`` for three
        size: height and width; an image of another size is scaled and cropped at its center
        skip_bad: leave out images that cannot be read

    Raises:
        DataError: images cannot be read, and ``skip_bad`` is false; or they fit nowhere
    """
    job = _Job(files, names, mode, size, skip_bad)
    if len(names) < _WORTH_CACHING and job.nbytes < _WORTH_MAPPING:
        return _decoded_in_memory(job)
    path = _place("decoded", f"{files.where()}|{names[0]}|{mode}|{size}|{skip_bad}")
    fingerprint = _fingerprint(files, names)
    found = _read(path, fingerprint, job)
    if found is not None:
        return found
    try:
        _write(path, fingerprint, job)
    except OSError as error:
        if job.nbytes > _memory() / 2:
            raise DataError(
                f"the decoded images take {readable_size(job.nbytes)}, too much for the memory, "
                f"and the cache folder {path.parent} cannot hold them ({error}): make room, name "
                "a folder on another disk by NOISEBOUND_CACHE, or scale them down with `image_size`"
            ) from error
        warnings.warn(f"the decoded images could not be cached: {error}", stacklevel=3)
        return _decoded_in_memory(job)
    written = _read(path, fingerprint, job, written=path.stat().st_size)
    if written is None:
        raise DataError(f"{path} changed while it was written: is another process clearing it?")
    return written


def cache_notes(*decoded: DecodedImages) -> tuple[str, ...]:
    """Return a note on what was written to the cache folder; none if nothing was."""
    written = sum(each.written for each in decoded)
    if not written:
        return ()
    return (
        f"the decoded images are kept for the next time: {readable_size(written)} in "
        f"{cache_folder() / 'decoded'}; noisebound data cache lists what is kept and clears it",
    )


@dataclass(frozen=True, eq=False)
class _Job:
    """What is to be decoded, and how."""

    files: Files
    names: Sequence[str]
    mode: Mode
    size: tuple[int, int]
    skip_bad: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one image."""
        return (1 if self.mode == "L" else 3, *self.size)

    @property
    def nbytes(self) -> int:
        """The size of all images, decoded."""
        return len(self.names) * math.prod(self.shape)

    def images(self) -> Iterator[tuple[int, np.ndarray]]:
        """Return the position and the pixels of each image that can be read."""
        return decoded_one_by_one(
            self.files, self.names, mode=self.mode, size=self.size, skip_bad=self.skip_bad
        )

    def outcome(
        self, images: Tensor | TensorRows, kept: Sequence[int], written: int = 0
    ) -> DecodedImages:
        """Return the images with what is known of those that could not be read."""
        left_out = sorted(set(range(len(self.names))).difference(kept))
        bad = tuple(self.files.where(self.names[position]) for position in left_out)
        return DecodedImages(images, tuple(kept), bad, written)


def _decoded_in_memory(job: _Job) -> DecodedImages:
    images = torch.empty((len(job.names), *job.shape), dtype=torch.uint8)
    kept: list[int] = []
    for position, pixels in job.images():
        images[len(kept)] = torch.from_numpy(pixels)
        kept.append(position)
    return job.outcome(images[: len(kept)], kept)


def _write(path: Path, fingerprint: str, job: _Job) -> None:
    """Write the images as they are decoded, and then the checksums before them.

    The checksum of a file that could not be read is -1.
    """
    checksums = torch.full((len(job.names),), -1)
    start = _HEADER + checksums.nbytes
    with written_whole(path) as part, part.open("wb") as stream:
        _check_room(part, start + job.nbytes)
        stream.seek(start)
        for position, pixels in job.images():
            row = np.ascontiguousarray(pixels)
            stream.write(row.data)
            checksums[position] = crc(torch.from_numpy(row))
        stream.seek(0)
        stream.write(_header(fingerprint, checksums, job.shape))
        stream.write(checksums.numpy().data)


def _header(fingerprint: str, checksums: Int64[Tensor, " n"], shape: tuple[int, ...]) -> bytes:
    """Return the header of a safetensors file of checksums and images."""
    count, start = int((checksums >= 0).sum()), checksums.nbytes
    stop = start + count * math.prod(shape)
    header = {
        "__metadata__": {"fingerprint": fingerprint, "digest": _digest(checksums)},
        "checksums": {"dtype": "I64", "shape": [len(checksums)], "data_offsets": [0, start]},
        "images": {"dtype": "U8", "shape": [count, *shape], "data_offsets": [start, stop]},
    }
    text = json.dumps(header).encode().ljust(_HEADER - 8)
    return len(text).to_bytes(8, "little") + text


def _read(path: Path, fingerprint: str, job: _Job, written: int = 0) -> DecodedImages | None:
    try:
        with safe_open(path, framework="pt") as stored:
            about = stored.metadata() or {}
            if about.get("fingerprint") != fingerprint:
                return None
            checksums = stored.get_tensor("checksums")
            images = stored.get_tensor("images")
    except (OSError, SafetensorError):  # absent or damaged: decode again
        return None
    kept = (checksums >= 0).nonzero().squeeze(1)
    is_sound = about.get("digest") == _digest(checksums)
    if not is_sound or images.shape != (len(kept), *job.shape):
        return None
    rows = TensorRows(images, checksums=RowChecksums(checksums[kept], path))
    return job.outcome(rows, kept.tolist(), written)


def _digest(checksums: Int64[Tensor, " n"]) -> str:
    return hashlib.sha256(checksums.numpy().data).hexdigest()


def _place(kind: str, key: str) -> Path:
    digest = hashlib.sha256(os.fsencode(key)).hexdigest()[:24]
    return cache_folder() / kind / f"{digest}.safetensors"


def _fingerprint(files: Files, names: Sequence[str]) -> str:
    """Hash of the names, sizes and times of the files, which are not read for it."""
    listed = os.fsencode("\n".join([files.fingerprint(names), *names]))
    return hashlib.sha256(listed).hexdigest()


def _check_room(path: Path, needed: int) -> None:
    if shutil.disk_usage(path.parent).free < needed:
        raise OSError(errno.ENOSPC, f"{readable_size(needed)} do not fit on the disk", str(path))


def _memory() -> int:
    """Return the memory of this machine, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
