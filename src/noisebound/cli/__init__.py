"""The command line: parse, call, print.

Commands are named, and imported only when called: training alone takes a second to import.
"""

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError
from pydantic import ValidationError
from rich.console import Console
from rich.markup import escape

app = App(
    name="noisebound",
    help="Train classifiers on noisy labels without memorising the noise.",
)
for _name, _help, _example in (
    ("demo", "What a bound does: digits with 60 % wrong labels, in a minute.", "--out demo"),
    (
        "fit",
        "Train a robust classifier and leave it in a folder.",
        "photos/ --model small_cnn --out run",
    ),
    (
        "estimate",
        "Estimate how many labels are wrong, and which classes are taken for which.",
        "photos/ --model small_cnn",
    ),
    (
        "suspects",
        "Rank the labels of a run's training data by how likely they are wrong.",
        "run --out suspects.csv",
    ),
    ("predict", "Label new data with a trained model.", "run new-photos/ --out labels.csv"),
    ("bound", "Show the noise-bound of a loss.", "sce --noise-rate 0.4 --classes 10"),
    ("explore", "Write one HTML page to try noise rates and losses on.", "--out explorer.html"),
    (
        "reproduce",
        "Make a table of the paper, the paper's figures beside ours.",
        "own --columns digits-0.4 --set epochs=20",
    ),
    ("figure", "Draw a figure of the paper.", "sensitivity"),
    ("report", "Write one HTML page about runs.", "reproduction --out report.html"),
    ("preset", "Print the settings of the experiments.", "cpu > mine.json"),
):
    app.command(
        f"noisebound.cli.{_name}_command:{_name}",
        name=_name,
        help=f"{_help}\n\nExample: `noisebound {_name} {_example}`",
    )
app.command(
    "noisebound.cli.data_commands:data_app",
    name="data",
    help="Data sets: which there are, fetch one, look at one.",
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; the user's mistakes are told in a line, with exit code 2."""
    try:
        app(
            sys.argv[1:] if arguments is None else arguments, print_error=False, exit_on_error=False
        )
    except CycloptsError as error:
        cause = error.__cause__
        _complain(_first_mistake(cause) if isinstance(cause, ValidationError) else str(error))
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ValueError, TypeError, OSError) as error:
        if os.environ.get("NOISEBOUND_TRACEBACK"):
            raise
        _complain(str(error))
    except KeyboardInterrupt:
        sys.exit(130)


def _first_mistake(error: ValidationError) -> str:
    first = error.errors()[0]
    option = str(first["loc"][0]).replace("_", "-")
    return f"--{option}: {first['msg']}, got {first['input']!r}"


def _complain(message: str) -> None:
    if os.environ.get("LOCAL_RANK", "0") == "0":  # the other ranks have the same to say
        Console(stderr=True, soft_wrap=True).print(f"[bold red]error:[/] {escape(message)}")
    sys.exit(2)
