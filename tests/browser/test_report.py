"""The report in a browser: it asks for nothing, sorts, and can be read everywhere."""

from dataclasses import replace

import polars as pl
import pytest
import torch

from noisebound.data import load
from noisebound.estimation import Suspects
from noisebound.pages.comparison_page import comparison_page
from noisebound.pages.page import write_page
from noisebound.pages.run_page import run_page
from noisebound.pages.suspects import suspects_page
from noisebound.runs import train_run
from noisebound.training import TrainingConfig
from training_data import noisy_clouds
from watched_page import contrasts_of

pytestmark = pytest.mark.browser

EVIL = "<script>alert(1)</script>"
LONG = "a_class_whose_name_goes_on_and_on_and_has_no_place_to_break"
SCHEMES = ("light", "dark")
WIDTHS = (360, 390, 1280)


@pytest.fixture(scope="module")
def one_training(tmp_path_factory):
    """Images of classes with wicked names, noise that was estimated, a clean test set."""
    folder = tmp_path_factory.mktemp("fit")
    digits = load("digits")
    names = (EVIL, LONG, *digits.train.class_names[2:])
    splits = replace(
        digits,
        train=replace(digits.train, class_names=names),
        test=replace(digits.test, class_names=names),
    )
    config = TrainingConfig(
        loss="fce+b", model="small_mlp", epochs=12, learning_rate=3e-3, batch_size=100
    )
    run = train_run(splits, config, folder / "run", show=False)
    write_page(run_page(run, splits, f"noisebound fit '{EVIL}'"), folder / "report.html")
    return folder / "report.html"


@pytest.fixture(scope="module")
def several_trainings(tmp_path_factory):
    """Plain and bounded, without images."""
    folder = tmp_path_factory.mktemp("fits")
    runs = []
    for loss in ("ce", "ce+b", "sce+b"):
        config = TrainingConfig(loss=loss, noise_rate=0.4, epochs=3, batch_size=30)
        runs.append(train_run(noisy_clouds(), config, folder / loss, show=False))
    write_page(comparison_page(runs, "Three trainings"), folder / "report.html")
    return folder / "report.html"


@pytest.fixture(scope="module")
def suspect_texts(tmp_path_factory):
    """Long texts with an id and a note, on the page of suspects."""
    texts = [f"{EVIL} {LONG} and many more words to read. " * 20 for _ in range(40)]
    table = pl.DataFrame(
        {
            "review": texts,
            "number": [f"{row:05}" for row in range(40)],
            "stars": [1 + row % 5 for row in range(40)],
            "label": ["good", "bad"] * 20,
        }
    )
    splits = load(table, target="label", text="review", id="number")
    suspects = Suspects(torch.linspace(3, -3, 40).double(), 1 - splits.train.labels)
    path = tmp_path_factory.mktemp("suspects") / "suspects.html"
    write_page(suspects_page(suspects, splits, 30, "Some labels are wrong.", "all.csv"), path)
    return path


def test_suspect_texts_are_a_page(open_page, suspect_texts):
    page = open_page(suspect_texts)
    assert page.locator("tbody tr").count() == 30
    first = page.locator("tbody tr").first
    assert first.locator("th").inner_text() == "00000 (#0)"
    assert first.inner_text().count(EVIL) == 20
    headings = page.locator("thead th").all_inner_texts()
    assert headings == [
        "example",
        "label",
        "likelier",
        "probability that it is wrong",
        "text",
        "stars",
    ]
    wide = "() => document.querySelector('td.long').offsetWidth"
    assert page.evaluate(wide) < 1000  # it is wrapped
    narrow = open_page(suspect_texts, width=360, color_scheme="dark")
    assert narrow.evaluate("document.documentElement.scrollWidth") <= 360
    assert min(contrasts_of(narrow, ":is(h1, h2, p, caption, th, td, th button)")) >= 4.5


@pytest.fixture(params=["one_training", "several_trainings"])
def path(request):
    return request.getfixturevalue(request.param)


def test_wicked_names_stay_text(open_page, one_training):
    page = open_page(one_training)
    assert page.evaluate("document.scripts.length") == 1  # ours
    assert page.inner_text(".heat tbody tr:first-child th") == EVIL
    assert EVIL in page.inner_text("pre")
    assert page.evaluate("document.body.innerText").count(EVIL) >= 3


def test_the_headline_comes_first(open_page, several_trainings):
    page = open_page(several_trainings)
    words = page.inner_text(".headline")
    assert "The bound helps in" in words
    assert page.evaluate(
        "document.querySelector('h1').nextElementSibling.classList.contains('headline')"
    )


@pytest.mark.parametrize("color_scheme", SCHEMES)
def test_every_picture_is_there(open_page, path, color_scheme):
    page = open_page(path, color_scheme=color_scheme)
    widths = page.eval_on_selector_all("img", "all => all.map(image => image.naturalWidth)")
    assert len(widths) >= 2
    assert min(widths) > 0
    assert all(page.eval_on_selector_all("img", "all => all.map(image => image.alt.length > 0)"))


def test_pictures_turn_dark_with_the_page(open_page, path):
    filters = [
        open_page(path, color_scheme=scheme).eval_on_selector(
            ".drawing", "image => getComputedStyle(image).filter"
        )
        for scheme in SCHEMES
    ]
    assert filters[0] == "none"
    assert filters[1].startswith("invert(1)")


def column(page, number):
    return page.eval_on_selector_all(
        "table:not(.heat) tbody tr", f"rows => rows.map(row => row.children[{number}].textContent)"
    )


def test_tables_sort(open_page, several_trainings):
    page = open_page(several_trainings)
    heading = page.locator("th", has_text="training loss")
    losses = sorted(map(float, column(page, 2)), reverse=True)
    heading.locator("button").click()
    assert [float(text) for text in column(page, 2)] == losses
    assert heading.get_attribute("aria-sort") == "descending"
    heading.locator("button").click()
    assert [float(text) for text in column(page, 2)] == losses[::-1]
    assert heading.get_attribute("aria-sort") == "ascending"


def test_the_keyboard_sorts_and_unfolds(open_page, several_trainings):
    page = open_page(several_trainings)
    page.keyboard.press("Tab")  # the table, so that arrows can scroll it
    assert page.evaluate("document.activeElement.getAttribute('role')") == "region"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    names = column(page, 0)
    assert names == sorted(names, reverse=True)
    page.locator("summary").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("details").first.evaluate("details => details.open")


@pytest.mark.parametrize("width", WIDTHS)
def test_it_fits(open_page, path, width):
    page = open_page(path, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_long_names_leave_room_for_the_matrix(open_page, one_training):
    """The names stay in sight while the rest scrolls, so they must not take all of the width."""
    page = open_page(one_training, width=360)
    width = "names => Math.max(...names.map(name => name.getBoundingClientRect().width))"
    assert page.eval_on_selector_all(".heat tbody th", width) < 180


@pytest.mark.parametrize("color_scheme", SCHEMES)
def test_texts_stand_out(open_page, path, color_scheme):
    page = open_page(path, color_scheme=color_scheme)
    texts = (
        "h1, h2, p, li, strong, caption, th, td, th button, figcaption span, summary, pre, footer"
    )
    contrasts = contrasts_of(page, f":is({texts})")
    assert len(contrasts) > 30
    assert min(contrasts) >= 4.5


def test_the_focus_is_seen(open_page, several_trainings):
    page = open_page(several_trainings)
    page.keyboard.press("Tab")
    style = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert style == "solid"
