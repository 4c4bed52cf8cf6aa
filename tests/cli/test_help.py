"""Help speaks to people who type commands, and shows it in groups."""

import re

import pytest

from noisebound.cli import app
from noisebound.models import MODEL_NAMES

COMMANDS = [[name] for name in app if not name.startswith("-") and name != "data"]
COMMANDS += [["data", name] for name in app["data"] if not name.startswith("-")]


@pytest.fixture
def help_of(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")

    def read(*words):
        app([*words, "--help"], result_action="return_value")
        return capsys.readouterr().out

    return read


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_help_is_in_the_words_of_python(help_of, command):
    shown = help_of(*command)
    assert not re.findall(r"\b(?:True|False|None|CHOICE\|CHOICE)\b", shown)
    identifiers = {*re.findall(r"(?<![\w=:])[a-z]+(?:_[a-z]+)+\b", shown)}
    assert identifiers <= {*MODEL_NAMES}


def panels(text):
    """The options in each panel of a help page."""
    found = re.findall(r"^╭─ (.*?) ─+╮$(.*?)^╰", text, flags=re.MULTILINE | re.DOTALL)
    return {
        title: re.findall(r"^│ [* ]*(?:[A-Z]+ )?(--[\w-]+)", body, re.M) for title, body in found
    }


def test_the_main_options_of_fit_come_first(help_of):
    shown = panels(help_of("fit"))
    assert [*shown] == ["Main options", "Data", "Columns", "Noise", "Training", "Devices", "Output"]
    assert shown["Main options"] == [
        *("--data", "--out", "--target", "--test", "--backbone"),
        *("--recipe", "--learner", "--noise-rate", "--epochs", "--resume"),
    ]
    assert "--loss" in shown["Noise"]
    assert "--seed" in shown["Training"]
    assert "--skip-bad" in shown["Data"]
    assert "--types" in shown["Columns"]


def test_the_defaults_of_fit(help_of):
    shown = " ".join(help_of("fit").replace("│", " ").split())
    assert " STR" not in shown
    assert "fce+b" not in shown
    assert re.search(r"--recipe NAME .*? \[default: auto\] .*--noise-rate", shown)
    assert "--epochs INT The number of epochs. [default: 50]" in shown


def test_no_help_promises_a_time(help_of):
    assert "minute" not in help_of() + help_of("demo")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_the_commands_and_their_options(shell):
    script = app.generate_completion(shell=shell)
    for word in ("suspects", "cache", "noise-rate", "skip-bad"):
        assert word in script
