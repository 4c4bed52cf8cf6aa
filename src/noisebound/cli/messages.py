"""Error messages, with arguments spelled as on the command line."""

import re
from collections.abc import Mapping, Sequence

from cyclopts import App, Argument, CycloptsError, MissingArgumentError, UnusedCliTokensError
from pydantic_core import ValidationError

from noisebound.data.options import first_mistake
from noisebound.errors import NoiseboundError, missing_extra

_ARGUMENT = re.compile(r"`(\w+)`")


def user_message(error: Exception, flags: Mapping[str, str]) -> str | None:
    """Return the message for an error that the user can correct; None for a fault in noisebound."""
    match error:
        case CycloptsError(__cause__=ValidationError() as cause):
            return first_mistake(cause)
        case ValidationError() if error.errors()[0]["loc"][:1] in {(flag,) for flag in flags}:
            return first_mistake(error)
        case MissingArgumentError(argument=Argument(tokens=[]) as one) if not error.unused_tokens:
            command = " ".join(["noisebound", *(error.command_chain or ())])
            return f"{command} needs {flags.get(one.field_info.name, one.name)}"
        case UnusedCliTokensError(unused_tokens=[word, *_]):
            return f"unexpected argument {word!r}"
        case CycloptsError() | NoiseboundError():
            return str(error)
        case OSError():
            # When a file is renamed, the second name is the target, and the first is temporary.
            place = error.filename if error.filename2 is None else error.filename2
            text = str(error) if place is None else f"{place}: {error.strerror}"
            return " ".join(text.split()) or type(error).__name__
        case ImportError():
            missing = missing_extra("this command", error)
            return None if missing is None else str(missing)
    return None


def command_flags(app: App, words: Sequence[str]) -> dict[str, str]:
    """Return the command line's spelling of each Python argument of a command, as in its help.

    Options are spelled as flags, positional arguments in capitals. An unknown command has none.
    """
    try:
        command = app.parse_commands(words)[1][-1]
        return {
            argument.field_info.name: (
                argument.name if argument.index is None else argument.name.lstrip("-").upper()
            )
            for argument in command.assemble_argument_collection()
            if argument.parse and argument.name.startswith("--")
        }
    except Exception:  # a message with Python's names is better than a second error
        return {}


def with_flags(message: str, flags: Mapping[str, str]) -> str:
    """Return a message with the arguments in backticks spelled as flags.

    Example:
        >>> with_flags("`noise_rate` is below `floor`", {"noise_rate": "--noise-rate"})
        '--noise-rate is below `floor`'
    """
    return _ARGUMENT.sub(lambda found: flags.get(found[1], found[0]), message)
