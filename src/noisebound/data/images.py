"""Image files: opened as raster formats only, decoded in parallel, cached in a mapped file."""

import errno
import hashlib
import io
import math
import os
import shutil
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from noisebound.data.archives import Files, pixel_limit, readable_size, too_many_pixels
from noisebound.data.cache import cache_folder
from noisebound.data.rows import TensorRows
from noisebound.errors import DataError, InvalidValueError
from noisebound.system.files import load_tensors, save_rows
from noisebound.system.progress import track

Mode: TypeAlias = Literal["L", "RGB"]
Size: TypeAlias = tuple[int, int]
"""Height and width, in pixels."""

DEFAULT_SIZE: Size = (64, 64)
"""For images of different sizes; TinyImageNet's."""

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
    """Return a file's image, decoded, upright and in one mode.

    Args:
        content: the file
        mode: ``"L"`` for one gray channel, ``"RGB"`` for three
        at_least: pixels that each side should keep: a large JPEG is decoded at a fraction of its
            size, several times faster. By default, the full size
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
    if (found := _read_cache(path, files, names)) is not None:
        return found
    # Assume that all images are like the first one, and start again if one is not.
    first_mode, first_size = _first_header(files, names)
    job = _Job(
        files, names, skip_bad, mode or first_mode, size or first_size, mode is None, size is None
    )
    while True:
        try:
            return _decode(job, path)
        except _StartAgain as other:
            job = other.job


def _first_header(files: Files, names: Sequence[str]) -> tuple[Mode, Size]:
    with limited_pixels():
        for name in names:
            with suppress(Exception):  # damaged; reported when it is decoded
                return _header(files.open(name))
    return "L", DEFAULT_SIZE


def _decode(job: "_Job", path: Path) -> DecodedImages:
    nbytes = math.prod(job.shape)
    if len(job.names) < _WORTH_CACHING and nbytes < _WORTH_MAPPING:
        return _decoded_in_memory(job)
    sizes = torch.zeros(len(job.names), 2, dtype=torch.int64)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(path.parent).free < nbytes:
            raise OSError(
                errno.ENOSPC, f"{readable_size(nbytes)} do not fit on the disk", str(path)
            )
        # `save_rows` writes the sizes after the rows, when they are complete.
        about = {"fingerprint": _fingerprint(job.files, job.names)}
        save_rows(path, job.rows(sizes), job.shape, {"rows_sizes": sizes}, about, torch.uint8)
    except OSError as error:
        if nbytes > _memory() / 2:
            if job.any_size:
                deque(job.rows(sizes), maxlen=0)  # images of several sizes will be small
            raise DataError(
                f"the decoded images take {readable_size(nbytes)}, too much for the memory, "
                f"and the cache folder {path.parent} cannot hold them ({error}): make room, name "
                "a folder on another disk by NOISEBOUND_CACHE, or scale them down with `image_size`"
            ) from error
        decoded = _decoded_in_memory(job)
        warnings.warn(f"the decoded images could not be cached: {error}", stacklevel=4)
        return decoded
    written = _read_cache(path, job.files, job.names)
    if written is None:
        raise DataError(f"{path} changed while it was written: is another process clearing it?")
    return replace(written, written=path.stat().st_size)


def cache_notes(*decoded: DecodedImages) -> tuple[str, ...]:
    """Return a note on images that were written to the cache folder, if any were."""
    written = sum(each.written for each in decoded)
    if not written:
        return ()
    return (
        f"the decoded images are kept for the next time: {readable_size(written)} in "
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

    def rows(self, sizes: Int64[Tensor, "n 2"]) -> Iterator[UInt8[Tensor, "1 ..."]]:
        """Yield every image, zeros for one that cannot be read; fill in the sizes in the files."""
        bad = []
        blank = torch.zeros((1, *self.shape[1:]), dtype=torch.uint8)
        for place, outcome in enumerate(track(self._outcomes(), "images", len(self.names))):
            if isinstance(outcome, str):
                bad.append(f"{self.files.where(self.names[place])} ({outcome})")
                yield blank
                continue
            mode, size, pixels = outcome
            if self.any_mode and mode == "RGB" != self.mode:
                raise _StartAgain(replace(self, mode="RGB"))
            if self.any_size and size != self.size:
                raise _StartAgain(replace(self, size=DEFAULT_SIZE, any_size=False))
            sizes[place] = torch.tensor(size)
            yield torch.from_numpy(pixels)[None]
        if bad and not self.skip_bad:
            raise DataError(
                f"{len(bad)} of {len(self.names)} images cannot be read:\n{listed(bad)}\n"
                "repair or remove them, or leave them out with `skip_bad`"
            )
        if len(bad) == len(self.names):
            raise DataError(f"{self.files.where()} has no image that can be read")

    def _outcomes(self) -> Iterator[tuple[Mode, Size, np.ndarray] | str]:
        """Yield the mode, the size and the pixels of each file, or why it cannot be read.

        Few results wait in memory. Threads suffice, because Pillow releases the interpreter's lock
        while it decodes.
        """
        threads = os.cpu_count() or 1
        waiting: deque[Future[tuple[Mode, Size, np.ndarray] | str]] = deque()
        with limited_pixels(), ThreadPoolExecutor(threads) as pool:
            for name in self.names:
                waiting.append(pool.submit(self._outcome, name))
                if len(waiting) > _AHEAD * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def _outcome(self, name: str) -> tuple[Mode, Size, np.ndarray] | str:
        try:
            content = self.files.read(name)
            return *_header(io.BytesIO(content)), _pixels(content, self.mode, self.size)
        except UnidentifiedImageError:
            return "not an image"
        except Image.DecompressionBombError:
            return too_many_pixels()
        except Exception as error:  # Pillow may raise anything on damaged files
            return str(error).strip() or type(error).__name__


def _decoded_in_memory(job: _Job) -> DecodedImages:
    images = torch.empty(job.shape, dtype=torch.uint8)
    sizes = torch.zeros(len(job.names), 2, dtype=torch.int64)
    for place, row in enumerate(job.rows(sizes)):
        images[place] = row[0]
    return _decoded(images, sizes, job.files, job.names, in_memory=True)


def _read_cache(path: Path, files: Files, names: Sequence[str]) -> DecodedImages | None:
    if not path.exists():
        return None
    try:
        # To verify a checksum would read all images at each start.
        tensors, about = load_tensors(path, verify=False)
    except (OSError, DataError):  # damaged: decode again
        return None
    if "rows_sizes" not in tensors or about.get("fingerprint") != _fingerprint(files, names):
        return None
    return _decoded(tensors["rows"], tensors["rows_sizes"], files, names)


def _decoded(
    images: Tensor, sizes: Tensor, files: Files, names: Sequence[str], *, in_memory: bool = False
) -> DecodedImages:
    """Return the images without those of size zero, which could not be read."""
    is_kept = sizes.any(1)
    kept, bad = (flags.nonzero().flatten() for flags in (is_kept, ~is_kept))
    rows = TensorRows(images, kept if len(bad) else None)
    return DecodedImages(
        rows.whole() if in_memory else rows,
        tuple(kept.tolist()),
        tuple(files.where(names[place]) for place in bad),
        frozenset((height, width) for height, width in sizes[kept].tolist()),
    )


def _fingerprint(files: Files, names: Sequence[str]) -> str:
    """Hash of the names, sizes and times of the files, which are not read for it."""
    return hashlib.sha256(os.fsencode("\n".join([files.fingerprint(names), *names]))).hexdigest()


def _memory() -> int:
    """Return the memory of this machine, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def listed(lines: Sequence[str]) -> str:
    """Return the first lines of a list, indented, and how many more there are."""
    more = [f"… and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    return "\n".join(f"  {line}" for line in [*lines[:_SHOWN], *more])
