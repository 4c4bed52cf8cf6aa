"""``noisebound bound``, ``explore`` and ``figure``: the theory, without training."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from noisebound.cli.options import Json
from noisebound.paper import FigureName
from noisebound.system.console import print_json, print_text
from noisebound.training.config import as_share

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

    Example: `noisebound bound sce --noise-rate 0.4 --classes 10`

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
    record: dict[str, Any] = {"loss": name, "noise_rate": noise_rate, "classes": num_classes}
    record["bound"] = float(noise_bound(criterion, noise_rate, num_classes))
    record["lower"] = record["upper"] = None
    with suppress(ValueError):  # losses that are made for one kind of noise have no range
        interval = entropy_interval(criterion, noise_rate, num_classes)
        record["lower"], record["upper"] = map(float, interval)
    if json:
        print_json(record)
        return
    vector = symmetric_noise(noise_rate, num_classes).tolist()
    shown = ", ".join(f"{share:.4g}" for share in vector[:_MOST_SHOWN])
    print_text(f"{name} at noise rate {noise_rate:g} with {num_classes} classes")
    print_text(f"bound     {record['bound']:.6g}")
    if record["lower"] is not None:
        ends = f"{record['lower']:.6g} (pairwise noise) to {record['upper']:.6g} (symmetric noise)"
        print_text(f"interval  {ends}")
    print_text(f"noise     {shown}{', …' if num_classes > _MOST_SHOWN else ''}")


def explore(*, out: Path = Path("explorer.html")) -> None:
    """Write a self-contained HTML page that plots the floor of each loss over the noise rate.

    Example: `noisebound explore --out page.html`

    Parameters
    ----------
    out
        The HTML file to write.
    """
    from noisebound.pages.explorer import write_explorer

    write_explorer(out)
    print_text(f"written: {out}")


def figure(name: FigureName, *, out: Path = Path()) -> None:
    """Draw a figure of the paper, as PNG and SVG.

    Example: `noisebound figure sensitivity`

    Parameters
    ----------
    name
        sensitivity: the range of the floor for noise of any structure. noise-models: the losses'
            inverse noise models.
    out
        The folder to write to.
    """
    from noisebound.paper import figures

    is_sensitivity = name == "sensitivity"
    drawn = figures.sensitivity_figure() if is_sensitivity else figures.noise_models_figure()
    print_text(f"written: {', '.join(map(str, figures.write_figure(drawn, out, name)))}")
