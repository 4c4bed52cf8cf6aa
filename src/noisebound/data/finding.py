"""Published files are looked for on this machine, and their hashes are checked."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from noisebound.data.download import download
from noisebound.data.folders import cache_folder, search_folders
from noisebound.data.published.record import Part, PublishedFile, Release
from noisebound.data.reading import reading
from noisebound.errors import DataError


@dataclass(frozen=True)
class Found:
    """A release that is on this machine.

    Args:
        release: the release
        folder: the folder that the names of its files are relative to
    """

    release: Release
    folder: Path


def find_or_download(part: Part, data_dir: str | Path | None) -> Found:
    """Return a part with its hashes checked; if it is not on this machine, download it first."""
    found = find(part, data_dir) or _download(part, data_dir)
    for file in found.release.files:
        verify(found.folder / file.name, file)
    return found


def find(part: Part, data_dir: str | Path | None) -> Found | None:
    """Return the first complete release in the folders that are searched; None if there is none."""
    for root in search_folders(data_dir):
        for folder in _candidates(root, part):
            for release in part.releases:
                if all((folder / file.name).exists() for file in release.files):
                    return Found(release, folder)
    return None


def verify(path: Path, file: PublishedFile) -> None:
    """Raise a `DataError` if a file's content is not what was published."""
    if not file.hashes or not path.is_file():
        return
    algorithm = file.hashes[0].partition(":")[0]
    with reading(path), path.open("rb") as stream:
        digest = hashlib.file_digest(stream, algorithm).hexdigest()
    if f"{algorithm}:{digest}" not in file.hashes:
        raise DataError(
            f"{path} is not the file that was published: its {algorithm} is {digest}, expected "
            f"{file.hashes[0].partition(':')[2]}; it is truncated or altered: remove it and fetch "
            "it again"
        )


def _candidates(root: Path, part: Part) -> list[Path]:
    """Return the folders of a part; ``root`` may be one of them, or the folder that has them."""
    inside = [root / folder for folder in part.folders]
    return [root, *inside] if root.name in part.folders else inside


def _download(part: Part, data_dir: str | Path | None) -> Found:
    target = cache_folder() / part.folders[0]
    release = next((release for release in part.releases if release.is_downloadable), None)
    if release is None:
        places = " or ".join(str(root / part.folders[0]) for root in search_folders(data_dir)[:-1])
        raise DataError(f"{part.how_to_obtain} in {places}")
    for file in release.files:
        if file.url is not None:
            download(file.url, file.hashes[0], target / file.name)
    return Found(release, target)
