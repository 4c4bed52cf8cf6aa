"""``noisebound preset``: print the settings of the experiments."""

from typing import Annotated

from cyclopts import Parameter

from noisebound.system.console import print_text


def preset(
    name: str,
    *,
    set_: Annotated[
        tuple[str, ...], Parameter(name="--set", consume_multiple=True, negative=())
    ] = (),
) -> None:
    """Print a preset as JSON. Edit it and pass it to `reproduce --preset`.

    Parameters
    ----------
    name
        The preset: paper, cpu, features, heads, or a JSON file printed by this command.
    set_
        Settings to change, such as epochs=10, or emnist.epochs=10 for one data set.
    """
    from noisebound.paper.presets import find_preset

    print_text(find_preset(name).override(set_).model_dump_json(indent=2))
