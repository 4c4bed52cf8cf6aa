"""Draw the pictures of the README and the docs, and run the notebooks, whose outputs are stored.

``floor`` and ``notebooks`` need no download; ``review`` needs FashionMNIST and Chromium.
"""

import argparse
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import nbformat
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from nbclient import NotebookClient
from PIL import Image
from playwright.sync_api import Page, sync_playwright

import noisebound as nb
from noisebound.data import load
from noisebound.pages.page import as_picture
from noisebound.pages.plots import BLUE, ORANGE
from noisebound.pages.review.serve import ReviewServer
from noisebound.pages.review.session import ReviewSession
from noisebound.runs import Run

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "pictures"
NOISE_RATE = 0.4
PHOTOS = 1500
ADVANCE = 1100  # milliseconds that an example is shown


def draw_floor() -> None:
    """Draw plain and bounded training on digits with 40 % wrong labels."""
    digits = load("digits")
    generator = torch.Generator().manual_seed(0)
    noisy = nb.corrupt(digits.train.labels, "symmetric", NOISE_RATE, 10, generator=generator)
    data = replace(digits, train=digits.train.with_labels(noisy.labels))
    runs = [
        nb.fit(data, loss=loss, noise_rate=NOISE_RATE, model="mlp", epochs=60, measure_every=1)
        for loss in ("ce", "ce+b")
    ]
    floor = runs[0].floor
    assert floor is not None
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.axhspan(0, floor, color="#f0f0f0")
    left.axhline(floor, color="black", linewidth=1.2, linestyle=(0, (4, 3)))
    left.text(59, floor - 0.07, "the floor", va="top", ha="right", weight="bold")
    left.text(2, 0.12, "below the floor, a network\nmemorizes wrong labels", color="#444444")
    for axes, metric in ((left, "train_loss"), (right, "averaged_test_top1")):
        for run, color in zip(runs, (ORANGE, BLUE), strict=True):
            axes.plot(run.history["epoch"], run.history[metric], color=color, linewidth=2.5)
        axes.set(xlabel="epoch", xlim=(0, 60.5))
        axes.spines[["top", "right"]].set_visible(False)
    plain, bounded = (run.history["averaged_test_top1"][-1] for run in runs)
    left.set(title="Training loss", ylim=(0, 2.4))
    left.text(59, 1.66, "noisebound", color=BLUE, weight="bold", ha="right")
    left.text(36, 0.98, "plain training", color=ORANGE, weight="bold")
    right.set(title="Accuracy on clean test labels", ylim=(0.7, 1))
    right.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    right.text(60, 0.957, f"noisebound {bounded:.0%}", color=BLUE, weight="bold", ha="right")
    right.text(
        60, plain - 0.025, f"plain training {plain:.0%}", color=ORANGE, weight="bold", ha="right"
    )
    figure.savefig(PICTURES / "floor.png", dpi=150)


def draw_review() -> None:
    """Record the review of photos, a quarter of which have a wrong label; the truth answers."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):  # the page shows short paths
        truth = _write_photos(Path("clothes"))
        run = nb.fit("clothes", out="clothes-run")
        with _browser(run) as (page, address):
            _record(page, address, truth)
        with _browser(run, width=400, color_scheme="dark") as (page, address):
            page.goto(f"{address}#review")
            _wait_for_pictures(page)
            page.screenshot(path=PICTURES / "review-narrow.png")


def _write_photos(folder: Path) -> dict[str, str]:
    """Write photos into one folder per label, and return the true class of each file."""
    data = load("fashion-mnist").train.take(PHOTOS, seed=0)
    generator = torch.Generator().manual_seed(0)
    noisy = nb.corrupt(data.labels, "symmetric", 0.25, 10, generator=generator)
    names = [name.replace("/", " or ") for name in data.class_names]
    truth = {}
    for position, (label, true) in enumerate(zip(noisy.labels, data.labels, strict=True)):
        path = folder / names[label] / f"{position:04}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        picture = as_picture(data.rows.dense(torch.tensor([position]))[0])
        picture.resize((168, 168), Image.Resampling.LANCZOS).save(path)
        truth[path.name] = names[true]
    return truth


@contextmanager
def _browser(
    run: Run, width: int = 1200, color_scheme: str = "light"
) -> Iterator[tuple[Page, str]]:
    """Serve a review, and return a page in Chromium with its address."""
    server = ReviewServer(ReviewSession(run, run.training_data(), "Ada"))
    thread = threading.Thread(target=server.run)
    thread.start()
    with sync_playwright() as playwright:
        program = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield (
            browser.new_page(viewport={"width": width, "height": 800}, color_scheme=color_scheme),
            server.address,
        )
        browser.close()
    server.stop()
    thread.join()


def _record(page: Page, address: str, truth: dict[str, str]) -> None:
    frames: list[Image.Image] = []
    times: list[int] = []

    def shoot(milliseconds: int) -> None:
        frames.append(Image.open(BytesIO(page.screenshot())).convert("RGB"))
        times.append(milliseconds)

    page.goto(f"{address}#review")
    for number in range(6):
        _wait_for_pictures(page)
        shoot(2 * ADVANCE if number == 0 else ADVANCE)
        if number == 2:
            page.screenshot(path=PICTURES / "review.png")
        _answer(page, truth, shoot)
    _wait_for_pictures(page)
    page.keyboard.press("b")
    page.wait_for_selector("#batch[open] img")
    _wait_for_pictures(page)
    shoot(3 * ADVANCE)
    page.keyboard.press("Escape")
    page.keyboard.press("4")
    page.wait_for_selector("#finish-commands:not(:empty)")
    shoot(3 * ADVANCE)
    first, *others = [frame.resize((900, 600), Image.Resampling.LANCZOS) for frame in frames]
    first.save(
        PICTURES / "review.webp", save_all=True, append_images=others, duration=times, loop=0,
        quality=80, method=6,
    )  # fmt: skip


def _wait_for_pictures(page: Page) -> None:
    page.wait_for_selector("#review-card .neighbors img")
    page.wait_for_function("() => [...document.images].every(each => each.complete)")


def _answer(page: Page, truth: dict[str, str], shoot: Callable[[int], None]) -> None:
    """Decide the example that is shown, by the key of the button that is outlined."""
    position = page.get_attribute("#review-card", "data-position")
    true = truth[page.inner_text("#review-card figcaption").split("/")[-1]]
    if true == page.inner_text("#review-card .of-suggestion"):
        key = "s"
    elif true == page.inner_text("#review-card .of-label"):
        key = "r"
    else:
        key = "c"
    page.keyboard.press("Shift")  # so that the browser outlines the button
    page.evaluate(
        "key => [...document.querySelectorAll('#review-actions kbd')]"
        ".find(each => each.innerText === key).closest('button').focus()",
        key.upper(),
    )
    shoot(250)
    page.keyboard.press(key)
    if key == "c":
        page.keyboard.type(true)
        shoot(ADVANCE)
        page.keyboard.press("Enter")
    page.wait_for_function(
        "before => document.getElementById('review-card').dataset.position !== before",
        arg=position,
    )


def run_notebooks() -> None:
    """Run the notebooks of ``examples/``, and store their outputs without times and progress."""
    for path in sorted((ROOT / "examples").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        with tempfile.TemporaryDirectory() as folder:
            place = {"metadata": {"path": folder}}
            NotebookClient(notebook, timeout=600, record_timing=False, resources=place).execute()
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs = [each for each in cell.outputs if not _is_progress(each)]
        nbformat.write(notebook, path)


def _is_progress(output: nbformat.NotebookNode) -> bool:
    return output.output_type == "stream" and output.name == "stderr"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pictures", nargs="+", choices=["floor", "review", "notebooks"])
    for picture in parser.parse_args().pictures:
        {"floor": draw_floor, "review": draw_review, "notebooks": run_notebooks}[picture]()
