"""The page of suspect masks: a picture with overlays, and a table of regions."""

import numpy as np
import pytest

import noisebound as nb
from noisebound.pages.page import to_html
from noisebound.pages.pixels import overlay_figure, pixels_page


@pytest.fixture
def found():
    masks = np.zeros((12, 8, 8), dtype=np.int64)
    masks[:, :, 4:] = 1
    probs = np.moveaxis(np.eye(2)[masks] * 0.9 + 0.05, -1, 1)
    masks[7, 2:4, 2:4] = 1
    return nb.find_pixel_suspects(probs, masks)


@pytest.mark.parametrize("shape", [(12, 8, 8), (12, 3, 8, 8), (12, 1, 8, 8)])
def test_the_most_suspect_image_is_first(found, shape):
    figure = overlay_figure(found, np.random.default_rng(0).random(shape), most=3)
    assert len(figure.axes) == 6
    assert figure.axes[0].get_title().startswith("7: ")
    overlay = figure.axes[3].images[1]
    assert np.argwhere(overlay.get_alpha() > 0.4).tolist() == [[2, 2], [2, 3], [3, 2], [3, 3]]


def test_the_page_lists_regions(found):
    page = to_html(pixels_page(found, np.zeros((12, 8, 8)), ["sky", "sea"]))
    assert "2 to 3" in page
    assert page.index(">sea<") < page.index(">sky<")
    assert "of the pixels of 12 masks are wrong" in page


def test_images_must_be_those_of_the_masks(found):
    with pytest.raises(nb.NoiseboundError, match="`images` must be the 12 of the masks, got 3"):
        overlay_figure(found, np.zeros((3, 8, 8)))
