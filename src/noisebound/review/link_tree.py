"""A tree of links to images, one folder per corrected class; the images stay where they are."""

from itertools import chain, count
from pathlib import Path, PurePosixPath

from noisebound.data.class_folders import find_trees
from noisebound.errors import DataError
from noisebound.review.corrected_labels import corrected_indices, is_unusable
from noisebound.review.decisions import DecisionFile


def link_tree(
    decisions: DecisionFile, images: Path, out: Path, *, drop_unusable: bool = False
) -> int:
    """Make a folder per class with a link to each image that is of it; return how many links.

    An image that changes its class, or lies in a folder of its own, gets its old place into its
    name, as two classes may have files of one name.

    Args:
        decisions: what was decided about the images
        images: the folder that was trained on, with one folder per class
        out: the folder to make, which must be empty or absent
        drop_unusable: True to leave out the images that were found unusable
    """
    data = decisions.data
    if data.names is None or not images.is_dir():
        raise DataError(f"--link-tree is for folders of images, and {images} is none")
    source = find_trees(images)[0].files.path.resolve()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(f"{out} is not empty: name a new folder for the links")
    dropped = is_unusable(decisions) if drop_unusable else None
    links = [
        (source / name, data.class_names[index], _link_name(name, data.class_names[index]))
        for position, (name, index) in enumerate(
            zip(data.names, corrected_indices(decisions).tolist(), strict=True)
        )
        if dropped is None or not dropped[position]
    ]
    missing = next((image for image, *_ in links if not image.is_file()), None)
    if missing is not None:
        raise DataError(f"{missing} is no longer there: restore it, or train again")
    for image, class_name, name in links:
        folder = out / class_name
        folder.mkdir(parents=True, exist_ok=True)
        _free_place(folder / name).symlink_to(image)
    return len(links)


def _link_name(name: str, class_name: str) -> str:
    given, *rest = PurePosixPath(name).parts
    parts = rest if given == class_name else [given, *rest]
    return "--".join(parts)


def _free_place(path: Path) -> Path:
    """Return the path, or one with a number if another image has that name already."""
    places = (path.with_stem(f"{path.stem}--{number}") for number in count(2))
    return next(place for place in chain([path], places) if not place.is_symlink())
