"""``noisebound bound``: show the noise-bound of a loss."""

from contextlib import suppress
from typing import Annotated

from cyclopts import Parameter

from noisebound.cli.options import Json, as_share
from noisebound.system.console import print_json, print_text

_MOST_SHOWN = 10  # entries of the noise vector, to fit on a line


def bound(
    loss: str,
    *,
    noise_rate: Annotated[
        float,
        Parameter(
            metavar="RATE",
            converter=lambda _, tokens: float(as_share(tokens[0].value)),
            help="The probability that a label is wrong.",
        ),
    ],
    num_classes: Annotated[int, Parameter(name="--classes", help="The number of classes.")],
    json: Json = False,
) -> None:
    """Show the noise-bound of a loss, and the range of bounds for noise of any structure.

    Parameters
    ----------
    loss
        The name of the loss, such as ce, fce, gce, sce or cep.
    """
    from noisebound.bounds import entropy_interval, noise_bound, symmetric_noise
    from noisebound.catalog import create_loss

    name = loss.lower().removesuffix("+b")
    # Some losses remember examples, but no bound depends on the number of examples.
    criterion = create_loss(name, noise_rate=noise_rate, num_classes=num_classes, num_samples=1)
    level = float(noise_bound(criterion, noise_rate, num_classes))
    lower = upper = None
    with suppress(ValueError):  # losses that are made for one kind of noise have no range
        lower, upper = map(float, entropy_interval(criterion, noise_rate, num_classes))
    if json:
        record = {
            "loss": name,
            "noise_rate": noise_rate,
            "classes": num_classes,
            "bound": level,
            "lower": lower,
            "upper": upper,
        }
        print_json(record)
        return
    vector = symmetric_noise(noise_rate, num_classes).tolist()
    shown = ", ".join(f"{share:.4g}" for share in vector[:_MOST_SHOWN])
    print_text(f"{name} at noise rate {noise_rate:g} with {num_classes} classes")
    print_text(f"bound     {level:.6g}")
    if lower is not None:
        print_text(f"interval  {lower:.6g} (pairwise noise) to {upper:.6g} (symmetric noise)")
    print_text(f"noise     {shown}{', …' if num_classes > _MOST_SHOWN else ''}")
