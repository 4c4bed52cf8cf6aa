"""``noisebound bound``: the floor of a loss."""

import json as json_format
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from torch import nn

from noisebound.bounds import entropy_interval, noise_bound, symmetric_noise
from noisebound.catalog import create_loss
from noisebound.cli.options import Json

_SHOWN = 10


def bound(
    loss: str,
    *,
    noise_rate: Annotated[float, Parameter(help="The probability that a label is wrong.")],
    classes: Annotated[int, Parameter(help="The number of classes.")],
    json: Json = False,
) -> None:
    """Show the noise-bound of a loss, and the interval that noise of other structure has.

    Parameters
    ----------
    loss
        Its name: ce, fce, gce, sce, cep, …
    """
    name = loss.lower().removesuffix("+b")
    # the memories of some losses have a size, which a bound does not depend on
    criterion = create_loss(name, noise_rate=noise_rate, num_classes=classes, num_samples=1)
    level = float(noise_bound(criterion, noise_rate, classes))
    lower, upper = _interval(criterion, noise_rate, classes)
    if json:
        record = {
            "loss": name,
            "noise_rate": noise_rate,
            "classes": classes,
            "bound": level,
            "lower": lower,
            "upper": upper,
        }
        print(json_format.dumps(record))  # noqa: T201
        return
    vector = symmetric_noise(noise_rate, classes).tolist()
    shown = ", ".join(f"{share:.4g}" for share in vector[:_SHOWN])
    console = Console(soft_wrap=True, highlight=False)
    console.print(f"{name} at noise rate {noise_rate:g} with {classes} classes")
    console.print(f"bound     {level:.6g}")
    if lower is not None:
        console.print(f"interval  {lower:.6g} (pairwise noise) to {upper:.6g} (symmetric noise)")
    console.print(f"noise     {shown}{', …' if classes > _SHOWN else ''}")


def _interval(
    criterion: nn.Module, noise_rate: float, classes: int
) -> tuple[float, float] | tuple[None, None]:
    """Between which the entropy lies; a loss that is made for one noise has none."""
    try:
        lower, upper = entropy_interval(criterion, noise_rate, classes)
    except ValueError:
        return None, None
    return float(lower), float(upper)
