"""Templates are rendered to text; every value is escaped, and a missing value is an error."""

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
    """Return the text of a template of ``report/templates``, filled with the values."""
    return _ENVIRONMENT.get_template(template).render(values)
