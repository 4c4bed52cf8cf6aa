import os

import pytest
from playwright.sync_api import sync_playwright

from watched_page import CHROMIUM, watch


# Playwright keeps an event loop running, in which no other test could start its own: so the
# browser lives as long as one module's tests, which run one after the other.
@pytest.fixture(scope="module")
def browser():
    """A headless Chromium, the system's."""
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium's refuses to run as root
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=sandbox)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser):
    """Open a local file; the test fails if the page complains or asks for anything else.

    ``open_page(path, fragment="", width=1280, color_scheme="light", scripts=True)`` gives
    Playwright's page.
    """
    opened = []

    def open_page(path, fragment="", width=1280, color_scheme="light", scripts=True):
        page = browser.new_page(
            viewport={"width": width, "height": 900},
            color_scheme=color_scheme,
            java_script_enabled=scripts,
        )
        address = path.resolve().as_uri()
        opened.append((page, watch(page, address)))
        page.goto(address + fragment)
        return page

    yield open_page
    problems = []
    for page, found in opened:
        problems += found
        page.close()
    assert not problems
