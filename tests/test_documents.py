"""README and docs are true: code runs, commands parse, names exist, figures match the results."""

import csv
import importlib
import re
import shlex
from pathlib import Path

import jaxtyping
import pytest
import torch

import noisebound as nb
from hub_on_disk import use_hub_on_disk
from noisebound.cli import app

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "noisebound"
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
# rows such as: | `name` | … | bound at rate 0.4 and ten classes |
LOSSES = (
    (DOCS / "choosing.md").read_text(encoding="utf-8").partition("## The losses in formulas")[2]
)
ROWS = dict(re.findall(r"^\| `([\w-]+)` \|.*\| *(-?[\d.]*) *\|$", LOSSES, flags=re.MULTILINE))


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def text_of(page):
    return page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_code_blocks_run(page, tmp_path, monkeypatch):
    """The blocks of a page run in order, as a reader would type them, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    if "push_to_hub" in text_of(page):
        use_hub_on_disk(monkeypatch, tmp_path / "hub")
    if "run.export(" in text_of(page):  # whose tracing knows no sizes
        monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    blocks = re.findall(r"```python\n(.*?)```", text_of(page), flags=re.DOTALL)
    model = torch.nn.Linear(4, 10)
    readers_loop = {
        "model": model,
        "optimizer": torch.optim.Adam(model.parameters()),
        "loader": range(4),
        "logits": model(torch.randn(8, 4)),
        "labels": torch.arange(8),
    }
    exec("\n".join(blocks), readers_loop)


def commands_of(page):
    blocks = re.findall(r"```\n(.*?)```", text_of(page), flags=re.DOTALL)
    lines = re.findall(r"^(?:\$ )?(noisebound .*)$", "\n".join(blocks), flags=re.MULTILINE)
    return [shlex.split(line, comments=True)[1:] for line in lines]


COMMANDS = [
    (name_of(page), command)
    for page in PAGES
    for command in commands_of(page)
    if not {">", "\\"} & {*command}  # leave out commands that use shell syntax
]


@pytest.mark.parametrize(
    "command", [command for _, command in COMMANDS], ids=[" ".join(c) for _, c in COMMANDS]
)
def test_commands_parse(command):
    app.parse_args(command, exit_on_error=False, print_error=False)


LINKED = [*PAGES, *sorted(ROOT.glob("*.md")), *sorted((ROOT / "results").rglob("*.md"))]


@pytest.mark.parametrize("page", sorted({*LINKED}), ids=name_of)
def test_relative_links_lead_somewhere(page):
    """Links work in the repository; MkDocs itself checks those of the site, with their anchors."""
    targets = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", text_of(page))
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


def test_every_public_name_is_in_the_api():
    shown = re.findall(
        r"^::: (\S+)", "\n".join(text_of(page) for page in PAGES), flags=re.MULTILINE
    )
    assert len(shown) == len({*shown})
    assert {f"noisebound.{name}" for name in nb.__all__} <= {*shown}


def exists(code):
    """True if the name, path, test or command that the table mentions exists."""
    if code.startswith("noisebound "):
        return code.split()[1] in [*app]
    if "/" in code:
        return any((folder / code).exists() for folder in (ROOT, SOURCE))
    if code.startswith("test_"):
        return any(f"def {code}(" in text_of(path) for path in (ROOT / "tests").rglob("*.py"))
    first, *rest = re.match(r"[\w.]+", code)[0].split(".")
    found = nb.Loss if first == "loss" else getattr(nb, first, None)
    if found is None:
        found = importlib.import_module(f"noisebound.{first}")
    for attribute in rest:
        found = getattr(found, attribute)
    return True


PAPER_ROWS = re.findall(
    r"^\| (?!in the paper)(.*?) \| (.*) \|$",
    text_of(DOCS / "from-paper-to-code.md"),
    flags=re.MULTILINE,
)


@pytest.mark.parametrize(("paper", "code"), PAPER_ROWS)
def test_names_in_the_paper_table_exist(paper, code):
    names = re.findall(r"`([^`]+)`", code)
    assert names
    assert all(exists(name) for name in names)


# rows such as: | situation | what to use | **85.4**; CE 70.5; … | [setting](../results/….md) |
CHOICES = re.findall(
    r"^\| (\*\*.*?) \| .* \| (\*\*\d.*?) \| \[.*?\]\((\S+)\) \|$",
    text_of(DOCS / "choosing.md"),
    flags=re.MULTILINE,
)


@pytest.mark.parametrize(("situation", "figures", "file"), CHOICES)
def test_figures_that_decide_stand_in_the_linked_table(situation, figures, file):
    rows = [line for line in text_of(DOCS / file).splitlines() if line.startswith("|")]
    cells = {cell.split("±")[0].strip(" *") for row in rows for cell in row.split("|")}
    assert {*re.findall(r"\d+\.\d", figures)} <= cells | {
        cell.split("±")[0].split("↑")[0].strip(" *") for cell in cells
    }


def test_there_are_figures_that_decide():
    assert len(CHOICES) == 10


@pytest.mark.parametrize(
    ("weights", "words"), [("last", "last epoch"), ("averaged", "averaged weights")]
)
@pytest.mark.parametrize(("bounded", "suffix"), [("plain", ""), ("bounded", "+b")])
def test_means_of_the_bounded_losses(weights, words, bounded, suffix):
    path = ROOT / "results" / "paper" / "accuracies.csv"
    with path.open(encoding="utf-8") as lines:
        records = [
            record
            for record in csv.DictReader(lines)
            if (record["table"], record["metric"], record["weights"]) == ("table1", "top1", weights)
        ]
    row = re.search(rf"^\| {bounded}, {words} \| (.*) \|$", text_of(DOCS / "choosing.md"), re.M)
    for name, shown in zip(("ce", "fce", "gce", "sce", "cep"), row[1].split(" | "), strict=True):
        found = [float(each["accuracy"]) for each in records if each["method"] == name + suffix]
        assert len(found) == 6 * 3
        assert shown == f"{sum(found) / 18:.1f}"


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
