"""A page fetches nothing, escapes every text and shows every part."""

from html.parser import HTMLParser

import torch
from matplotlib.figure import Figure

from noisebound.pages.page import (
    Code,
    Fact,
    Page,
    Picture,
    Section,
    thumbnail,
    to_html,
    write_page,
)
from noisebound.pages.table import Cell, Row, Table

EVIL = "<script>alert(1)</script>"


class Elements(HTMLParser):
    """Collects the tags with their attributes, and the text between them."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)

    def named(self, name):
        return [attributes for tag, attributes in self.tags if tag == name]


def evil_page():
    figure = Figure()
    figure.subplots().set_title(EVIL)
    table = Table(
        "t",
        EVIL,
        (EVIL, EVIL),
        (
            Row(EVIL, (Cell(EVIL, EVIL, 1.5, is_best=True, is_gain=True),), is_shaded=True),
            Row("x", (Cell("–"),)),
        ),
        notes=(EVIL,),
    )
    heat_map = Table("h", EVIL, (EVIL, EVIL), (Row(EVIL, (Cell(EVIL, share=0.5),)),))
    gallery = [thumbnail(torch.zeros(1, 8, 8), EVIL, [EVIL])]
    pictures, code = [Picture(figure, EVIL)], [Code(EVIL, EVIL)]
    section = Section(EVIL, EVIL, [table, heat_map], pictures, gallery, code)
    return Page(EVIL, EVIL, [section], [Fact(EVIL, EVIL)])


def test_labels_stay_text():
    elements = Elements(to_html(evil_page()))
    assert len(elements.named("script")) == 1  # ours
    assert "".join(elements.text).count(EVIL) == 22
    assert [image["alt"] for image in elements.named("img")] == [EVIL, EVIL]


def test_nothing_is_fetched():
    elements = Elements(to_html(evil_page()))
    addresses = [
        value
        for _, attributes in elements.tags
        for name, value in attributes.items()
        if name in ("src", "srcset", "href")
    ]
    assert addresses
    assert all(address.startswith("data:") for address in addresses)
    (policy,) = (a["content"] for a in elements.named("meta") if "http-equiv" in a)
    assert "default-src 'none'" in policy


def test_cells_carry_their_sort_value():
    cells = Elements(to_html(evil_page())).named("td")
    assert [cell.get("data-value") for cell in cells[:2]] == ["1.5", None]


def test_the_same_page_twice_is_the_same_text(tmp_path):
    write_page(Page("a", "b", [Section("c")]), tmp_path / "new" / "page.html")
    assert (tmp_path / "new" / "page.html").read_text() == to_html(Page("a", "b", [Section("c")]))
