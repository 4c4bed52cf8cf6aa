"""Labeled images that are not decoded yet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from jaxtyping import Bool
from torch import Tensor

from noisebound.checks import check_count
from noisebound.data.dataset import Dataset, check_classes_left
from noisebound.data.files import Files
from noisebound.data.images import DecodedImages, decode_once, listed
from noisebound.data.options import ReadingOptions
from noisebound.data.splits import Splits


@dataclass(frozen=True, eq=False)
class ImageSplits(Splits):
    """Labeled images, whose inputs are empty until they are decoded or embedded.

    Args:
        files: the files of all images
        images: the names of the training images among them, and of the test images
    """

    files: Files = field(kw_only=True)
    images: Mapping[str, Sequence[str]] = field(kw_only=True)

    def decoded(self, options: ReadingOptions) -> Splits:
        """Return the images as pixels, all of one size."""
        size = None
        if options.image_size is not None:
            check_count("image_size", options.image_size)
            size = (options.image_size, options.image_size)
        names = [name for part in self.images.values() for name in part]
        found = decode_once(self.files, names, size=size, skip_bad=options.skip_bad)
        height, width = found.images.shape[2:]
        notes = self.notes
        if found.sizes != {(height, width)}:
            notes += (f"images of {len(found.sizes)} sizes were brought to {height}×{width}",)
        if found.bad:
            notes += (f"{len(found.bad)} unreadable images were left out:\n{listed(found.bad)}",)
        count = len(self.train)
        train = _with_pixels(self.train, found, 0)
        check_classes_left(self.train.labels, train.labels, train.class_names, "image")
        whole = {each.name: getattr(self, each.name) for each in fields(Splits)}
        return replace(
            Splits(**whole),
            train=train,
            test=self.test and _with_pixels(self.test, found, count),
            notes=(*notes, *found.notes),
            **self._rows(found.is_kept[:count]),
        )

    def _rows(self, is_kept: Bool[Tensor, " n"]) -> dict[str, Any]:
        """Return what is known of each training example, without the unreadable ones."""
        names = self.train_names if bool(is_kept.all()) else self.names
        kept = is_kept.nonzero().flatten().tolist()
        return {
            "train_names": None if names is None else tuple(names[place] for place in kept),
            "table": None if self.table is None else self.table[kept],
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the training examples, by default their positions."""
        return self.train_names or tuple(map(str, range(len(self.train))))


def _with_pixels(data: Dataset, found: DecodedImages, start: int) -> Dataset:
    stop = start + len(data)
    kept = data.subset(found.is_kept[start:stop])
    return replace(kept, inputs=found.part(start, stop))
