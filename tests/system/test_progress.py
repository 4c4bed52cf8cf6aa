"""Progress on a terminal and in a log."""

import sys

import pytest

from noisebound.system.progress import Progress, ProgressText, counting, progress_shown, track


class Clock:
    """A clock that only the test moves."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    """The clock of every console made from now on."""
    clock = Clock()
    monkeypatch.setattr("rich.console.monotonic", clock)
    return clock


def test_a_log_gets_a_line_every_ten_seconds_and_the_last_state(clock, capsys):
    with ProgressText() as text:
        for number in range(26):
            clock.now = float(number)
            text.show(f"at {number}")
    assert capsys.readouterr().err.split("\n") == ["at 10", "at 20", "at 25", ""]


@pytest.mark.parametrize(("seconds", "lines"), [(9, 0), (10, 1), (11, 2)])
def test_short_work_leaves_no_line_in_a_log(seconds, lines, clock, capsys):
    with Progress(log_short=False) as progress:
        for number in range(seconds + 1):
            clock.now = float(number)
            progress.log_state(lambda number=number: f"at {number}")
    assert capsys.readouterr().err.count("\n") == lines


def test_a_count_says_how_fast_it_is_and_how_long_it_takes(clock, capsys):
    with counting("embedding", 6_000, done=1_000) as advance:
        for _ in range(5):
            clock.now += 5.0
            advance(1_000)
    assert capsys.readouterr().err.split("\n")[:-1] == [
        "embedding: 3,000 of 6,000, 200 per second, about 0:00:15 left",
        "embedding: 5,000 of 6,000, 200 per second, about 0:00:05 left",
        "embedding: 6,000 of 6,000, 200 per second",
    ]


def test_bytes_are_megabytes_and_a_total_may_be_unknown(clock, capsys):
    with counting("file.gz", None, unit="bytes") as advance:
        for clock.now in (5.0, 10.0):
            advance(25_000_000)
    assert capsys.readouterr().err == "file.gz: 50.0 MB, 5.0 MB per second\n"


def test_only_the_first_rank_logs(monkeypatch, capsys):
    monkeypatch.setenv("LOCAL_RANK", "1")
    with ProgressText() as text:
        text.show("reading")
    assert capsys.readouterr().err == ""


def test_forced_colors_do_not_make_a_log_a_terminal(clock, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as a notebook's kernel sets it
    with ProgressText() as text:
        clock.now = 10.0
        text.show("at 10")
    assert capsys.readouterr().err == "at 10\n"


def test_a_quiet_call_shows_nothing(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress_shown(False), counting("embedding", 3) as advance:
        advance(3)
    assert capsys.readouterr().err == ""


def test_track_yields_all_items(capsys):
    assert list(track(iter("abc"), "reading", 3)) == ["a", "b", "c"]
    assert capsys.readouterr().err == ""


def test_a_terminal_shows_a_bar_and_no_log_lines(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")
    with counting("reading [bold]", 4_000) as advance:
        advance(2_000)
    with ProgressText() as text:
        text.show("epoch 1")
    drawn = capsys.readouterr().err
    assert "reading [bold] " in drawn
    assert "━" in drawn
    assert "2,000 of 4,000" in drawn
    assert "epoch 1" in drawn
    assert "reading [bold]:" not in drawn
