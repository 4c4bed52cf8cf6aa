"""A local page in a real Chromium, with an eye on what it complains about and asks for."""

import shutil
from collections.abc import Sequence

from playwright.sync_api import ConsoleMessage, Page, Request

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
NO_CHROMIUM = "no Chromium found; install it, on Debian with  apt-get install chromium"


def watch(page: Page, addresses: Sequence[str], below: bool = False) -> list[str]:
    """What goes wrong on the page from now on: errors, and requests for other addresses.

    With ``below``, the page may also request what lies below its addresses.
    """
    problems: list[str] = []

    def on_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            problems.append(f"console {message.type}: {message.text}")

    def on_request(request: Request) -> None:
        is_own = request.url.startswith(tuple(addresses)) if below else request.url in addresses
        if not request.url.startswith(("data:", "blob:")) and not is_own:
            problems.append(f"request: {request.url}")

    page.on("console", on_console)
    page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
    page.on("pageerror", lambda error: problems.append(f"page error: {error}"))
    page.on("request", on_request)
    return problems


_CONTRASTS = """selector => {
    const channels = color => {
        const [r, g, b, alpha = 1] = color.match(/[\\d.]+/g).map(Number);
        return [r, g, b, alpha];
    };
    const ground = element => {  // what shines through included
        if (element === null) return [255, 255, 255];
        const [r, g, b, alpha] = channels(getComputedStyle(element).backgroundColor);
        if (alpha === 1) return [r, g, b];
        const below = ground(element.parentElement);
        return [r, g, b].map((value, k) => alpha * value + (1 - alpha) * below[k]);
    };
    const luminance = color => {
        const [r, g, b] = color.map(value => {
            const share = value / 255;
            return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const paint = element => {
        const style = getComputedStyle(element);
        if (!(element instanceof SVGElement)) return style.color;
        return style.stroke === "none" ? style.fill : style.stroke;
    };
    return [...document.querySelectorAll(selector)].map(element => {
        const both = [channels(paint(element)).slice(0, 3), ground(element)].map(luminance);
        return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
    });
}"""


def contrasts_of(page: Page, selector: str) -> list[float]:
    """How each element that matches stands out from what is behind it, as WCAG counts."""
    contrasts: list[float] = page.evaluate(_CONTRASTS, selector)
    return contrasts
