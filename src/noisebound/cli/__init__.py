"""The command line: parse, call, print.

A command is registered by name and imported when it is called or when its help is shown. It imports
torch, and all that needs torch, when it runs.
"""

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from cyclopts import App, CycloptsError, Parameter
from rich.markup import escape

from noisebound.cli.messages import command_flags, user_message, with_flags
from noisebound.system.console import Console, warnings_as_notes
from noisebound.system.signals import exit_code, interruptible, interruption

ISSUES = "https://github.com/noisebound/noisebound/issues"


def _shown_default(value: Any) -> str | None:
    """Return a default as the help shows it; options that are off or empty have none to show."""
    if value is True:
        return "on"
    if value is None or value is False or value == ():
        return None
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


app = App(
    name="noisebound",
    help="Train classifiers on noisy labels without memorizing the noise.",
    default_parameter=Parameter(show_default=_shown_default),
    suppress_keyboard_interrupt=False,  # whose exit code would be 130 for SIGTERM too
)
app.register_install_completion_command(
    help="Install completion of commands and options for your shell: bash, zsh, fish or PowerShell."
)
for _name, _help, _example in (
    ("demo", "Show what a bound does on digits of which 60 % are mislabeled.", "--out demo"),
    ("fit", "Train a robust classifier and save it in a folder.", "photos/ --out run"),
    (
        "estimate",
        "Estimate how many labels are wrong, and which classes are mistaken for which.",
        "photos/",
    ),
    (
        "suspects",
        "Rank the labels of a run's training data by how likely they are wrong.",
        "run --out suspects.csv",
    ),
    ("review", "Check labels in the browser: a random sample first, then the suspects.", "run"),
    (
        "labels",
        "Write the labels after a review: as given, as they should be, and why.",
        "run --out labels.csv",
    ),
    ("predict", "Label new data with a trained model.", "run new-photos/ --out labels.csv"),
    (
        "embed",
        "Turn images or texts into the vectors of a pretrained encoder, here or on a cluster.",
        "photos/ --backbone onnx:net.onnx --out vectors",
    ),
    ("bound", "Show the noise-bound of a loss.", "sce --noise-rate 0.4 --classes 10"),
    (
        "explore",
        "Write an HTML page with sliders for the noise rate and the losses.",
        "--out explorer.html",
    ),
    (
        "reproduce",
        "Reproduce a table of the paper, with the paper's numbers beside ours.",
        "table1 --columns fashion-mnist-0.4 --methods ce ce+b",
    ),
    ("figure", "Draw a figure of the paper.", "sensitivity"),
    ("report", "Write an HTML page about runs.", "reproduction --out report.html"),
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
    help="List the known data sets, fetch one, or look at one.",
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command, and separate mistakes of the user from faults in noisebound.

    A mistake in the arguments or the data, or trouble with a file, a disk or the network, is
    reported in one line, with exit code 2. Anything else is shown with its traceback, with exit
    code 1. Ctrl-C ends with exit code 130, and SIGTERM with 143.

    Args:
        arguments: the words after ``noisebound``; those of this process if not given
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    flags = command_flags(app, words)  # imports the command, while Ctrl-C still ends it silently
    with interruptible(), warnings_as_notes(lambda text: with_flags(text, flags)):
        _run(words)


def _run(words: Sequence[str]) -> None:
    try:
        app(words, print_error=False, exit_on_error=False)
    except KeyboardInterrupt as interrupt:
        sys.exit(exit_code(interrupt))
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        came_of = interruption(error)
        if came_of is not None:
            sys.exit(exit_code(came_of))
        flags = command_flags(app, words)
        message = user_message(error, flags)
        if message is None:
            _report_fault(error)
        elif os.environ.get("NOISEBOUND_TRACEBACK") and not isinstance(error, CycloptsError):
            raise
        else:
            _complain(with_flags(message, flags))


def _complain(message: str) -> None:
    if os.environ.get("LOCAL_RANK", "0") == "0":  # the other ranks have the same to say
        Console(stderr=True, soft_wrap=True).print(f"[bold red]error:[/] {escape(message)}")
    sys.exit(2)


def _report_fault(error: Exception) -> None:
    if "torch.distributed" in sys.modules:
        from noisebound.training.devices import is_lost_connection

        if is_lost_connection(error):
            _complain("another process of this training has ended; see its output")
    console = Console(stderr=True, soft_wrap=True)
    lines = "".join(traceback.format_exception(error))
    console.print(lines, markup=False, highlight=False, end="")
    console.print(
        "[bold red]This is a fault in noisebound[/]: please report it, with the lines above, at "
        + ISSUES
    )
    sys.exit(1)
