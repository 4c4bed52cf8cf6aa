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


@pytest.fixture(scope="module")
def lasting_page(browser):
    """Return a page for one test after another, the addresses that are its own, and its problems.

    A new page takes Chromium half a second.
    """
    page, own = browser.new_page(), []
    return page, own, watch(page, own)


@pytest.fixture
def open_page(browser, lasting_page):
    """Return a function that opens a local file and returns Playwright's page.

    Its arguments are ``(path, fragment="", width=1280, color_scheme="light", scripts=True)``.
    The test fails if the page logs an error or requests anything else.
    """
    opened = []

    def open_page(path, fragment="", width=1280, color_scheme="light", scripts=True):
        address, size = path.resolve().as_uri(), {"width": width, "height": 900}
        if scripts and not opened:
            page, own, problems = lasting_page
            page.goto("about:blank")  # so that another part of the same file is loaded anew
            page.mouse.move(0, 0)
            page.set_viewport_size(size)
            page.emulate_media(color_scheme=color_scheme)
            own[:] = [address]
            problems.clear()
        else:
            page = browser.new_page(
                viewport=size, color_scheme=color_scheme, java_script_enabled=scripts
            )
            problems = watch(page, [address])
        opened.append((page, problems))
        page.goto(address + fragment)
        return page

    yield open_page
    for page, _ in opened:
        if page is not lasting_page[0]:
            page.close()
    assert not [each for _, problems in opened for each in problems]
