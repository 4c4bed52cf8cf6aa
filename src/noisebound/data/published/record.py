"""Records of published data sets: their files, the files' hashes, and how to read them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisebound.data.formats.archives import Files

if TYPE_CHECKING:
    from noisebound.data.dataset import Splits


@dataclass(frozen=True)
class PublishedFile:
    """A file as its authors publish it.

    Args:
        name: its path, relative to the data set's folder
        hashes: ``algorithm:digest`` of every version in circulation, first that of ``url``; empty
            if none is known, as for the files of an unpacked archive
        url: where to download it; None if it cannot be downloaded
    """

    name: str
    hashes: tuple[str, ...] = ()
    url: str | None = None


@dataclass(frozen=True)
class Release:
    """One of the forms in which a data set is published.

    Args:
        files: the files, all of which it needs
        open: returns the files of the folder that they are in
        read: returns the part of the data set that the files hold
    """

    files: tuple[PublishedFile, ...]
    open: Callable[[Path], Files]
    read: Callable[[Files], Any]

    @property
    def is_downloadable(self) -> bool:
        """True if every file has a ``url``."""
        return all(file.url for file in self.files)


def archived(
    file: PublishedFile, kind: Callable[[Path], Files], read: Callable[[Files], Any]
) -> Release:
    """Return a release that is one zip or tar file.

    Args:
        file: the archive
        kind: opens the archive: ``Zip`` or ``Tar``
        read: returns the part of the data set that the archive holds
    """
    return Release((file,), lambda folder: kind(folder / file.name), read)


@dataclass(frozen=True)
class Part:
    """A part of a data set, in every release in which it may be on a disk.

    Args:
        folders: the names that its folder may have, first the one that downloads go to; ``""`` if
            its files may be in no folder of their own, because their names are distinctive
        releases: in the order of preference; the first that is downloadable is downloaded
        how_to_obtain: how to obtain the files if none is downloadable; the beginning of a sentence
            that ends with the folder to put them in
    """

    folders: tuple[str, ...]
    releases: tuple[Release, ...]
    how_to_obtain: str = ""


@dataclass(frozen=True)
class Published:
    """A data set that is known by name.

    Args:
        name: its name in this library
        title: its description in the list of data sets
        parts: the parts that it is read from
        assemble: returns training and test examples from what was read, one argument per part
        counts: the pairs of numbers of training and test examples that it may have
    """

    name: str
    title: str
    parts: tuple[Part, ...]
    assemble: "Callable[..., Splits]"
    counts: tuple[tuple[int, int], ...]
