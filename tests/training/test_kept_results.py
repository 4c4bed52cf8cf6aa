"""Progress of a search: announced, one line on a terminal, one line per stage in a log."""

import sys

import torch

from noisebound.estimation import OutOfFold
from noisebound.training.session import Session, alone


def _found():
    return OutOfFold(torch.zeros(2, 2), torch.zeros(2, dtype=torch.long), torch.arange(2))


def test_a_log_has_one_line_per_stage(capsys):
    session = Session()
    session.announce("comparing 3 learners")
    tasks = {str(number): _found for number in range(3)}
    assert len(session.kept_or_computed_all(tasks, "trying learners")) == 3
    first, second = capsys.readouterr().err.splitlines()
    assert first == "comparing 3 learners"
    assert second.startswith("trying learners: 3 done in ")


def test_a_terminal_shows_how_many_are_done(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    Session().kept_or_computed_all({"one": _found}, "trying learners")
    shown = capsys.readouterr().err
    assert "trying learners: 1 done" in shown
    assert shown.endswith("\x1b[1A\x1b[2K")  # the one line is removed


def test_nothing_is_shown_where_all_is_kept(capsys):
    class Keeper:
        def read_out_of_fold(self, name):
            return _found()

    assert len(Session(keeper=Keeper()).kept_or_computed_all({"one": _found}, "trying")) == 1
    assert capsys.readouterr().err == ""


def test_nothing_is_shown_unasked(capsys):
    session = Session(show=False)
    session.announce("comparing")
    session.kept_or_computed_all({"one": _found}, "trying")
    assert capsys.readouterr().err == ""


def test_processes_keep_freed_memory_and_compute_in_one_thread(monkeypatch):
    calls = []
    monkeypatch.setattr("noisebound.training.session.keep_freed_memory", lambda: calls.append(1))
    assert alone(torch.get_num_threads) == 1
    assert calls == [1]
