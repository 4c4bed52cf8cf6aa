"""What comes from data is printed as text, and warnings reach people as notes."""

import warnings

import pytest
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from noisebound.cli import main
from noisebound.system.console import Console, print_note, warnings_as_notes

HOSTILE = "cat\x1b]0;owned\x07\x1b[2J\x9b31m"
SPELLED = r"cat\x1b]0;owned"


def command(*words):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert not ended.value.code


def commands_in(text):
    return [character for character in text if character < " " and character not in "\n\t"] + [
        character for character in text if "\x7f" <= character <= "\x9f"
    ]


@pytest.mark.parametrize("as_renderable", [escape, Text, lambda name: _table(name)])
def test_control_characters_in_names_are_escaped(as_renderable, capsys):
    Console(force_terminal=True, highlight=False, width=200).print(
        "[bold]class[/]", as_renderable(HOSTILE)
    )
    styles = ("\x1b[1m", "\x1b[0m")
    printed = capsys.readouterr().out
    assert styles[0] in printed  # our own styles pass
    for style in styles:
        printed = printed.replace(style, "")
    assert SPELLED in printed
    assert not commands_in(printed)


def _table(name):
    table = Table("class", box=None, header_style="bold")
    table.add_row(escape(name))
    return table


def test_class_names_are_printed_as_text(tmp_path, capsys):
    path = tmp_path / "table.csv"
    rows = [f"{number * 7 % 40 / 8},{HOSTILE if number % 2 else 'dog'}" for number in range(40)]
    path.write_text("\n".join(["x,label", *rows]), encoding="utf-8")
    command("data", "info", str(path), "--target", "label")
    command("data", "info", str(path), "--target", "label", "--json")
    printed = capsys.readouterr()
    assert SPELLED in printed.out
    assert not commands_in(printed.out + printed.err)


def test_warnings_are_notes_without_source_lines(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with warnings_as_notes(lambda text: text.replace("`bound`", "--bound")):
            warnings.warn("`bound` is\nhigh", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "note: --bound is high\n"


def test_the_command_line_shows_warnings_as_notes(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        command("bound", "ce", "--noise-rate", "0.95", "--classes", "10")
    found = capsys.readouterr().err
    assert found.startswith("note: ")
    assert found.count("\n") == 1
    assert "Warning" not in found
    assert ".py" not in found


def test_a_note_is_one_line(capsys):
    print_note("first\n  second [bold]")
    assert capsys.readouterr().err == "note: first second [bold]\n"


def test_notes_name_the_flags_of_the_command(tmp_path, capsys):
    path = tmp_path / "table.csv"
    labels = ["yes", "Yes ", "no", "no"] * 10
    rows = [f"{number * 7 % 40 / 8},{label}" for number, label in enumerate(labels)]
    path.write_text("\n".join(["x,label", *rows]), encoding="utf-8")
    settings = ("--loss", "ce", "--epochs", "1", "--out", str(tmp_path / "run"))
    command("data", "info", str(path), "--target", "label")
    command("fit", str(path), "--target", "label", *settings)
    printed = capsys.readouterr()
    for text in printed:
        assert "to make them one: --merge-labels" in text
        assert "`merge_labels`" not in text
