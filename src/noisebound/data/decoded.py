"""Images decoded once: a safetensors file in the cache folder, memory-mapped from then on."""

import hashlib
import os
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from noisebound.data.folders import cache_folder
from noisebound.data.formats.archives import Files
from noisebound.data.formats.images import DecodedImages, Mode, decode_images
from noisebound.files import written_whole

_WORTH_CACHING = 1000  # images; fewer are decoded in about a second


def decode_once(
    files: Files, names: Sequence[str], *, mode: Mode, size: tuple[int, int], skip_bad: bool = False
) -> DecodedImages:
    """Return what `decode_images` gives, from the cache if the same files were decoded before.

    The cache holds one file per release and way of decoding; it is rewritten when the images
    have changed.
    """
    if len(names) < _WORTH_CACHING:
        return decode_images(files, names, mode=mode, size=size, skip_bad=skip_bad)
    key = f"{files.where()}|{names[0]}|{mode}|{size}|{skip_bad}"
    digest = hashlib.sha256(os.fsencode(key)).hexdigest()[:24]
    path = cache_folder() / "decoded" / f"{digest}.safetensors"
    listed = os.fsencode("\n".join([files.fingerprint(names), *names]))
    fingerprint = hashlib.sha256(listed).hexdigest()
    stored = _read(path, fingerprint)
    if stored is None:
        decoded = decode_images(files, names, mode=mode, size=size, skip_bad=skip_bad)
        stored = _write(path, fingerprint, decoded)
    kept = stored["kept"].tolist()
    left_out = sorted(set(range(len(names))).difference(kept))
    return DecodedImages(
        stored["images"], tuple(kept), tuple(files.where(names[position]) for position in left_out)
    )


def _write(path: Path, fingerprint: str, decoded: DecodedImages) -> dict[str, Tensor]:
    tensors = {"images": decoded.images, "kept": torch.tensor(decoded.kept)}
    try:
        with written_whole(path) as part:
            save_file(tensors, part, metadata={"fingerprint": fingerprint})
    except OSError as error:
        warnings.warn(f"the decoded images could not be cached: {error}", stacklevel=3)
        return tensors
    # Mapped rather than held, so that the system can take the memory back.
    return _read(path, fingerprint) or tensors


def _read(path: Path, fingerprint: str) -> dict[str, Tensor] | None:
    try:
        with safe_open(path, framework="pt") as stored:
            if (stored.metadata() or {}).get("fingerprint") != fingerprint:
                return None
            return {name: stored.get_tensor(name) for name in ("images", "kept")}
    except (OSError, SafetensorError):  # absent or damaged: decode again
        return None
