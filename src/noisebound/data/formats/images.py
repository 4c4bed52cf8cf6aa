"""Image files, decoded by Pillow in parallel, one after the other and never all in memory."""

import io
import os
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

import numpy as np
from jaxtyping import UInt8
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from noisebound.data.formats.archives import Files
from noisebound.data.limits import pixel_limit, too_many_pixels
from noisebound.errors import DataError, InvalidValueError
from noisebound.progress import track

Mode: TypeAlias = Literal["L", "RGB"]
Result = TypeVar("Result")
_GRAY = {"1", "L", "I", "I;16", "I;16B", "I;16L", "F"}
_QUARTER_TURNS = (5, 6, 7, 8)  # EXIF orientations that exchange height and width
# Pillow looks at a file's content, not at its ending, and runs other programs for some formats:
# Ghostscript for EPS. So only raster formats that Pillow decodes itself are allowed.
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")
_SHOWN = 20  # lines of a list in a message: a choice
_AHEAD = 4  # images per thread that are decoded before the first of them is asked for: a choice


@dataclass(frozen=True)
class _Bad:
    """The outcome for a file that cannot be read."""

    reason: str


def probe_images(files: Files, names: Sequence[str]) -> tuple[Mode, set[tuple[int, int]]]:
    """Return the mode that fits all images, and their sizes ``(height, width)``.

    Only headers are read. The mode is ``"L"`` if all images are gray, else ``"RGB"``. Files that
    cannot be read are left out.
    """
    found = [
        header
        for header in _in_parallel(lambda name: _header(files.read(name)), names, "headers")
        if not isinstance(header, _Bad)
    ]
    mode: Mode = "L" if all(mode in _GRAY for mode, _ in found) else "RGB"
    return mode, {size for _, size in found}


def decoded_one_by_one(
    files: Files, names: Sequence[str], *, mode: Mode, size: tuple[int, int], skip_bad: bool = False
) -> Iterator[tuple[int, UInt8[np.ndarray, "channels height width"]]]:
    """Yield the position and the pixels of every image that can be read, in one mode and size.

    Args:
        files: where the files are
        names: names of the files
        mode: ``"L"`` for one gray channel, ``"RGB"`` for three
        size: height and width; an image of another size is scaled and cropped at its center
        skip_bad: leave out images that cannot be read

    Raises:
        DataError: images cannot be read, and ``skip_bad`` is false; the message lists them
    """
    bad = []
    outcomes = _in_parallel(lambda name: _pixels(files.read(name), mode, size), names, "images")
    for position, outcome in enumerate(outcomes):
        if isinstance(outcome, _Bad):
            bad.append(f"{files.where(names[position])} ({outcome.reason})")
        else:
            yield position, outcome
    if bad and not skip_bad:
        raise DataError(
            f"{len(bad)} of {len(names)} images cannot be read:\n{listed(bad)}\n"
            "repair or remove them, or leave them out with `skip_bad`"
        )
    if len(bad) == len(names):
        raise DataError(f"{files.where()} has no image that can be read")


def image_extensions() -> frozenset[str]:
    """Return the file extensions of images, such as ``.png``, in lower case."""
    registered = Image.registered_extensions()
    return frozenset(ending for ending, kind in registered.items() if kind in _FORMATS)


def opened_image(content: bytes) -> Image.Image:
    """Return the image in a file, not yet decoded; only raster formats are tried."""
    return Image.open(io.BytesIO(content), formats=_FORMATS)


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
        except Exception as error:  # what Pillow raises on damaged files is not a closed list
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


@contextmanager
def limited_pixels() -> Iterator[None]:
    """Make Pillow refuse images of more pixels than the limit, by their headers.

    Pillow's own limit is a global, beyond which it warns, and beyond twice of which it refuses.
    """
    before = Image.MAX_IMAGE_PIXELS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        Image.MAX_IMAGE_PIXELS = pixel_limit() // 2
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = before


def _header(content: bytes) -> tuple[str, tuple[int, int]]:
    """Return the mode and the size after orientation; the pixels are not decoded."""
    with opened_image(content) as image:
        # The base class's method, because that of PNG decodes all pixels to look behind them too.
        is_turned = Image.Image.getexif(image).get(ExifTags.Base.Orientation, 1) in _QUARTER_TURNS
        return image.mode, (image.width, image.height) if is_turned else (image.height, image.width)


def open_image(content: bytes, mode: Mode, *, at_least: int | None = None) -> Image.Image:
    """Return a file's image, decoded, upright and in one mode.

    Args:
        content: the file
        mode: ``"L"`` for one gray channel, ``"RGB"`` for three
        at_least: pixels that each side should keep; a large JPEG is then decoded to a fraction of
            its size, which is several times faster. None for the image as it is
    """
    with opened_image(content) as opened:
        if at_least is not None:
            opened.draft(None, (at_least, at_least))
        image = _eight_bits(ImageOps.exif_transpose(opened))
        if "transparency" in image.info:
            image = image.convert("RGBA")
        return image.convert(mode)


def _pixels(
    content: bytes, mode: Mode, size: tuple[int, int]
) -> UInt8[np.ndarray, "channels height width"]:
    height, width = size
    image = open_image(content, mode)
    if (image.height, image.width) != size:
        image = ImageOps.fit(image, (width, height), Image.Resampling.BILINEAR)
    pixels = np.array(image)
    return pixels[None] if mode == "L" else pixels.transpose(2, 0, 1)


def _eight_bits(image: Image.Image) -> Image.Image:
    """Return the image with gray values of one byte; Pillow would clip wider ones at 255."""
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode not in ("I", "F"):
        return image
    # 32-bit values do not say their range; the largest one tells if it ends at 1, 255 or 65535.
    values = np.asarray(image).astype(np.float64)
    least, most = values.min(), values.max()
    if not (least >= 0 and most <= 65535):
        raise InvalidValueError(f"gray values must be from 0 to 65535, got {least:g} to {most:g}")
    scale = 255 if image.mode == "F" and most <= 1 else 1 if most <= 255 else 1 / 257
    return Image.fromarray(np.rint(values * scale).astype(np.uint8))


def listed(lines: Sequence[str]) -> str:
    """Return the lines of a list, indented; of many, the first and how many more there are."""
    more = [f"… and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    return "\n".join(f"  {line}" for line in [*lines[:_SHOWN], *more])
