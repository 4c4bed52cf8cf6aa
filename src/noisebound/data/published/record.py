"""What there is to know of a published data set: its files, their hashes, how to read them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noisebound.data.dataset import Splits
from noisebound.data.formats.archives import Files


@dataclass(frozen=True)
class PublishedFile:
    """A file as its authors publish it.

    Args:
        name: relative to the data set's folder
        hashes: ``algorithm:digest`` of every version in circulation; the first is that of ``url``.
            Empty where none is known, as for the members of an unpacked archive
        url: where to download it
    """

    name: str
    hashes: tuple[str, ...] = ()
    url: str | None = None


@dataclass(frozen=True)
class Release:
    """One of the forms in which a data set is published: all its files have to be there.

    Args:
        files: which
        open: the folder that has them, as named contents
        read: the contents, as the part of the data set that they hold
    """

    files: tuple[PublishedFile, ...]
    open: Callable[[Path], Files]
    read: Callable[[Files], Any]

    @property
    def is_downloadable(self) -> bool:
        """Whether every file has an address."""
        return all(file.url for file in self.files)


def archived(
    file: PublishedFile, kind: Callable[[Path], Files], read: Callable[[Files], Any]
) -> Release:
    """A release that is one zip or tar file."""
    return Release((file,), lambda folder: kind(folder / file.name), read)


@dataclass(frozen=True)
class Part:
    """Files that belong together, in the releases in which they may lie on a disk.

    Args:
        folders: the names that people give to their folder, ours first; "" where the files' own
            names say what they are
        releases: in the order of preference; downloaded is the first that can be
        how_to_obtain: for those that cannot be downloaded
    """

    folders: tuple[str, ...]
    releases: tuple[Release, ...]
    how_to_obtain: str = ""


@dataclass(frozen=True)
class Published:
    """A data set by name.

    Args:
        name: ours
        title: a line for the list
        parts: what it is read from
        assemble: what the parts' releases have read, in order, to training and test examples
        counts: the numbers of training and test examples that it may have
    """

    name: str
    title: str
    parts: tuple[Part, ...]
    assemble: Callable[..., Splits]
    counts: tuple[tuple[int, int], ...]
