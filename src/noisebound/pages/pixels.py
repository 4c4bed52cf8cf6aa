"""The picture of suspect masks: each image with its mask, and with the probably wrong pixels."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from noisebound.errors import InvalidValueError
from noisebound.estimation import PixelSuspects
from noisebound.pages.page import Page, Picture, Section
from noisebound.pages.table import Cell, Row, Table, number_cell

_COLORS = ("#000000", "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#F0E442", "#999999")
_WRONG = "#D55E00"
_SIDE = 1.5  # inches of a panel


def pixels_page(
    found: PixelSuspects, images: Any, class_names: Sequence[str], most: int = 8
) -> Page:
    """Return a page with the most suspect images and regions of segmentation masks."""
    rows = [
        Row(
            str(each.image),
            (
                Cell(f"{each.rows[0]} to {each.rows[1] - 1}", "", each.rows[0]),
                Cell(f"{each.columns[0]} to {each.columns[1] - 1}", "", each.columns[0]),
                number_cell(each.pixels, ",d"),
                Cell(class_names[each.label]),
                Cell(class_names[each.suggested]),
                number_cell(each.expected_wrong, ",.1f"),
            ),
        )
        for each in found.regions[: 8 * most]
    ]
    header = ("image", "rows", "columns", "pixels", "label", "likelier", "expected wrong pixels")
    table = Table("regions", "Regions", header, tuple(rows))
    text = "Masks above, and below them the pixels whose label is probably wrong, in red."
    picture = Picture(overlay_figure(found, images, most), "The most suspect images and masks")
    sections = [
        Section("The most suspect images", text, pictures=[picture]),
        Section("The most suspect regions", "", [table]),
    ]
    share = float(found.wrong_share.mean())
    headline = f"About {share:.1%} of the pixels of {len(found.wrong_share):,} masks are wrong."
    return Page("Suspect masks", headline, sections)


def overlay_figure(found: PixelSuspects, images: Any, most: int = 8) -> Figure:
    """Return a picture of the most suspect images, with their masks and the suspect pixels.

    Args:
        found: the suspects
        images: ``[n, height, width]``, or with channels first
        most: the number of images
    """
    if len(images) != len(found.wrong_share):
        raise InvalidValueError(
            f"`images` must be the {len(found.wrong_share)} of the masks, got {len(images)}"
        )
    chosen = found.ranking[:most].tolist()
    figure = Figure(figsize=(_SIDE * len(chosen), 2.3 * _SIDE), layout="constrained")
    panels = figure.subplots(2, len(chosen), squeeze=False)
    for (above, below), place in zip(panels.T, chosen, strict=True):
        image, mask = (np.asarray(values[place]) for values in (images, found.labels))
        if image.ndim == 3:
            image = np.moveaxis(image, 0, -1)[..., :3]
        wrong = found.of_image(place)[0].numpy()
        for axes in (above, below):
            axes.imshow(image.squeeze(), cmap="gray")
            axes.set_axis_off()
        colors = ListedColormap(_COLORS)
        hidden = np.ma.masked_where(mask <= 0, mask % len(_COLORS))
        above.imshow(hidden, cmap=colors, vmin=0, vmax=len(_COLORS) - 1, alpha=0.6)
        below.imshow(np.ones_like(wrong), cmap=ListedColormap([_WRONG]), alpha=0.8 * wrong)
        above.set_title(f"{place}: {found.wrong_share[place]:.0%} wrong", fontsize=8)
    return figure
