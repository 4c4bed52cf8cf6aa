"""``noisebound explore``: the floor, to be played with."""

from pathlib import Path

from rich.console import Console
from rich.markup import escape

from noisebound.report.explorer import write_explorer


def explore(*, out: Path = Path("explorer.html")) -> None:
    """Write one self-contained HTML page: sliders for the noise, and the floor that follows.

    Parameters
    ----------
    out
        The page.
    """
    write_explorer(out)
    Console(soft_wrap=True, highlight=False).print(f"written: {escape(str(out))}")
