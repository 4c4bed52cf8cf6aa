"""A real Chromium for the tests of pages, as fixtures."""

import os

import pytest
from playwright.sync_api import sync_playwright

from watched_page import CHROMIUM, watch


# While Playwright runs its event loop, no other test can start one. So the browser lives only as
# long as the tests of one module, which run one after the other.
@pytest.fixture(scope="module")
def browser():
    """Start the system's Chromium without a window."""
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # its sandbox refuses to run as root
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=sandbox)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser):
    """Return a function that opens a local file and returns Playwright's page.

    Its arguments are ``(path, fragment="", width=1280, color_scheme="light", scripts=True)``.
    The test fails if the page logs an error or requests anything else.
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
