"""The sections on duplicates and outliers."""

from dataclasses import replace

import torch

from noisebound.data import Dataset, Splits
from noisebound.pages.suspects import closeness_sections


def closeness_of(inputs, labels, **parts):
    data = Dataset(inputs, labels, ("cat", "dog"))
    return closeness_sections(replace(Splits("x", data, None, "memory"), **parts))


def test_copies_with_different_labels_come_first_and_measure_the_noise():
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(40, 5, generator=generator).repeat(2, 1)
    labels = torch.arange(40).repeat(2) % 2
    labels[[47, 49]] = 0
    (section,) = closeness_of(inputs, labels)
    assert section.title == "Duplicates"
    assert section.text.startswith(
        "80 examples are copies or near copies of one another, in 40 sets"
    )
    assert "2 of them with different labels" in section.text
    assert "agree in 95.0% of the pairs" in section.text
    first, second, third, *_ = section.tables[0].rows
    assert (first.label, first.cells[0].text) == ("#7 = #47", "dog, cat")
    assert second.label == "#9 = #49"
    assert third.cells[0].text == "cat, cat"


def test_outliers_are_ranked_and_named():
    inputs = torch.randn(200, 5, generator=torch.Generator().manual_seed(1))
    inputs[3] += 40
    inputs[8] += 80
    names = tuple(f"photo-{place}.png" for place in range(200))
    (section,) = closeness_of(inputs, torch.arange(200) % 2, train_names=names)
    assert section.title == "Outliers"
    assert [row.label for row in section.tables[0].rows] == ["photo-8.png", "photo-3.png"]
    pictures = [torch.zeros(3, 2, 2, dtype=torch.uint8)] * 200
    (section,) = closeness_of(inputs, torch.arange(200) % 2, pictures=pictures.__getitem__)
    assert [each.lines[0] for each in section.gallery] == ["#8", "#3"]


def test_plain_data_has_neither_section():
    inputs = torch.randn(300, 5, generator=torch.Generator().manual_seed(2))
    assert closeness_of(inputs, torch.arange(300) % 2) == []
    pixels = torch.randint(256, (60, 1, 4, 4), dtype=torch.uint8)
    assert closeness_of(pixels, torch.arange(60) % 2) == []
