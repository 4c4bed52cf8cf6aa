"""A tree of links to images, one folder per corrected class; the images stay where they are."""

from pathlib import Path, PurePosixPath

from noisebound.data.user.image_folder import find_trees
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
    classes = corrected_indices(decisions).tolist()
    for position, (name, index) in enumerate(zip(data.names, classes, strict=True)):
        if dropped is not None and dropped[position]:
            continue
        image, folder = source / name, out / data.class_names[index]
        if not image.is_file():
            raise DataError(f"{image} is no longer there: restore it, or train again")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _link_name(name, data.class_names[index])).symlink_to(image)
    return len(data) if dropped is None else len(data) - int(dropped.sum())


def _link_name(name: str, class_name: str) -> str:
    given, *rest = PurePosixPath(name).parts
    parts = rest if given == class_name else [given, *rest]
    return "--".join(parts)
