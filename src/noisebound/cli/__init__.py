"""The command line: parse, call, print.

A command is imported when it is called or its help is shown. It imports torch only when it runs.
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
    """Return a default as the help shows it, or None for options that are off or empty."""
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
    suppress_keyboard_interrupt=False,  # it would exit with 130 after SIGTERM, too
)
app.register_install_completion_command(
    help="Install shell completion for bash, zsh, fish or PowerShell."
)
for _name, _help, _example in (
    ("demo", "Compare plain and bounded training on digits with 60 % wrong labels.", "--out demo"),
    ("fit", "Train a robust classifier and save it to a folder.", "photos/ --out run"),
    ("estimate", "Estimate how many labels are wrong, and which classes are confused.", "photos/"),
    ("suspects", "Rank a run's labels by the probability that they are wrong.", "run --out s.csv"),
    ("review", "Check labels in the browser: a random sample first, then the suspects.", "run"),
    ("labels", "Export the labels of a run after a review.", "run --out labels.csv"),
    ("predict", "Label new data with a trained model.", "run new-photos/ --out labels.csv"),
    (
        "embed",
        "Embed images or texts by a pretrained encoder, on this machine or a cluster.",
        "photos/ --backbone onnx:net.onnx --out vectors",
    ),
    ("bound", "Show the noise-bound of a loss.", "sce --noise-rate 0.4 --classes 10"),
    ("explore", "Write an HTML page that plots losses over the noise rate.", "--out explorer.html"),
    (
        "reproduce",
        "Reproduce a table of the paper, with the paper's results beside ours.",
        "table1 --columns fashion-mnist-0.4 --methods ce ce+b",
    ),
    ("figure", "Draw a figure of the paper.", "sensitivity"),
    ("report", "Write an HTML report about runs.", "reproduction --out report.html"),
    ("preset", "Print the settings of a preset for `reproduce`.", "cpu > mine.json"),
):
    app.command(
        f"noisebound.cli.{_name}_command:{_name}",
        name=_name,
        help=f"{_help}\n\nExample: `noisebound {_name} {_example}`",
    )
app.command(
    "noisebound.cli.data_commands:data_app",
    name="data",
    help="List, download or inspect data sets.",
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; by default, with the arguments of this process.

    Errors in the arguments, the data, a file or the network are reported in one line, with exit
    code 2. All other errors are shown with their traceback, with exit code 1. Ctrl-C exits with
    130, SIGTERM with 143.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    flags = command_flags(app, words)  # imports the command while Ctrl-C still exits silently
    with interruptible(), warnings_as_notes(lambda text: with_flags(text, flags)):
        _run(words)


def _run(words: Sequence[str]) -> None:
    try:
        app(words, print_error=False, exit_on_error=False)
    except KeyboardInterrupt as interrupt:
        sys.exit(exit_code(interrupt))
    except BrokenPipeError:  # the reader, such as head, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        cause = interruption(error)
        if cause is not None:
            sys.exit(exit_code(cause))
        flags = command_flags(app, words)
        message = user_message(error, flags)
        if message is None:
            _report_fault(error)
        elif os.environ.get("NOISEBOUND_TRACEBACK") and not isinstance(error, CycloptsError):
            raise
        else:
            _complain(with_flags(message, flags))


def _complain(message: str) -> None:
    if os.environ.get("LOCAL_RANK", "0") == "0":  # all ranks have the same message
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
