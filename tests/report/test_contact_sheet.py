"""Figures of many small images."""

import pytest
import torch

from noisebound.report.contact_sheet import contact_sheet


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 8, 6), (4, 5, 5)])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_every_kind_of_image(shape, dtype):
    images = (200 * torch.rand(5, *shape, generator=torch.Generator().manual_seed(0))).to(dtype)
    figure = contact_sheet(images, [f"${place} & <b>" for place in range(5)], "title")
    figure.canvas.draw()  # a dollar sign must not begin a formula
    shown = [axes for axes in figure.axes if axes.images]
    assert [axes.get_title() for axes in shown] == [f"${place} & <b>" for place in range(5)]
    array = shown[0].images[0].get_array()
    assert array.shape[:2] == shape[1:]
    assert 0 <= array.min() <= array.max() <= 1


def test_rows_and_an_even_image():
    figure = contact_sheet(torch.full((17, 1, 2, 2), 3.0), [""] * 17, "")
    figure.canvas.draw()
    assert len({round(axes.get_position().y0, 3) for axes in figure.axes if axes.images}) == 3


def test_none():
    contact_sheet(torch.empty(0, 1, 2, 2), [], "").canvas.draw()
