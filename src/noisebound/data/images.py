"""Image files: opened as raster formats only, decoded in parallel, cached in a mapped file."""

import errno
import hashlib
import io
import math
import os
import shutil
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias, TypeVar

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError
from rich.filesize import decimal
from torch import Tensor

from noisebound.data.archives import Files, size_limit
from noisebound.data.cache import cache_folder
from noisebound.data.rows import TensorRows
from noisebound.errors import DataError, InvalidValueError
from noisebound.system.files import load_tensors, save_rows
from noisebound.system.progress import track

PIXELS_VARIABLE = "NOISEBOUND_MAX_PIXELS"

Mode: TypeAlias = Literal["L", "RGB"]
Size: TypeAlias = tuple[int, int]
"""Height and width, in pixels."""

DEFAULT_SIZE: Size = (64, 64)
"""For images of different sizes; TinyImageNet's."""

_USUAL_PIXELS = 178_956_970  # of one image: Pillow's own limit, 13,377 × 13,377
_TOO_MANY = f"pixels: allow more by the environment variable {PIXELS_VARIABLE} if you trust it"
_GRAY = {"1", "L", "I", "I;16", "I;16B", "I;16L", "F"}
_QUARTER_TURNS = (5, 6, 7, 8)  # EXIF orientations that exchange height and width
# Pillow looks at a file's content, not at its extension, and runs other programs for some formats:
# Ghostscript for EPS. So only raster formats that Pillow decodes itself are allowed.
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")
_SHOWN = 20  # lines of a list in a message
_AHEAD = 4  # images per thread decoded ahead; heuristic
_WORTH_CACHING = 1000  # images; fewer are decoded in about a second
_WORTH_MAPPING = 2**28  # bytes; heuristic: fewer are held in memory


def opened_image(file: BinaryIO) -> Image.Image:
    """Return the image in a file, not yet decoded. Every image is opened here."""
    return Image.open(file, formats=_FORMATS)


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


def pixel_limit() -> int:
    """Return how many pixels one image may have."""
    return size_limit(PIXELS_VARIABLE, _USUAL_PIXELS)


def unreadable_reason(error: Exception) -> str:
    """Return why an image could not be read."""
    if isinstance(error, UnidentifiedImageError):
        return "not an image"
    if isinstance(error, Image.DecompressionBombError):
        return f"more than {pixel_limit():,} {_TOO_MANY}"
    return str(error).strip() or type(error).__name__


def is_of_other_pixel_limit(reason: str) -> bool:
    """True if an image was refused for this reason under a limit other than the present one."""
    return reason.endswith(_TOO_MANY) and not reason.startswith(f"more than {pixel_limit():,} ")


@contextmanager
def limited_pixels() -> Iterator[None]:
    """Make Pillow refuse images with more pixels than the limit, by their headers.

    Pillow's own limit is a global: it warns above the limit and refuses above twice the limit.
    """
    before = Image.MAX_IMAGE_PIXELS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        Image.MAX_IMAGE_PIXELS = pixel_limit() // 2
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = before


def open_image(content: bytes, mode: Mode, *, at_least: int | None = None) -> Image.Image:
    """Return a file's image, decoded, upright and in one mode: gray (``"L"``) or color (``"RGB"``).

    A large JPEG is decoded at a fraction of its size, several times faster, if each side keeps
    ``at_least`` this many pixels.
    """
    with opened_image(io.BytesIO(content)) as opened:
        if at_least is not None:
            opened.draft(None, (at_least, at_least))
        image = _eight_bits(ImageOps.exif_transpose(opened))
        if "transparency" in image.info:
            image = image.convert("RGBA")
        return image.convert(mode)


def _eight_bits(image: Image.Image) -> Image.Image:
    """Return the image with gray values of one byte; Pillow would clip wider ones at 255."""
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode not in ("I", "F"):
        return image
    # A 32-bit image does not state its range: guess 1, 255 or 65535 from the largest value.
    values = np.asarray(image).astype(np.float64)
    least, most = values.min(), values.max()
    if not (least >= 0 and most <= 65535):
        raise InvalidValueError(f"gray values must be from 0 to 65535, got {least:g} to {most:g}")
    scale = 255 if image.mode == "F" and most <= 1 else 1 if most <= 255 else 1 / 257
    return Image.fromarray(np.rint(values * scale).astype(np.uint8))


def _pixels(content: bytes, mode: Mode, size: Size) -> UInt8[np.ndarray, "channels height width"]:
    height, width = size
    image = open_image(content, mode)
    if (image.height, image.width) != size:
        image = ImageOps.fit(image, (width, height), Image.Resampling.BILINEAR)
    pixels = np.array(image)
    return pixels[None] if mode == "L" else pixels.transpose(2, 0, 1)


def _header(file: BinaryIO) -> tuple[Mode, Size]:
    """Return the mode and the size after orientation; no pixels are decoded."""
    with file, opened_image(file) as image:
        # The base class's method, because that of PNG decodes all pixels to find EXIF after them.
        is_turned = Image.Image.getexif(image).get(ExifTags.Base.Orientation, 1) in _QUARTER_TURNS
        size = (image.width, image.height) if is_turned else (image.height, image.width)
        return "L" if image.mode in _GRAY else "RGB", size


@dataclass(frozen=True, eq=False)
class DecodedImages:
    """Images of one size.

    Args:
        images: the images that could be read, in memory or in a mapped file
        kept: position, among the requested names, of each of ``images``
        bad: the files that could not be read
        sizes: the heights and widths in the files
        written: size of the file that was written to the cache folder, in bytes; 0 without one
    """

    images: UInt8[Tensor, "n channels height width"] | TensorRows
    kept: tuple[int, ...]
    bad: tuple[str, ...]
    sizes: frozenset[Size]
    written: int = 0


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
    An image of another size is scaled and cropped at its center.

    Args:
        files: the folder or archive
        names: the images
        mode: by default ``"L"`` if all images are gray, else ``"RGB"``
        size: height and width; by default those of the images if all agree, else 64×64
        skip_bad: leave out images that cannot be read

    Raises:
        DataError: images cannot be read and ``skip_bad`` is false, or no disk has room for them
    """
    key = f"{files.where()}|{names[0]}|{mode}|{size}|{skip_bad}"
    digest = hashlib.sha256(os.fsencode(key)).hexdigest()[:24]
    path = cache_folder() / "decoded" / f"{digest}.safetensors"
    job = _Job(
        files, names, skip_bad, mode or "L", size or DEFAULT_SIZE, mode is None, size is None
    )
    if (found := job.read_cache(path)) is not None:
        return found
    # Assume that all images are like the first one, and start again if one is not.
    first_mode, first_size = _first_header(files, names)
    job = replace(job, mode=mode or first_mode, size=size or first_size)
    while True:
        try:
            return job.decode(path)
        except _StartAgain as other:
            job = other.job


def _first_header(files: Files, names: Sequence[str]) -> tuple[Mode, Size]:
    with limited_pixels():
        for name in names:
            with suppress(Exception):  # damaged; reported when it is decoded
                return _header(files.open(name))
    return "L", DEFAULT_SIZE


def cache_notes(*decoded: DecodedImages) -> tuple[str, ...]:
    """Return a note on images that were written to the cache folder, if any were."""
    written = sum(each.written for each in decoded)
    if not written:
        return ()
    return (
        f"the decoded images are kept for the next time: {decimal(written)} in "
        f"{cache_folder() / 'decoded'}; noisebound data cache lists what is kept and clears it",
    )


class _StartAgain(Exception):  # noqa: N818
    """An image needs another mode or size than the images before it."""

    def __init__(self, job: "_Job") -> None:
        self.job = job


@dataclass(frozen=True, eq=False)
class _Job:
    """Images to decode, and how; ``any_mode`` and ``any_size`` if the images decide the form."""

    files: Files
    names: Sequence[str]
    skip_bad: bool
    mode: Mode
    size: Size
    any_mode: bool
    any_size: bool

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The shape of all images, decoded."""
        return (len(self.names), 1 if self.mode == "L" else 3, *self.size)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the names, sizes and times of the files, which are not read for it."""
        marks = [self.files.fingerprint(self.names), *self.names]
        return hashlib.sha256(os.fsencode("\n".join(marks))).hexdigest()

    def read_cache(self, path: Path) -> DecodedImages | None:
        """Return the images from a file in the cache; None if it is absent, damaged or outdated."""
        try:
            # To verify a checksum would read all images at each start.
            tensors, about = load_tensors(path, verify=False)
        except (OSError, DataError):
            return None
        if "rows_sizes" not in tensors or about.get("fingerprint") != self.fingerprint:
            return None
        return self._result(tensors["rows"], tensors["rows_sizes"])

    def decode(self, path: Path) -> DecodedImages:
        """Return the images, written to ``path`` in the cache if they are many or large."""
        nbytes = math.prod(self.shape)
        if len(self.names) < _WORTH_CACHING and nbytes < _WORTH_MAPPING:
            return self._in_memory()
        sizes = torch.zeros(len(self.names), 2, dtype=torch.int64)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if shutil.disk_usage(path.parent).free < nbytes:
                raise OSError(errno.ENOSPC, f"{decimal(nbytes)} do not fit on the disk", str(path))
            # `save_rows` writes the sizes after the rows, when they are complete.
            about = {"fingerprint": self.fingerprint}
            rows = (torch.from_numpy(pixels)[None] for pixels in self._decoded(sizes))
            save_rows(path, rows, self.shape, {"rows_sizes": sizes}, about, torch.uint8)
        except OSError as error:
            if nbytes <= _memory() / 2:
                decoded = self._in_memory()
                warnings.warn(f"the decoded images could not be cached: {error}", stacklevel=4)
                return decoded
            if self.any_size:
                deque(self._decoded(sizes), maxlen=0)  # images of several sizes will be small
            raise DataError(
                f"the decoded images take {decimal(nbytes)}, too much for the memory, and the "
                f"cache folder {path.parent} cannot hold them ({error}): make room, name a folder "
                "on another disk by NOISEBOUND_CACHE, or scale them down with `image_size`"
            ) from error
        written = self.read_cache(path)
        if written is None:
            raise DataError(f"{path} changed while it was written: is another process clearing it?")
        return replace(written, written=path.stat().st_size)

    def _in_memory(self) -> DecodedImages:
        images = torch.empty(self.shape, dtype=torch.uint8)
        sizes = torch.zeros(len(self.names), 2, dtype=torch.int64)
        for image, pixels in zip(images.numpy(), self._decoded(sizes), strict=True):
            image[...] = pixels
        return self._result(images, sizes, in_memory=True)

    def _result(self, images: Tensor, sizes: Tensor, *, in_memory: bool = False) -> DecodedImages:
        """Return the images without those of size zero, which could not be read."""
        is_kept = sizes.any(1)
        kept, bad = (flags.nonzero().flatten() for flags in (is_kept, ~is_kept))
        rows = TensorRows(images, kept if len(bad) else None)
        return DecodedImages(
            rows.whole() if in_memory else rows,
            tuple(kept.tolist()),
            tuple(self.files.where(self.names[place]) for place in bad),
            frozenset((height, width) for height, width in sizes[kept].tolist()),
        )

    def _decoded(self, sizes: Tensor) -> Iterator[UInt8[np.ndarray, "channels height width"]]:
        """Yield every image, zeros for one that cannot be read; fill in the sizes in the files."""
        bad = []
        ahead = _AHEAD * (os.cpu_count() or 1)  # few results wait in memory
        with limited_pixels():
            outcomes = track(
                done_ahead(self._outcome, self.names, ahead), "images", len(self.names)
            )
            for place, outcome in enumerate(outcomes):
                if isinstance(outcome, str):
                    bad.append(f"{self.files.where(self.names[place])} ({outcome})")
                    yield np.zeros(self.shape[1:], np.uint8)
                    continue
                mode, size, pixels = outcome
                if self.any_mode and mode == "RGB" != self.mode:
                    raise _StartAgain(replace(self, mode="RGB"))
                if self.any_size and size != self.size:
                    raise _StartAgain(replace(self, size=DEFAULT_SIZE, any_size=False))
                sizes[place] = torch.tensor(size)
                yield pixels
        if bad and not self.skip_bad:
            raise DataError(
                f"{len(bad)} of {len(self.names)} images cannot be read:\n{listed(bad)}\n"
                "repair or remove them, or leave them out with `skip_bad`"
            )
        if len(bad) == len(self.names):
            raise DataError(f"{self.files.where()} has no image that can be read")

    def _outcome(self, name: str) -> tuple[Mode, Size, np.ndarray] | str:
        """Return the mode, the size and the pixels of a file, or why it cannot be read."""
        try:
            content = self.files.read(name)
            return *_header(io.BytesIO(content)), _pixels(content, self.mode, self.size)
        except Exception as error:  # Pillow may raise anything on damaged files
            return unreadable_reason(error)


def _memory() -> int:
    """Return the memory of this machine, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def listed(lines: Sequence[str]) -> str:
    """Return the first lines of a list, indented, and how many more there are."""
    more = [f"… and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    return "\n".join(f"  {line}" for line in [*lines[:_SHOWN], *more])
