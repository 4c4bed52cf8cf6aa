"""The code in README and docs runs, and the README's figures are what the library computes."""

import re
from pathlib import Path

import pytest
import torch

import noisebound as nb

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# | `name` | … | bound at rate 0.4 and ten classes |
ROWS = dict(re.findall(r"^\| `([\w-]+)` \|.*\| *(-?[\d.]*) *\|$", README, flags=re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_blocks_run(page):
    """One after the other, as a reader would type them."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    logits = torch.randn(8, 10, requires_grad=True)  # what a reader's loop has at hand
    exec("\n".join(blocks), {"logits": logits, "labels": torch.arange(8)})


def test_every_loss_is_in_the_table():
    assert set(ROWS) == set(nb.LOSS_NAMES)


@pytest.mark.parametrize("name", [name for name, bound in ROWS.items() if bound])
def test_bounds_in_the_table(name):
    criterion = nb.create_loss(f"{name}+b", noise_rate=0.4, num_classes=10)
    assert f"{criterion.bound:.3f}" == ROWS[name]


@pytest.mark.parametrize("name", [name for name, bound in ROWS.items() if not bound])
def test_losses_without_a_bound_in_the_table(name):
    with pytest.raises(ValueError, match="has no noise-bound"):
        nb.create_loss(f"{name}+b", noise_rate=0.4, num_classes=10, num_samples=10)
