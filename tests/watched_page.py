"""A local page in a real Chromium, with an eye on what it complains about and asks for."""

import shutil

from playwright.sync_api import ConsoleMessage, Page, Request

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
NO_CHROMIUM = "no Chromium found; install it, on Debian with  apt-get install chromium"


def watch(page: Page, address: str) -> list[str]:
    """What goes wrong on the page from now on: errors, and requests for anything but itself."""
    problems: list[str] = []

    def on_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            problems.append(f"console {message.type}: {message.text}")

    def on_request(request: Request) -> None:
        if not request.url.startswith(("data:", "blob:")) and request.url != address:
            problems.append(f"request: {request.url}")

    page.on("console", on_console)
    page.on("pageerror", lambda error: problems.append(f"page error: {error}"))
    page.on("request", on_request)
    return problems
