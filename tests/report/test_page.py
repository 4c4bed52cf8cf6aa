"""The page: nothing from elsewhere, everything escaped, every part where it belongs."""

from html.parser import HTMLParser

from matplotlib.figure import Figure

from noisebound.report.page import Code, Page, Picture, Section, to_html, write_page
from noisebound.report.table import Cell, Row, Table

EVIL = "<script>alert(1)</script>"


class Elements(HTMLParser):
    """Tags with their attributes, and the text between them."""

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
        (),
        (EVIL,),
    )
    section = Section(EVIL, EVIL, [table], [Picture(figure, EVIL)], [Code(EVIL, EVIL)])
    return Page(EVIL, EVIL, [section])


def test_labels_stay_text():
    elements = Elements(to_html(evil_page()))
    assert len(elements.named("script")) == 1  # ours
    assert "".join(elements.text).count(EVIL) == 14
    assert elements.named("img")[0]["alt"] == EVIL


def test_nothing_is_fetched():
    elements = Elements(to_html(evil_page()))
    addresses = [
        value
        for _, attributes in elements.tags
        for name, value in attributes.items()
        if name in ("src", "href")
    ]
    assert addresses
    assert all(address.startswith("data:") for address in addresses)
    (policy,) = (a["content"] for a in elements.named("meta") if "http-equiv" in a)
    assert "default-src 'none'" in policy


def test_cells_carry_what_they_sort_by():
    cells = Elements(to_html(evil_page())).named("td")
    assert [cell.get("data-value") for cell in cells] == ["1.5", None]


def test_the_same_page_twice_is_the_same_text(tmp_path):
    write_page(Page("a", "b", [Section("c")]), tmp_path / "new" / "page.html")
    assert (tmp_path / "new" / "page.html").read_text() == to_html(Page("a", "b", [Section("c")]))
