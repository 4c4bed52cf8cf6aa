"""Scroll through the review page's list of 10,000 photographs of 2 MB in Chromium.

At each place of the list: the time until all pictures in sight are there, and the longest time
between two frames that the browser drew, which is what a person feels as a stall. Then the same
places once more, when their thumbnails are kept. A few photographs are linked under many names: the
server opens and scales each name by itself.

    python benchmarks/scrolling.py --photographs 10000 --places 20
"""

import argparse
import os
import shutil
import statistics
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from noisebound.data import Dataset, Splits
from noisebound.pages.review.serve import ReviewServer
from noisebound.pages.review.session import ReviewSession
from noisebound.runs import train_run
from noisebound.training import TrainingConfig

DISTINCT = 8
ROW_HEIGHT = 72  # pixels of the page's list

_WATCH = """() => {
    window.longest = 0;
    let before = performance.now();
    const look = now => {
        window.longest = Math.max(window.longest, now - before);
        before = now;
        requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
}"""
_SCROLL = "top => { window.longest = 0; document.getElementById('list-window').scrollTop = top }"
_ALL_SHOWN = """place => {
    if (!document.querySelector(`#list-rows li[aria-posinset='${place + 3}']`)) return false;
    const box = document.getElementById('list-window').getBoundingClientRect();
    return [...document.querySelectorAll('#list-rows li')].every(row => {
        const {top, bottom} = row.getBoundingClientRect();
        const isInSight = bottom > box.top && top < box.bottom;
        const image = row.querySelector('img');
        return !isInSight || (image && image.complete && image.naturalWidth > 0);
    });
}"""


def photographs(folder: Path, count: int) -> Splits:
    """Write the files, and return data whose examples they are."""
    generator = np.random.default_rng(0)
    classes = ("cat", "dog")
    for name in classes:
        (folder / name).mkdir(parents=True)
    originals = []
    for number in range(DISTINCT):
        coarse = generator.integers(0, 256, (250, 375, 3), dtype=np.uint8)
        image = Image.fromarray(coarse).resize((3000, 2000), Image.Resampling.BICUBIC)
        grain = generator.integers(-9, 10, (2000, 3000, 3))
        pixels = np.clip(np.asarray(image).astype(int) + grain, 0, 255).astype(np.uint8)
        originals.append(folder.parent / f"{number}.jpg")
        Image.fromarray(pixels).save(originals[-1], quality=85)
    names = []
    for number in range(count):
        names.append(f"{classes[number % 2]}/{number:06}.jpg")
        os.link(originals[number % DISTINCT], folder / names[-1])
    size = sum(path.stat().st_size for path in originals) / DISTINCT
    print(f"{count:,} photographs of {size / 1e6:.1f} MB, 3000 × 2000 pixels", flush=True)
    labels = torch.arange(count) % 2
    inputs = torch.randn(count, 4, generator=torch.Generator().manual_seed(0))
    return Splits(
        "photographs",
        Dataset(inputs, labels, classes),
        None,
        str(folder),
        train_names=tuple(names),
        pictures=lambda place: torch.zeros(3, 8, 8, dtype=torch.uint8),
    )


def visit(page: Page, places: list[int]) -> tuple[list[float], list[float]]:
    """Return the seconds until all pictures are shown, and the longest frame in milliseconds."""
    waits, frames = [], []
    for place in places:
        started = time.perf_counter()
        page.evaluate(_SCROLL, ROW_HEIGHT * place)
        page.wait_for_function(_ALL_SHOWN, arg=place, timeout=120_000)
        waits.append(time.perf_counter() - started)
        frames.append(page.evaluate("window.longest"))
    return waits, frames


def main() -> None:
    """Print a row for the first visit of the places and one for the second."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photographs", type=int, default=10_000)
    parser.add_argument("--places", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        os.environ["NOISEBOUND_CACHE"] = f"{name}/cache"
        splits = photographs(Path(name) / "photographs", options.photographs)
        config = TrainingConfig(loss="ce+b", noise_rate=0.1, model="linear", epochs=1)
        run = train_run(splits, config, Path(name) / "run", show=False)
        server = ReviewServer(ReviewSession(run, splits, "benchmark"))
        threading.Thread(target=server.run, daemon=True).start()
        places = [options.photographs * each // options.places for each in range(options.places)]
        with sync_playwright() as playwright:
            sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # as root it refuses to run
            path = shutil.which("chromium")
            browser = playwright.chromium.launch(executable_path=path, args=sandbox)
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(server.address + "#list")
            page.wait_for_selector("#list-rows li")
            page.evaluate(_WATCH)
            print("| visit | until all are shown, median | worst | longest frame |")
            print("|---|---|---|---|")
            for visit_name in ("first", "second"):
                waits, frames = visit(page, places)
                middle, worst = statistics.median(waits), max(waits)
                print(f"| {visit_name} | {middle:.2f} s | {worst:.2f} s | {max(frames):.0f} ms |")
            browser.close()
        server.stop()


if __name__ == "__main__":
    main()
