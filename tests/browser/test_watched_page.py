"""The watch sees what a page must not do."""

import pytest

from watched_page import watch

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("<script>console.error('oh')</script>", "console error: oh"),
        ("<script>throw new Error('oh')</script>", "page error: oh"),
        ("<img src='http://127.0.0.1:9/x.png'>", "request: http://127.0.0.1:9/x.png"),
        ("<script src='beside.js'></script>", "request: file:"),
    ],
)
def test_it_sees(browser, tmp_path, body, problem):
    page = browser.new_page()
    path = tmp_path / "page.html"
    path.write_text(body)
    problems = watch(page, [path.as_uri()])
    page.goto(path.as_uri())
    page.close()
    assert any(found.startswith(problem) for found in problems)


def test_a_page_may_hold_its_own_images(open_page, tmp_path):
    path = tmp_path / "page.html"
    path.write_text("<img src='data:image/svg+xml,<svg xmlns=\"http://www.w3.org/2000/svg\"/>'>")
    page = open_page(path, "#part", width=390, color_scheme="dark")
    assert page.evaluate("[innerWidth, matchMedia('(prefers-color-scheme: dark)').matches]") == [
        390,
        True,
    ]
