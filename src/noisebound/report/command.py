"""The command that made a folder, kept beside what it made, to be repeated."""

from pathlib import Path

from noisebound.files import write_text

_FILE = "command.txt"


def save_command(folder: Path, command: str) -> None:
    """Whole or not at all."""
    write_text(folder / _FILE, f"{command}\n")


def read_command(folder: Path) -> str | None:
    """None where it was not a command that made the folder."""
    try:
        return (folder / _FILE).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
