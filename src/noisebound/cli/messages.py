"""Error messages, with arguments spelled as on the command line."""

import re
from collections.abc import Mapping, Sequence

from cyclopts import App, Argument, CycloptsError, MissingArgumentError
from pydantic_core import ValidationError

from noisebound.errors import NoiseboundError
from noisebound.extras import missing_extra

_ARGUMENT = re.compile(r"`(?P<name>\w+)(=(?P<value>[^`]+))?`")


def user_message(error: Exception, flags: Mapping[str, str]) -> str | None:
    """Return the message for an error that the user can correct; None for a fault in noisebound."""
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

    An argument may have a value, as in `` `resume=True` ``. Other words in backticks stay.

    Example:
        >>> with_flags("`noise_rate` is below `bound`", {"noise_rate": "--noise-rate"})
        '--noise-rate is below `bound`'
    """
    return _ARGUMENT.sub(lambda found: _spelled(found, flags), message)


def _spelled(found: re.Match[str], flags: Mapping[str, str]) -> str:
    flag, value = flags.get(found["name"]), found["value"]
    if flag is None or (value is not None and not flag.startswith("--")):
        return found[0]
    if value in ("False", "None"):  # no flag has such a value
        return found[0]
    if value in (None, "True"):
        return flag
    return f"{flag} {value}".replace('"', "").replace("'", "")


def _missing_argument(error: MissingArgumentError, flags: Mapping[str, str]) -> str:
    """Return the name of the missing argument, with the first sentence of its help."""
    assert error.argument is not None
    command = " ".join(["noisebound", *(error.command_chain or ())])
    name = flags.get(error.argument.field_info.name, error.argument.name)
    purpose = ""
    if error.app is not None:  # the argument of an error has no help text
        described = error.app.assemble_argument_collection(parse_docstring=True)
        found = next(each for each in described if each.name == error.argument.name)
        purpose = " ".join((found.parameter.help or "").split()).partition(". ")[0].rstrip(".")
    meaning = f": {purpose[0].lower()}{purpose[1:]}" if purpose else ""
    return f"{command} needs {name}{meaning}"


def _field(error: ValidationError) -> str:
    """Return the name of the first invalid field; empty if pydantic names none."""
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
    # When a file is renamed, the second name is the target, and the first is temporary.
    place = error.filename if error.filename2 is None else error.filename2
    text = str(error) if place is None else f"{place}: {error.strerror}"
    return " ".join(text.split()) or type(error).__name__
