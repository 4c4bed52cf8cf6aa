"""The pictures of examples as a browser shows them, each made once and kept in the cache folder."""

import io
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias

from noisebound.data import Splits
from noisebound.data.archives import Folder, files_fingerprint
from noisebound.data.cache import cache_folder
from noisebound.data.class_folders import find_trees
from noisebound.data.images import open_image
from noisebound.errors import DataError
from noisebound.features.load import is_image_folder
from noisebound.files import written_whole
from noisebound.report.embedding import png
from noisebound.report.gallery import as_picture

Size: TypeAlias = Literal["thumbnail", "large"]
SIZES: dict[Size, int] = {"thumbnail": 256, "large": 1600}
"""The sizes of pictures, with the most pixels that a side has: a choice."""

_QUALITY = 85  # of JPEG: a choice at which no loss is seen


class Pictures:
    """The pictures of a data set's training examples.

    Where the examples are files, the files are shown, and not the small images that a network was
    trained on. A file that lies outside the data's folder, behind a link, is not opened.

    Args:
        splits: the data, which has pictures
    """

    def __init__(self, splits: Splits) -> None:
        self.splits = splits
        self._files: Folder | None = None
        self._names: Sequence[str] = ()
        if splits.train_names is not None and is_image_folder(splits.source):
            self._files, self._names = find_trees(Path(splits.source))[0].files, splits.train_names

    def read(self, position: int, size: Size) -> tuple[bytes, str]:
        """Return a picture's file and its media type.

        Args:
            position: of the training example
            size: ``"thumbnail"`` for at most 256 pixels, ``"large"`` for at most 1,600
        """
        path = self._path(position)
        if path is None:
            return self._of_pixels(position)
        kept = _place(path, size)
        try:
            return kept.read_bytes(), "image/jpeg"
        except OSError:  # it is not kept yet, or cannot be
            content = _scaled(path.read_bytes(), SIZES[size])
            with suppress(OSError), written_whole(kept, len(content)) as part:
                part.write_bytes(content)  # a full disk hides no picture
            return content, "image/jpeg"

    def _path(self, position: int) -> Path | None:
        """Return the example's own file; None if it has none inside the data's folder."""
        if self._files is None:
            return None
        folder = self._files.path.resolve()
        path = (folder / self._names[position]).resolve()
        return path if path.is_relative_to(folder) and path.is_file() else None

    def _of_pixels(self, position: int) -> tuple[bytes, str]:
        image = self.splits.picture(position)
        if image is None:
            raise DataError("these examples are no images")
        return png(as_picture(image)), "image/png"


def _place(path: Path, size: Size) -> Path:
    """Return the file in the cache folder that keeps this size of an image, until it changes."""
    mark = files_fingerprint([path])[:32]
    return cache_folder() / "thumbnails" / mark[:2] / f"{mark}-{size}.jpg"


def _scaled(content: bytes, longest_side: int) -> bytes:
    """Return an image as a JPEG file, upright, whose sides are no longer than this."""
    image = open_image(content, "RGB", at_least=longest_side)
    image.thumbnail((longest_side, longest_side))
    stream = io.BytesIO()
    image.save(stream, format="JPEG", quality=_QUALITY)
    return stream.getvalue()
