"""The explorer as a file; tests/browser tests in a browser what it computes."""

import json
import re
from html.parser import HTMLParser

import pytest

import noisebound as nb
from noisebound.catalog import SPECS
from noisebound.pages.explorer import LOSSES, PARAMETERS, explorer_html, write_explorer

SEARCHED = {"bootstrap", "nce-aul", "nce-ael"}  # the last two where classes are about even
WITHOUT_BOUND = {"truncated", "curriculum", "elr"}


class Attributes(HTMLParser):
    """Collects the attributes of all elements."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found += attrs


def test_nothing_is_fetched():
    page = explorer_html()
    attributes = Attributes(page).found
    assert [value for name, value in attributes if name in ("src", "href")] == ["data:,"]
    assert any("default-src 'none'" in (value or "") for _, value in attributes)
    addresses = set(re.findall(r"(?:https?:)?//[\w.]+\w/[\w/]*", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # names a format, and is never fetched


def test_the_same_page_every_time(tmp_path):
    write_explorer(tmp_path / "new" / "page.html")
    assert (tmp_path / "new" / "page.html").read_bytes() == explorer_html().encode()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["page.html"]


def test_every_loss_with_a_closed_form_is_there():
    assert set(LOSSES) == set(nb.LOSS_NAMES) - SEARCHED - WITHOUT_BOUND


@pytest.mark.parametrize("name", LOSSES)
def test_the_python_that_it_shows_makes_the_loss(name):
    made = eval(LOSSES[name].format(rate=0.4, classes=10, a=0.4, A=8.0), {"nb": nb})
    assert repr(made) == repr(nb.create_loss(name, noise_rate=0.4, num_classes=10))


def explored_json():
    (text,) = re.findall(r'<script type="application/json".*?>(.*?)</script>', explorer_html())
    return json.loads(text)


def test_labels_titles_and_formulas_are_the_catalogue_s():
    for loss in explored_json()["losses"]:
        spec = SPECS[loss["name"]]
        assert loss["label"] == spec.label
        assert loss["title"] == spec.title
        assert loss["formula"] == spec.formula


def test_it_starts_with_the_library_s_defaults():
    defaults = explored_json()["defaults"]
    assert defaults["a"] == nb.GeneralizedCrossEntropy().a
    assert defaults["A"] == nb.SymmetricCrossEntropy().A
    for parameter in PARAMETERS:
        assert parameter.low < defaults[parameter.name] < parameter.high
