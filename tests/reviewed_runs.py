"""Small runs to review, and the server of their page, in this process."""

import csv
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import torch

import noisebound as nb
from noisebound.pages.page import as_picture
from noisebound.pages.review.labels_session import LabelsSession
from noisebound.pages.review.serve import ReviewServer
from noisebound.pages.review.session import ReviewSession
from noisebound.runs import Run, load_run
from training_data import NOISE_RATE, noisy_images

WICKED = "<img src=x onerror=alert(1)>"
CLASSES = (WICKED, "two", "three", "four")
WICKED_TEXT = '</p><script>alert("text")</script> & "quotes" \u202e'
QUICK = {"loss": "ce+b", "noise_rate": NOISE_RATE, "batch_size": 24, "show": False}


def image_run(folder: Path) -> Run:
    """Train on 120 images in folders, one of which has a wicked name."""
    train = noisy_images(120).train
    for position, label in enumerate(train.labels.tolist()):
        path = folder / "photos" / CLASSES[label] / f"{position}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        as_picture(train.rows.dense(torch.tensor([position]))[0]).resize((300, 300)).save(path)
    options = {"model": "small_mlp", "epochs": 12, "learning_rate": 1e-2, "image_size": 8}
    nb.fit(str(folder / "photos"), out=folder / "run", **QUICK, **options)
    return load_run(folder / "run")


def text_run(folder: Path) -> Run:
    """Train on a table of texts with another column; the texts hold HTML."""
    words = {CLASSES[0]: "goal match team", CLASSES[1]: "bank price share"}
    with (folder / "texts.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["story", "year", "topic"])
        for number in range(60):
            topic = CLASSES[number % 2]
            wrong = CLASSES[1 - number % 2] if number % 10 == 0 else topic
            rows.writerow([f"{words[topic]} {number} {WICKED_TEXT}", 2000 + number % 7, wrong])
    nb.fit(
        str(folder / "texts.csv"),
        out=folder / "run",
        target="topic",
        text="story",
        epochs=10,
        **QUICK,
    )
    return load_run(folder / "run")


def copied(run: Run, folder: Path) -> Run:
    """Return the same run in another folder, without decisions."""
    shutil.copytree(run.path, folder / "run")
    (folder / "run" / "decisions.jsonl").unlink(missing_ok=True)
    return load_run(folder / "run")


@contextmanager
def served(run: Run, second_opinion: int = 0) -> Iterator[ReviewServer]:
    """Serve the review of a run within the context."""
    with served_session(ReviewSession(run, run.training_data(), "Ada", second_opinion)) as server:
        yield server


@contextmanager
def served_session(session: ReviewSession | LabelsSession) -> Iterator[ReviewServer]:
    """Serve a review within the context."""
    server = ReviewServer(session)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()


def ask(
    server: ReviewServer, path: str, method: str = "GET", body: str | None = None, **headers: str
) -> tuple[int, bytes, dict[str, str]]:
    """Send a request as it stands, and return the status, the content and the headers."""
    connection = HTTPConnection("127.0.0.1", server.port)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, named)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content, {name.lower(): value for name, value in answer.getheaders()}
