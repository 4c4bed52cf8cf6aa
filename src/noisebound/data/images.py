"""Image files: opened as raster formats only, decoded in parallel, cached in a mapped file."""

import hashlib
import io
import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, UInt8
from PIL import Image, ImageOps, UnidentifiedImageError
from rich.filesize import decimal
from torch import Tensor

from noisebound.data.column_types import listed_names
from noisebound.data.files import Files, cache_folder
from noisebound.data.rows import TensorRows
from noisebound.errors import DataError, InvalidValueError
from noisebound.system.files import load_tensors, save_rows
from noisebound.system.progress import track

Mode: TypeAlias = Literal["L", "RGB"]
Size: TypeAlias = tuple[int, int]
"""Height and width, in pixels."""

DEFAULT_SIZE: Size = (64, 64)
"""For images of different sizes; TinyImageNet's."""

_GRAY = {"1", "L", "I;16", "I;16B", "I;16L"}
# Pillow looks at a file's content, not at its extension, and runs other programs for some formats:
# Ghostscript for EPS. So only raster formats that Pillow decodes itself are allowed.
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")
_SHOWN = 20  # lines of a list in a message
_AHEAD = 4  # images per thread decoded ahead; heuristic
_WORTH_CACHING = 1000  # images; fewer are decoded in about a second
_WORTH_MAPPING = 2**28  # bytes; heuristic: fewer are held in memory


def image_extensions() -> frozenset[str]:
    """Return the file extensions of images, such as ``.png``, in lower case."""
    registered = Image.registered_extensions()
    return frozenset(extension for extension, kind in registered.items() if kind in _FORMATS)


Item = TypeVar("Item")
Result = TypeVar("Result")


def done_ahead(
    work: Callable[[Item], Result], items: Iterable[Item], most: int
) -> Iterator[Result]:
    """Yield ``work(item)`` for each item, in order; at most ``most`` results wait to be taken.

    Threads suffice: Pillow and hashlib release the interpreter's lock while they work.
    """
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > most:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for each in waiting:
                each.cancel()


def unreadable_reason(error: Exception) -> str:
    """Return why an image could not be read."""
    is_other = isinstance(error, UnidentifiedImageError)
    return "not an image" if is_other else str(error).strip() or type(error).__name__


def open_image(
    content: bytes, mode: Mode | None = None, *, at_least: int | None = None
) -> Image.Image:
    """Return a file's image, decoded, upright and in one mode. Every image is opened here.

    Pillow refuses images of more than 357,913,940 pixels. If each side needs only ``at_least``
    pixels, a large JPEG is decoded at a fraction of its size, several times faster.
    """
    with Image.open(io.BytesIO(content), formats=_FORMATS) as opened:
        if at_least is not None:
            opened.draft(None, (at_least, at_least))
        image = ImageOps.exif_transpose(opened)
        if image.mode in ("I", "F"):  # Pillow would clip them at 255
            raise InvalidValueError("gray values of 32 bits; save it with 8 or 16 bits")
        own: Mode = "L" if image.mode in _GRAY else "RGB"
        if image.mode.startswith("I;16"):
            image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
        if "transparency" in image.info:
            image = image.convert("RGBA")
        return image.convert(mode or own)


def _decode(content: bytes, mode: Mode, size: Size) -> tuple[Mode, Size, np.ndarray]:
    """Return an image's own mode and size, and its pixels in the wanted ones."""
    image = open_image(content)
    own_mode: Mode = "L" if image.mode == "L" else "RGB"
    own_size, wanted = (image.height, image.width), image.convert(mode)
    if own_size != size:
        wanted = ImageOps.fit(wanted, (size[1], size[0]), Image.Resampling.BILINEAR)
    pixels = np.array(wanted)
    return own_mode, own_size, pixels[None] if mode == "L" else pixels.transpose(2, 0, 1)


@dataclass(frozen=True, eq=False)
class DecodedImages:
    """Images of one mode and size."""

    images: UInt8[Tensor, "n channels height width"]  # zeros for those that could not be read
    is_kept: Bool[Tensor, " n"]
    bad: tuple[str, ...]  # the files that could not be read
    sizes: frozenset[Size]  # in the files
    notes: tuple[str, ...] = ()

    def part(self, start: int, stop: int) -> Tensor | TensorRows:
        """Return the readable ones among some images."""
        kept = self.is_kept[start:stop]
        images = self.images[start:stop]
        return images if bool(kept.all()) else TensorRows(images, kept.nonzero().flatten())


def decode_once(
    files: Files,
    names: Sequence[str],
    *,
    mode: Mode | None = None,
    size: Size | None = None,
    skip_bad: bool = False,
) -> DecodedImages:
    """Decode every image to one mode and one size, or return them from the cache.

    The cache has one file per source, mode and size; it is rewritten when the images have changed.
    Images are written to it as they are decoded and then mapped, so they need not fit into memory.
    The default mode is ``"L"`` if all images are gray, else ``"RGB"``. The default size is that of
    the images if all agree, else 64×64. An image of another size is scaled and cropped at its
    center.
    """
    key = f"{files.where()}|{names[0]}|{mode}|{size}|{skip_bad}"
    digest = hashlib.sha256(os.fsencode(key)).hexdigest()[:24]
    path = cache_folder() / "decoded" / f"{digest}.safetensors"
    fingerprint = files.fingerprint(names)  # of names, sizes and times: no file is read for it
    decoding = _Decoding(files, names, mode, size, skip_bad)
    if (cached := _read_cache(path, fingerprint)) is not None:
        return decoding.result(*cached)
    # Assume that all images are like the first readable one, and start again if one is not.
    form = mode or "L", size or DEFAULT_SIZE
    outcomes = (decoding.outcome(name, *form) for name in names)
    first = next((outcome for outcome in outcomes if not isinstance(outcome, str)), None)
    form = form if first is None else (mode or first[0], size or first[1])
    while True:
        try:
            return _decode_all(decoding, *form, path, fingerprint)
        except _OtherFormError as error:
            form = error.args


def _read_cache(path: Path, fingerprint: str) -> tuple[Tensor, Tensor] | None:
    """Return images and their sizes; None if the file is absent, damaged or outdated."""
    try:
        # To verify a checksum would read all images at each start.
        tensors, about = load_tensors(path, verify=False)
    except (OSError, DataError):
        return None
    if "rows_sizes" not in tensors or about.get("fingerprint") != fingerprint:
        return None
    return tensors["rows"], tensors["rows_sizes"]


def _decode_all(
    decoding: "_Decoding", mode: Mode, size: Size, path: Path, fingerprint: str
) -> DecodedImages:
    shape = (len(decoding.names), 1 if mode == "L" else 3, *size)
    sizes = torch.zeros(len(decoding.names), 2, dtype=torch.int64)
    rows = decoding.pixels(mode, size, sizes)
    if len(decoding.names) < _WORTH_CACHING and math.prod(shape) < _WORTH_MAPPING:
        return decoding.result(torch.from_numpy(np.stack(list(rows))), sizes)
    try:
        # `save_rows` writes the sizes after the rows, when they are complete.
        images, about = map(torch.from_numpy, rows), {"fingerprint": fingerprint}
        save_rows(path, images, shape, {"rows_sizes": sizes}, about, torch.uint8)
    except OSError as error:
        raise DataError(
            f"the decoded images take {decimal(math.prod(shape))}, and the cache folder "
            f"{path.parent} cannot hold them ({error}): make room, name a folder on another "
            "disk by NOISEBOUND_CACHE, or scale them down with `image_size`"
        ) from error
    written = _read_cache(path, fingerprint)
    if written is None:
        raise DataError(f"{path} changed while it was written: is another process clearing it?")
    note = (
        f"the decoded images are kept for the next time: {decimal(path.stat().st_size)} in "
        f"{path.parent}; noisebound data cache lists what is kept and clears it"
    )
    return replace(decoding.result(*written), notes=(note,))


class _OtherFormError(Exception):
    """An image needs another mode or size than assumed: the arguments of this error."""


@dataclass(frozen=True, eq=False)
class _Decoding:
    """Images to decode; the images decide a ``mode`` or a ``size`` that is None."""

    files: Files
    names: Sequence[str]
    mode: Mode | None
    size: Size | None
    skip_bad: bool

    def result(self, images: Tensor, sizes: Tensor) -> DecodedImages:
        """Return the images; those of size zero could not be read."""
        is_kept = sizes.any(1)
        bad = (self.files.where(self.names[place]) for place in (~is_kept).nonzero().flatten())
        found = frozenset((height, width) for height, width in sizes[is_kept].tolist())
        return DecodedImages(images, is_kept, tuple(bad), found)

    def pixels(
        self, mode: Mode, size: Size, sizes: Tensor
    ) -> Iterator[UInt8[np.ndarray, "channels height width"]]:
        """Yield every image, zeros for one that cannot be read; fill in the sizes in the files."""
        bad = []
        ahead = _AHEAD * (os.cpu_count() or 1)  # few results wait in memory
        outcomes = done_ahead(lambda name: self.outcome(name, mode, size), self.names, ahead)
        for place, outcome in enumerate(track(outcomes, "images", len(self.names))):
            if isinstance(outcome, str):
                bad.append(f"{self.files.where(self.names[place])} ({outcome})")
                yield np.zeros((1 if mode == "L" else 3, *size), np.uint8)
                continue
            own_mode, own_size, pixels = outcome
            needed_mode = self.mode or ("RGB" if "RGB" in (mode, own_mode) else "L")
            needed_size = self.size or (size if size == own_size else DEFAULT_SIZE)
            if (needed_mode, needed_size) != (mode, size):
                raise _OtherFormError(needed_mode, needed_size)
            sizes[place] = torch.tensor(own_size)
            yield pixels
        if bad and not self.skip_bad:
            raise DataError(
                f"{len(bad)} of {len(self.names)} images cannot be read:\n{listed(bad)}\n"
                "repair or remove them, or leave them out with `skip_bad`"
            )
        if len(bad) == len(self.names):
            raise DataError(f"{self.files.where()} has no image that can be read")

    def outcome(self, name: str, mode: Mode, size: Size) -> tuple[Mode, Size, np.ndarray] | str:
        try:
            return _decode(self.files.read(name), mode, size)
        except Exception as error:  # Pillow may raise anything on damaged files
            return unreadable_reason(error)


def listed(lines: Sequence[str]) -> str:
    """Return the first lines of a list, indented, and how many more there are."""
    return "  " + listed_names(lines, _SHOWN, separator="\n  ")
