"""Messages about errors, in the words of the command line."""

import re
from collections.abc import Mapping, Sequence

from cyclopts import App, Argument, CycloptsError, MissingArgumentError
from pydantic_core import ValidationError

from noisebound.errors import NoiseboundError
from noisebound.extras import missing_extra

_ARGUMENT = re.compile(r"`(?P<name>\w+)(=(?P<value>[^`]+))?`")


def user_message(error: Exception, flags: Mapping[str, str]) -> str | None:
    """Return the message for an error that the user can correct, or None for a fault in noisebound.

    Args:
        error: the error that a command ended with
        flags: the command's arguments, as :func:`command_flags` returns them
    """
    match error:
        case CycloptsError(__cause__=ValidationError() as cause):
            return _first_mistake(cause, flags)
        case ValidationError() if _field(error) in flags:
            return _first_mistake(error, flags)
        case MissingArgumentError(argument=Argument(tokens=[])) if not error.unused_tokens:
            return _missing_argument(error, flags)
        case CycloptsError() | NoiseboundError():
            return str(error)
        case OSError():
            return _trouble(error)
        case ImportError():
            missing = missing_extra("this command", error)
            return None if missing is None else str(missing)
    return None


def command_flags(app: App, words: Sequence[str]) -> dict[str, str]:
    """Return how the command line spells each Python argument of a command.

    An option is spelled as its flag, and a positional argument in capitals, as in the command's
    help. Where the command cannot be found, there are none.

    Args:
        app: the command line
        words: the words that name the command, and its arguments
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
    except Exception:  # A message in Python's words is better than a second error.
        return {}


def with_flags(message: str, flags: Mapping[str, str]) -> str:
    """Return a message that spells arguments in backticks as the command line does.

    Args:
        message: names an argument as `` `noise_rate` ``, or with its value as `` `resume=True` ``;
            any other word in backticks stays as it is
        flags: the command's arguments, as :func:`command_flags` returns them

    Example:
        >>> with_flags("`noise_rate` is below `bound`", {"noise_rate": "--noise-rate"})
        '--noise-rate is below `bound`'
    """
    return _ARGUMENT.sub(lambda found: _spelled(found, flags), message)


def _spelled(found: re.Match[str], flags: Mapping[str, str]) -> str:
    flag, value = flags.get(found["name"]), found["value"]
    if flag is None or (value is not None and not flag.startswith("--")):
        return found[0]
    if value in ("False", "None"):  # which is to leave the flag out, or has another spelling
        return found[0]
    if value in (None, "True"):
        return flag
    return f"{flag} {value}".replace('"', "").replace("'", "")


def _missing_argument(error: MissingArgumentError, flags: Mapping[str, str]) -> str:
    """Return which argument is missing, and what it is for."""
    assert error.argument is not None
    command = " ".join(["noisebound", *(error.command_chain or ())])
    name = flags.get(error.argument.field_info.name, error.argument.name)
    purpose = ""
    if error.app is not None:  # whose docstring the argument of an error does not have
        described = error.app.assemble_argument_collection(parse_docstring=True)
        found = next(each for each in described if each.name == error.argument.name)
        purpose = " ".join((found.parameter.help or "").split()).partition(". ")[0].rstrip(".")
    meaning = f": {purpose[0].lower()}{purpose[1:]}" if purpose else ""
    return f"{command} needs {name}{meaning}"


def _field(error: ValidationError) -> str:
    """Return the name of the first setting that pydantic refuses; empty if it names none."""
    location = error.errors()[0]["loc"]
    return str(location[0]) if location else ""


def _first_mistake(error: ValidationError, flags: Mapping[str, str]) -> str:
    first, field = error.errors()[0], _field(error)
    text = first["msg"].removeprefix("Value error, ")
    if not field:
        return text
    return f"{flags.get(field, field)}: {text}, got {first['input']!r}"


def _trouble(error: OSError) -> str:
    """Return one line about a file, a disk or the network."""
    # The second file is the target of a renaming, and the first one only its temporary name.
    place = error.filename if error.filename2 is None else error.filename2
    text = str(error) if place is None else f"{place}: {error.strerror}"
    return " ".join(text.split()) or type(error).__name__
