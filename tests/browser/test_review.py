"""The review page in a browser: by keyboard, in two windows, through crashes, and legible."""

import json
import os
import re
import signal
import subprocess
import sys

import polars as pl
import pytest
import torch
from axe_playwright_python.sync_playwright import Axe

import noisebound as nb
from multi_label_data import NAMES, as_table, examples
from noisebound.data import Dataset, Splits
from noisebound.pages.review.labels_session import LabelsSession
from noisebound.pages.review.serve import redirect_file
from noisebound.runs import train_run
from noisebound.training import TrainingConfig
from processes import environment
from reviewed_runs import CLASSES, WICKED, WICKED_TEXT, copied, served, served_session, text_run
from watched_page import contrasts_of, watch

pytestmark = pytest.mark.browser

LOST = "console error: Failed to load resource"
"""What Chromium says if a request is refused, or the server is gone."""


TEXTS = (
    "h1, h2, h3, p, li, dt, dd, span:not(.bar, .bar *), button, strong, code, pre, a, label, td, th"
)
PATIENCE = 120_000  # milliseconds, in which a busy machine answers too


@pytest.fixture
def run(reviewed_images, tmp_path):
    return copied(reviewed_images, tmp_path)


@pytest.fixture
def server(run):
    with served(run) as server:
        yield server


@pytest.fixture
def open_review(browser):
    """Return a function that opens the review page; the test fails if the page complains.

    Its arguments are ``(address, fragment="", width=1280, color_scheme="light", loses=False)``;
    with ``loses``, requests may fail.
    """
    opened = []

    def open_review(address, fragment="", width=1280, color_scheme="light", loses=False):
        page = browser.new_page(
            viewport={"width": width, "height": 900},
            color_scheme=color_scheme,
            accept_downloads=True,
        )
        page.set_default_timeout(PATIENCE)
        opened.append((page, watch(page, [address], below=True), loses))
        page.goto(address + fragment)
        page.wait_for_selector("section:not([hidden]) :is(.exhibit, li, pre)")
        return page

    yield open_review
    problems = []
    for page, found, loses in opened:
        problems += [each for each in found if not (loses and each.startswith(LOST))]
        page.close()  # before its server ends
    assert not problems


def lines(run):
    """Return what the file of decisions holds after its first line."""
    return [json.loads(line) for line in run.folder.decisions.read_text().splitlines()[1:]]


def shown(page, view="review"):
    return int(page.get_attribute(f"#{view}-card", "data-position"))


def press(page, key, view="review"):
    """Press a key that decides, and wait for the next example."""
    before = page.get_attribute(f"#{view}-card", "data-position")
    page.keyboard.press(key)
    page.wait_for_function(
        "([id, before]) => document.getElementById(id).dataset.position !== before",
        arg=[f"{view}-card", before],
    )


def choose(page, view="review"):
    """Find a class by typing, take it, and return it."""
    label = page.inner_text(f"#{view}-card .labels dd")
    chosen = next(name for name in CLASSES[1:] if name != label)
    before = page.get_attribute(f"#{view}-card", "data-position")
    page.keyboard.press("c")
    page.keyboard.type(chosen[:3])
    assert page.inner_text("#chooser-classes [aria-selected=true] span") == chosen
    page.keyboard.press("Enter")
    page.wait_for_function(
        "([id, before]) => document.getElementById(id).dataset.position !== before",
        arg=[f"{view}-card", before],
    )
    return chosen


def tab_to(page, selector):
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"the Tab key does not reach {selector}")


def test_the_whole_way_by_keyboard(server, open_review, run):
    page = open_review(server.address)

    assert page.inner_text("nav [aria-current]") == "Audit"
    assert page.locator("#audit-card .of-suggestion").count() == 0
    for _ in range(11):
        press(page, "r", "audit")
    chosen = choose(page, "audit")
    told = page.inner_text("#audit-card .evidence")
    assert "1 of 12" in told
    assert re.search(r"of all labels are wrong \([\d.]+% to [\d.]+%\)", told)
    sizes = page.locator("#audit-size option").all_inner_texts()
    assert re.fullmatch(r"\d+ labels, for ±5 points", sizes[0])
    assert "33.3%\nof all labels are wrong by the run's own estimate" in told
    assert "Which classes are confused" in told
    assert "How well the probabilities hold" in told
    assert [each["where"] for each in lines(run)] == ["audit"] * 12
    assert lines(run)[-1] | {"label": chosen, "verdict": "wrong"} == lines(run)[-1]

    page.keyboard.press("2")
    page.wait_for_selector("#review-card .neighbors img")
    suggested = page.inner_text("#review-card .of-suggestion")
    press(page, "s")
    assert lines(run)[-1]["label"] == suggested
    for key in "rux":
        press(page, key)
    choose(page)
    verdicts = [each["verdict"] for each in lines(run)[12:]]
    assert verdicts == ["wrong", "right", "unsure", "unusable", "wrong"]
    assert "2 of the last 3 were wrong" in page.inner_text("#review-progress")
    undone = lines(run)[-1]["position"]
    press(page, "z")
    assert shown(page) == undone
    assert run.decisions.get(undone) is None

    page.keyboard.press("b")
    page.wait_for_selector("#batch[open]")
    assert page.locator(".tile").count() > 1
    ticked = page.locator(".tile :checked").count()
    page.keyboard.press("Space")  # not the first one
    ticked += 1 if page.locator(".tile input").first.is_checked() else -1
    if ticked == 0:
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Space")
        ticked = 1
    assert f"{ticked} are" in page.inner_text("#batch-actions .main")
    page.keyboard.press("s")
    page.wait_for_selector("#batch:not([open])", state="attached")
    bulk = [each for each in lines(run) if each.get("how") == "bulk"]
    assert len(bulk) == ticked
    assert all(each["probability"] > 0 for each in bulk)

    page.keyboard.press("3")
    tab_to(page, "#list-rows button")
    page.keyboard.press("End")
    page.wait_for_selector("#list-rows li[aria-posinset='120'] button:focus")
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash === '#review'")

    page.keyboard.press("4")
    tab_to(page, "#finish-download")
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    table = pl.read_csv(download.value.path())
    assert len(table) == 120
    changed = table.filter(pl.col("label") != pl.col("corrected"))
    assert len(changed) == len(bulk) + 2
    assert set(changed["why"]) == {"person", "bulk"}
    # A function, because the page's policy forbids to evaluate an expression again and again.
    page.wait_for_function(
        "() => document.getElementById('finish-commands').textContent.includes('noisebound labels')"
    )


def test_a_reload_in_the_middle_loses_nothing(server, open_review, run):
    page = open_review(server.address, "#review")
    press(page, "r")
    press(page, "s")
    following = shown(page)
    page.reload()
    page.wait_for_selector("#review-card .exhibit")
    assert shown(page) == following
    assert page.inner_text("#review-progress").startswith("2 labels checked")
    press(page, "z")  # what was decided before the reload can be undone after it
    assert [each.verdict for each in run.decisions] == ["right"]


def test_only_what_is_probably_wrong_is_ticked(server, open_review, run):
    """A tick that nobody set must have evidence of its own, and the button counts the ticks."""
    queue = run.review_queue()
    page = open_review(server.address, "#review")
    assert f"{len(queue.suspects())} suspects waiting" in page.inner_text("#review-progress")
    pairs = page.locator("#filter-pair option").all_inner_texts()[1:]
    assert sum(int(re.search(r"\((\d+)\)$", pair)[1]) for pair in pairs) == len(queue.suspects())
    is_mixed = [
        len(queue.positions(label=pair.label, suggested=pair.suggested)) > pair.waiting
        for pair in queue.pairs()
    ]
    page.select_option("#filter-pair", index=1 + is_mixed.index(True))
    pair = queue.pairs()[is_mixed.index(True)]
    page.wait_for_function(
        "pair => document.querySelector('.of-suggestion').textContent === pair[1]"
        " && document.querySelector('.of-label').textContent === pair[0]",
        arg=[pair.label, pair.suggested],
    )
    page.locator("#review-card").click()
    page.keyboard.press("b")
    page.wait_for_selector("#batch[open] .tile")
    boxes = page.locator(".tile input").all()
    shares = [text.strip() for text in page.locator(".tile").all_inner_texts()]
    is_suspect = [text.startswith(">") or float(text.strip("<%")) > 50 for text in shares]
    assert [box.is_checked() for box in boxes] == is_suspect
    assert 0 < sum(is_suspect) < len(boxes)
    main = page.locator("#batch-actions .main")
    assert f"Wrong: {sum(is_suspect)} are " in main.inner_text()
    boxes[is_suspect.index(False)].check()
    assert f"Wrong: {sum(is_suspect) + 1} are " in main.inner_text()
    for box in boxes:
        box.uncheck()
    assert main.is_disabled()


def test_a_filter_shows_one_confused_pair(server, open_review, run):
    page = open_review(server.address, "#review")
    option = page.locator("#filter-pair option").nth(1)
    pair = json.loads(option.get_attribute("value"))
    page.select_option("#filter-pair", index=1)
    waiting = int(re.search(r"\((\d+)\)$", option.inner_text())[1])
    page.wait_for_function(
        "pair => document.querySelector('.of-suggestion').textContent === pair.suggested"
        " && document.querySelector('.of-label').textContent === pair.label",
        arg=pair,
    )
    page.locator("#review-card").click()
    for _ in range(min(3, waiting - 1)):
        press(page, "r")
        assert page.inner_text("#review-card .of-label") == pair["label"]
    found = [run.review_queue().suspect(each["position"]) for each in lines(run)]
    assert {(each.label, each.suggested) for each in found} == {(pair["label"], pair["suggested"])}


def test_wicked_names_and_texts_stay_text(open_review, tmp_path):
    run = text_run(tmp_path)
    with served(run) as server:
        page = open_review(server.address, "#review")
        assert WICKED_TEXT in page.evaluate("document.querySelector('.text').textContent")
        assert "year" in page.inner_text("#review-card .exhibit dl")
        page.keyboard.press("c")
        assert page.locator("#chooser-classes [role=option]").count() == 1
        page.keyboard.press("Escape")
        page.wait_for_selector("#chooser:not([open])", state="attached")
        page.keyboard.press("b")
        page.wait_for_selector("#batch[open] .tile")
        page.keyboard.press("Escape")
        for view in ("#list", "#audit", "#finish", "#review"):
            page.goto(server.address + view)
            page.wait_for_selector(f"{view}:not([hidden])")
        names = {page.inner_text(".of-label"), page.inner_text(".of-suggestion")}
        assert names == {WICKED, CLASSES[1]}
        assert page.evaluate("document.scripts.length") == 1
        assert page.locator("main img").count() == 0
        page.close()


def test_two_windows_see_each_other(server, open_review, run):
    first = open_review(server.address, "#review")
    second = open_review(server.address, "#review")
    position = shown(first)
    assert shown(second) == position
    press(first, "r")
    second.wait_for_function(
        "before => document.getElementById('review-card').dataset.position !== before",
        arg=str(position),
    )
    assert "Decided in another window" in second.inner_text("#spoken")
    assert second.inner_text("#review-progress").startswith("1 label checked")


def test_two_windows_do_not_overwrite_each_other(server, open_review, run):
    first = open_review(server.address, "#review")
    second = open_review(server.address, "#review", loses=True)
    second.route("**/api/progress*", lambda route: route.abort())  # it hears of nothing
    position = shown(first)
    press(first, "r")
    second.keyboard.press("s")
    second.wait_for_function(
        "() => document.getElementById('spoken').textContent.includes('answer was not saved')"
    )
    assert run.decisions.get(position).verdict == "right"
    assert len(lines(run)) == 1


def test_a_key_that_comes_too_fast_decides_nothing(server, open_review, run):
    """The next example is not there yet, and the last one is decided."""
    page = open_review(server.address, "#review")
    waiting = []
    page.route("**/api/queue*", lambda route: waiting.append(route))
    position = shown(page)
    page.keyboard.press("r")
    page.wait_for_function(
        "() => document.getElementById('spoken').textContent.startsWith('Saved')"
    )
    page.keyboard.press("s")
    for route in waiting:
        route.continue_()
    page.unroute("**/api/queue*")
    page.wait_for_function(
        "before => document.getElementById('review-card').dataset.position !== before",
        arg=str(position),
    )
    assert "another window" not in page.inner_text("#spoken").lower()
    assert [(each["position"], each["verdict"]) for each in lines(run)] == [(position, "right")]
    press(page, "s")
    assert [each["verdict"] for each in lines(run)] == ["right", "wrong"]


def test_what_another_window_has_undone_does_not_stop_undo(server, open_review, run):
    first = open_review(server.address, "#review")
    press(first, "r")
    press(first, "s")
    second = open_review(server.address, "#review")
    second.keyboard.press("z")  # it has decided nothing itself: the person's last decision
    second.wait_for_function(
        "() => document.getElementById('spoken').textContent.startsWith('Undone')"
    )
    first.keyboard.press("z")
    first.wait_for_function(
        "() => document.getElementById('spoken').textContent.includes('undone in another window')"
    )
    first.keyboard.press("z")
    first.wait_for_function(
        "() => document.getElementById('spoken').textContent === 'Undone: 1 decision.'"
    )
    assert len(run.decisions) == 0


def start_command(run):
    """Start the real command in another process, and return it with the page's address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "noisebound", "review", str(run.path), "--no-open", "--by", "Ada"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    line = process.stdout.readline()
    return process, re.search(r"http://127\.0\.0\.1:\d+/\S+/", line)[0]


def test_the_browser_is_led_to_the_page_by_a_private_file(server, browser):
    """Chromium calls a window that comes from a file cross-site."""
    with redirect_file(server.address) as file:
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(file.as_uri())
        page.wait_for_selector("section:not([hidden]) .exhibit")
        assert page.url.startswith(server.address)
        page.close()


def test_the_server_is_killed_between_two_keys(open_review, run):
    process, address = start_command(run)
    page = open_review(address, "#review", loses=True)
    press(page, "s")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    unsaved = shown(page)
    page.keyboard.press("s")
    page.wait_for_selector("#trouble:not([hidden])")
    assert "This was not saved" in page.inner_text("#trouble")
    assert shown(page) == unsaved
    assert [each["verdict"] for each in lines(run)] == ["wrong"]
    with served(run) as again:
        page = open_review(again.address, "#review")
        assert shown(page) == unsaved
        assert page.inner_text("#review-progress").startswith("1 label checked")
        press(page, "r")
        page.close()
    assert [each["verdict"] for each in lines(run)] == ["wrong", "right"]


def test_a_hundred_thousand_suspects_scroll(open_review, tmp_path):
    """Only the rows in sight exist, and only their part of the list is asked for."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(100_000, 2, generator=generator)
    labels = (inputs[:, 0] > 0).long()
    splits = Splits("many", Dataset(inputs, labels, ("low", "high")), None, source="made")
    config = TrainingConfig(
        model="linear", loss="ce+b", noise_rate=0.1, epochs=1, batch_size=5000, validation_share=0.0
    )
    with served(train_run(splits, config, tmp_path / "run", show=False)) as server:
        page = open_review(server.address, "#list")
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        rows = page.locator("#list-rows li")
        for place in (50_000, 99_990):
            page.evaluate(
                "top => { document.getElementById('list-window').scrollTop = top }", 72 * place
            )
            page.wait_for_selector(f"#list-rows li[aria-posinset='{place + 5}']")
            assert rows.count() < 60
        assert len([each for each in asked if "queue" in each]) < 8
        page.close()


def breaches_of_wcag(page):
    """Return what axe-core finds on the page as it stands, at the levels A and AA."""
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
    found = Axe().run(page, options={"runOnly": tags, "resultTypes": ["violations"]})
    return [
        (each["id"], [node["html"] for node in each["nodes"]])
        for each in found.response["violations"]
    ]


@pytest.mark.parametrize(("key", "dialog"), [("c", "chooser"), ("b", "batch"), ("?", "help")])
def test_dialogs_are_accessible(server, open_review, key, dialog):
    page = open_review(server.address, "#review", color_scheme="dark")
    page.keyboard.press(key)
    page.wait_for_selector(f"#{dialog}[open]")
    assert breaches_of_wcag(page) == []


@pytest.mark.parametrize("view", ["audit", "review", "list", "finish"])
def test_every_view_is_legible_and_fits_a_phone(server, open_review, view):
    for scheme, width in (("light", 1280), ("dark", 360)):
        page = open_review(server.address, f"#{view}", width=width, color_scheme=scheme)
        if view == "review":
            page.wait_for_selector(".neighbors strong")
        contrasts = contrasts_of(page, f":is(header, #{view}) :is({TEXTS})")
        assert min(contrasts) >= 4.5
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        named = "all => all.every(each => (each.ariaLabel ?? each.textContent).trim() !== '')"
        assert page.eval_on_selector_all(f"#{view} button, #{view} a", named)
        assert breaches_of_wcag(page) == []
        tab_to(page, "nav a")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_keys_of_one_letter_can_be_turned_off(server, open_review, run):
    page = open_review(server.address, "#review")
    page.keyboard.press("?")
    tab_to(page, "#use-keys")
    page.keyboard.press("Space")
    page.keyboard.press("Escape")
    page.keyboard.press("r")
    tab_to(page, "#review-actions .main")
    press(page, "Enter")
    assert [each["verdict"] for each in lines(run)] == ["wrong"]


def test_a_second_opinion_shows_no_label(run, open_review):
    splits = run.training_data()
    label = CLASSES[2]
    with served(run, second_opinion=2) as server:
        page = open_review(server.address)
        page.wait_for_selector("#second-card figure")
        assert not page.is_visible("nav")
        assert page.locator("#second-actions button").count() == len(CLASSES) + 1
        for _ in range(2):
            before = page.get_attribute("#second-card", "data-position")
            shown = page.inner_text("#second-card")
            assert not any(name in shown for name in CLASSES)
            page.keyboard.press("3")
            page.wait_for_function(
                "before => document.querySelector('#second-card').dataset.position !== before",
                arg=before,
            )
        page.wait_for_selector("text=all examples of this sample have your label")
    made = run.decisions_about(splits).second_labels
    assert [each.label for each in made] == [label, label]
    assert len(run.decisions_about(splits)) == 0


def test_all_labels_of_an_example_are_ticked_and_saved_together(tmp_path, open_review):
    X, _, noisy = examples(120)
    as_table(X, noisy).write_csv(tmp_path / "table.csv")
    options = {"targets": NAMES, "quick": True, "show": False, "report": False, "n_jobs": 1}
    run = nb.fit(tmp_path / "table.csv", out=tmp_path / "run", **options)
    session = LabelsSession(run, run.training_data(), "Ada")
    with served_session(session) as server:
        page = open_review(server.address)
        position = shown(page, "labels")
        first = page.locator("#labels-card .toggles li").first
        name, box = first.locator("label span").inner_text(), first.locator("input")
        assert re.search("probably (wrong|missing), ", first.inner_text())
        was_ticked = box.is_checked()
        assert breaches_of_wcag(page) == []
        page.keyboard.press("a")  # take the suggestions
        assert box.is_checked() != was_ticked
        page.keyboard.press("2")
        press(page, "s", "labels")
        assert page.inner_text("#labels-progress").startswith("3 labels checked, ")
        (made,) = run.runs[name].decisions.refresh()
        assert (made.position, made.verdict) == (position, "wrong")
        press(page, "z", "labels")
        assert shown(page, "labels") == position
        assert len(run.runs[name].decisions.refresh()) == 0
        page.click("nav a[href='#finish']")
        page.wait_for_selector("#finish-commands:has-text('--corrections')")
        assert page.locator("nav a:visible").count() == 2
    page.close()
