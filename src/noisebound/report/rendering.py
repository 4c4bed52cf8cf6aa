"""Templates into text: every value escaped, and none forgotten."""

from collections.abc import Mapping

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

_ENVIRONMENT = Environment(
    loader=PackageLoader("noisebound.report"),
    autoescape=select_autoescape(default=True, default_for_string=True),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def render(template: str, values: Mapping[str, object]) -> str:
    """A template of ``report/templates`` with its values filled in."""
    return _ENVIRONMENT.get_template(template).render(values)
