"""Image files: opened as raster formats only, decoded in parallel, cached in a mapped file."""

import errno
import hashlib
import io
import math
import os
import shutil
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias, TypeVar

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from noisebound.data.archives import Files, pixel_limit, readable_size, too_many_pixels
from noisebound.data.cache import cache_folder
from noisebound.data.rows import TensorRows
from noisebound.errors import DataError, InvalidValueError
from noisebound.system.files import load_tensors, save_rows, save_tensors
from noisebound.system.progress import track

Mode: TypeAlias = Literal["L", "RGB"]
Result = TypeVar("Result")
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


def _pixels(
    content: bytes, mode: Mode, size: tuple[int, int]
) -> UInt8[np.ndarray, "channels height width"]:
    height, width = size
    image = open_image(content, mode)
    if (image.height, image.width) != size:
        image = ImageOps.fit(image, (width, height), Image.Resampling.BILINEAR)
    pixels = np.array(image)
    return pixels[None] if mode == "L" else pixels.transpose(2, 0, 1)


def _header(file: BinaryIO) -> tuple[str, tuple[int, int]]:
    """Return the mode and the size after orientation; no pixels are decoded."""
    with file, opened_image(file) as image:
        # The base class's method, because that of PNG decodes all pixels to find EXIF after them.
        is_turned = Image.Image.getexif(image).get(ExifTags.Base.Orientation, 1) in _QUARTER_TURNS
        return image.mode, (image.width, image.height) if is_turned else (image.height, image.width)


@dataclass(frozen=True)
class _Bad:
    """The outcome for a file that cannot be read."""

    reason: str


def _in_parallel(
    work: Callable[[str], Result], names: Sequence[str], description: str
) -> Iterator[Result | _Bad]:
    """Yield ``work(name)``, or a `_Bad` if it fails, for each name; few results wait in memory.

    Threads suffice, because Pillow releases the interpreter's lock while it decodes.
    """

    def attempt(name: str) -> Result | _Bad:
        try:
            return work(name)
        except UnidentifiedImageError:
            return _Bad("not an image")
        except Image.DecompressionBombError:
            return _Bad(too_many_pixels())
        except Exception as error:  # Pillow may raise anything on damaged files
            return _Bad(str(error).strip() or type(error).__name__)

    def outcomes() -> Iterator[Result | _Bad]:
        threads = os.cpu_count() or 1
        waiting: deque[Future[Result | _Bad]] = deque()
        with limited_pixels(), ThreadPoolExecutor(threads) as pool:
            for name in names:
                waiting.append(pool.submit(attempt, name))
                if len(waiting) > _AHEAD * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    return track(outcomes(), description, total=len(names))


def probe_once(files: Files, names: Sequence[str]) -> tuple[Mode, set[tuple[int, int]]]:
    """Return the mode that fits all images, and their sizes ``(height, width)``.

    Only headers are read, and those of many files are cached. The mode is ``"L"`` if all images are
    gray, else ``"RGB"``. Files that cannot be read are left out.
    """
    if len(names) < _WORTH_CACHING:
        return _probe(files, names)
    path = _place("headers", f"{files.where()}|{names[0]}")
    fingerprint = _fingerprint(files, names)
    try:
        _, known = load_tensors(path)
    except (OSError, DataError):  # absent or damaged
        known = {}
    if known.get("fingerprint") != fingerprint:
        mode, sizes = _probe(files, names)
        known = {"fingerprint": fingerprint, "mode": mode, "sizes": sorted(sizes)}
        with suppress(OSError):  # the larger cache of the images reports it
            save_tensors(path, {}, known)
    return known["mode"], {(height, width) for height, width in known["sizes"]}


def _probe(files: Files, names: Sequence[str]) -> tuple[Mode, set[tuple[int, int]]]:
    headers = _in_parallel(lambda name: _header(files.open(name)), names, "headers")
    found = [header for header in headers if not isinstance(header, _Bad)]
    mode: Mode = "L" if all(mode in _GRAY for mode, _ in found) else "RGB"
    return mode, {size for _, size in found}


@dataclass(frozen=True, eq=False)
class DecodedImages:
    """Images of one size.

    Args:
        images: the images that could be read, in memory or in a mapped file
        kept: position, among the requested names, of each of ``images``
        bad: the files that could not be read
        written: size of the file that was written to the cache folder, in bytes; 0 without one
    """

    images: UInt8[Tensor, "n channels height width"] | TensorRows
    kept: tuple[int, ...]
    bad: tuple[str, ...]
    written: int = 0


def decode_once(
    files: Files, names: Sequence[str], *, mode: Mode, size: tuple[int, int], skip_bad: bool = False
) -> DecodedImages:
    """Decode every image to one mode and one size, or return them from the cache.

    The cache has one file per source, mode and size; it is rewritten when the images have changed.
    Images are written to it as they are decoded and then mapped, so they need not fit into memory.
    An image of another size is scaled and cropped at its center.

    Raises:
        DataError: images cannot be read and ``skip_bad`` is false, or no disk has room for them
    """
    job = _Job(files, names, mode, size, skip_bad)
    if len(names) < _WORTH_CACHING and job.nbytes < _WORTH_MAPPING:
        return _decoded_in_memory(job)
    path = _place("decoded", f"{files.where()}|{names[0]}|{mode}|{size}|{skip_bad}")
    fingerprint = _fingerprint(files, names)
    found = _read_cache(path, fingerprint, job)
    if found is not None:
        return found
    try:
        _write_cache(path, fingerprint, job)
    except OSError as error:
        if job.nbytes > _memory() / 2:
            raise DataError(
                f"the decoded images take {readable_size(job.nbytes)}, too much for the memory, "
                f"and the cache folder {path.parent} cannot hold them ({error}): make room, name "
                "a folder on another disk by NOISEBOUND_CACHE, or scale them down with `image_size`"
            ) from error
        warnings.warn(f"the decoded images could not be cached: {error}", stacklevel=3)
        return _decoded_in_memory(job)
    written = _read_cache(path, fingerprint, job, written=path.stat().st_size)
    if written is None:
        raise DataError(f"{path} changed while it was written: is another process clearing it?")
    return written


def cache_notes(*decoded: DecodedImages) -> tuple[str, ...]:
    """Return a note on images that were written to the cache folder, if any were."""
    written = sum(each.written for each in decoded)
    if not written:
        return ()
    return (
        f"the decoded images are kept for the next time: {readable_size(written)} in "
        f"{cache_folder() / 'decoded'}; noisebound data cache lists what is kept and clears it",
    )


@dataclass(frozen=True, eq=False)
class _Job:
    """Images to decode, and how."""

    files: Files
    names: Sequence[str]
    mode: Mode
    size: tuple[int, int]
    skip_bad: bool

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The shape of all images."""
        return (len(self.names), 1 if self.mode == "L" else 3, *self.size)

    @property
    def nbytes(self) -> int:
        """The size of all images, decoded."""
        return math.prod(self.shape)

    def images(self) -> Iterator[np.ndarray | None]:
        """Yield the pixels of every image, None for one that cannot be read."""
        bad = []
        decode = _in_parallel(
            lambda name: _pixels(self.files.read(name), self.mode, self.size), self.names, "images"
        )
        for name, outcome in zip(self.names, decode, strict=True):
            if isinstance(outcome, _Bad):
                bad.append(f"{self.files.where(name)} ({outcome.reason})")
                yield None
            else:
                yield outcome
        if bad and not self.skip_bad:
            raise DataError(
                f"{len(bad)} of {len(self.names)} images cannot be read:\n{listed(bad)}\n"
                "repair or remove them, or leave them out with `skip_bad`"
            )
        if len(bad) == len(self.names):
            raise DataError(f"{self.files.where()} has no image that can be read")

    def outcome(
        self, images: Tensor | TensorRows, is_kept: Tensor, written: int = 0
    ) -> DecodedImages:
        """Return the images with the names of the files that could not be read."""
        bad = tuple(self.files.where(self.names[place]) for place in (~is_kept).nonzero())
        return DecodedImages(images, tuple(is_kept.nonzero().flatten().tolist()), bad, written)


def _decoded_in_memory(job: _Job) -> DecodedImages:
    images = torch.empty(job.shape, dtype=torch.uint8)
    is_kept = torch.zeros(len(job.names), dtype=torch.bool)
    count = 0
    for place, pixels in enumerate(job.images()):
        if pixels is not None:
            images[count] = torch.from_numpy(pixels)
            is_kept[place] = True
            count += 1
    return job.outcome(images[:count], is_kept)


def _write_cache(path: Path, fingerprint: str, job: _Job) -> None:
    """Write the images as they are decoded; the rows of unreadable ones are zero."""
    is_kept = torch.zeros(len(job.names), dtype=torch.uint8)

    def rows() -> Iterator[Tensor]:
        blank = torch.zeros((1, *job.shape[1:]), dtype=torch.uint8)
        for place, pixels in enumerate(job.images()):
            is_kept[place] = pixels is not None
            yield blank if pixels is None else torch.from_numpy(pixels)[None]

    _check_room(path, job.nbytes)
    # `save_rows` writes the flags after the rows, when they are complete.
    about = {"fingerprint": fingerprint}
    save_rows(path, rows(), job.shape, {"rows_kept": is_kept}, about, torch.uint8)


def _read_cache(path: Path, fingerprint: str, job: _Job, written: int = 0) -> DecodedImages | None:
    try:
        # To verify a checksum would read all images at each start.
        tensors, about = load_tensors(path, verify=False)
    except (OSError, DataError):  # absent or damaged: decode again
        return None
    images = tensors.get("rows")
    if about.get("fingerprint") != fingerprint or images is None or images.shape != job.shape:
        return None
    is_kept = tensors["rows_kept"].bool()
    rows = TensorRows(images, None if is_kept.all() else is_kept.nonzero().flatten())
    return job.outcome(rows, is_kept, written)


def _place(kind: str, key: str) -> Path:
    digest = hashlib.sha256(os.fsencode(key)).hexdigest()[:24]
    return cache_folder() / kind / f"{digest}.safetensors"


def _fingerprint(files: Files, names: Sequence[str]) -> str:
    """Hash of the names, sizes and times of the files, which are not read for it."""
    return hashlib.sha256(os.fsencode("\n".join([files.fingerprint(names), *names]))).hexdigest()


def _check_room(path: Path, needed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(path.parent).free < needed:
        raise OSError(errno.ENOSPC, f"{readable_size(needed)} do not fit on the disk", str(path))


def _memory() -> int:
    """Return the memory of this machine, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def listed(lines: Sequence[str]) -> str:
    """Return the first lines of a list, indented, and how many more there are."""
    more = [f"… and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    return "\n".join(f"  {line}" for line in [*lines[:_SHOWN], *more])
