"""The command line: parse, call, print.

Commands are registered by name and imported only when they are called, because training alone takes
a second to import.
"""

import os
import sys
import traceback
from collections.abc import Sequence

from cyclopts import App, CycloptsError
from rich.markup import escape

from noisebound.cli.messages import command_flags, mendable, with_flags
from noisebound.console import Console, warnings_as_notes
from noisebound.interrupts import exit_code, heeded, interruption

ISSUES = "https://github.com/noisebound/noisebound/issues"

app = App(
    name="noisebound",
    help="Train classifiers on noisy labels without memorizing the noise.",
    suppress_keyboard_interrupt=False,  # whose exit code would be 130 for SIGTERM too
)
for _name, _help, _example in (
    (
        "demo",
        "Show what a bound does on digits of which 60 % are mislabeled, in a minute.",
        "--out demo",
    ),
    (
        "fit",
        "Train a robust classifier and save it in a folder.",
        "photos/ --out run",
    ),
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
    (
        "review",
        "Check labels in the browser: a random sample first, then the suspects.",
        "run",
    ),
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
    """Run a command, and tell what the user can mend from what is a fault in noisebound.

    A mistake in the arguments or the data, or trouble with a file, a disk or the network, is told
    in one line, with exit code 2. Anything else is shown with its traceback, with exit code 1.
    Ctrl-C ends with exit code 130, and SIGTERM with 143.

    Args:
        arguments: the words after ``noisebound``; those of this process if not given
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    flags = command_flags(app, words)  # imports the command, while Ctrl-C still ends it silently
    with heeded(), warnings_as_notes(lambda text: with_flags(text, flags)):
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
        message = mendable(error, flags)
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
    from noisebound.training.devices import is_lost_connection  # takes a second to import

    if is_lost_connection(error):
        _complain("another process of this training has ended; see what it says")
    console = Console(stderr=True, soft_wrap=True)
    lines = "".join(traceback.format_exception(error))
    console.print(lines, markup=False, highlight=False, end="")
    console.print(
        "[bold red]This is a fault in noisebound[/]: please report it, with the lines above, at "
        + ISSUES
    )
    sys.exit(1)
