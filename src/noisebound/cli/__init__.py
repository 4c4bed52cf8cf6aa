"""The command line: parse, call, print.

A command is imported when it is called or its help is shown. It imports torch only when it runs.
"""

import ast
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cyclopts import App, CycloptsError, Group, Parameter
from rich.markup import escape

from noisebound.cli.messages import command_flags, user_message, with_flags
from noisebound.system.console import Console, warnings_as_notes
from noisebound.system.signals import exit_code, interruptible, interruption

ISSUES = "https://github.com/noisebound/noisebound/issues"

# The commands of each module, in the groups and the order of `noisebound --help`.
_COMMANDS = {
    "Train and predict": {"fit": ["fit"], "predict": ["predict", "embed"], "paper": ["demo"]},
    "Find wrong labels": {"estimate": ["estimate"], "review": ["suspects", "review", "labels"]},
    "Data and theory": {"data": ["data"], "theory": ["bound", "explore", "figure"]},
    "The paper": {"paper": ["reproduce", "preset", "report"]},
}


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
for _flag in ("--help", "--version", "--install-completion"):
    app[_flag].group = "Options"


def _register(module: str, names: Sequence[str], group: Group) -> None:
    """Add the commands of a module; their help is read from its file, which imports nothing."""
    place = f"{__name__}.{module}"
    tree = ast.parse(Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8"))
    help_of = {
        each.name: (ast.get_docstring(each) or "").partition("\nParameters\n")[0]
        for each in tree.body
        if isinstance(each, ast.FunctionDef)
    }
    for name in names:
        text = help_of.get(name) or ast.get_docstring(tree)
        app.command(f"{place}:{name}", name=name, help=text, group=group, sort_key=len([*app]))


for _title, _modules in _COMMANDS.items():
    _group = Group.create_ordered(_title)
    for _module, _names in _modules.items():
        _register(_module, _names, _group)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; by default, with the arguments of this process.

    Errors in the arguments, the data, a file or the network are reported in one line, with exit
    code 2. All other errors are shown with their traceback, with exit code 1. Ctrl-C exits with
    130, SIGTERM with 143.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    flags = command_flags(app, words)  # imports the command while Ctrl-C still exits silently
    with interruptible(), warnings_as_notes(lambda text: with_flags(text, flags)):
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
