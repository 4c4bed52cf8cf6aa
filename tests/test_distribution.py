"""The wheel holds the whole package and nothing else. `make dist` tries it out."""

import re
import subprocess
import sys
from email.parser import Parser
from importlib.metadata import packages_distributions
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

import noisebound
from noisebound.cli import ISSUES
from noisebound.errors import packages_of

ROOT = Path(__file__).parent.parent
CORE = {"torch", "numpy", "scipy", "jaxtyping"}
EXTRAS = {
    "cleanlab",
    "cli",
    "excel",
    "hf",
    "hub",
    "images",
    "lightning",
    "onnx",
    "ray",
    "review",
    "sklearn",
    "tensorboard",
    "texts",
    "transformers",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT]
    subprocess.run(command, check=True, capture_output=True)
    with ZipFile(next(out.glob("*.whl"))) as archive:
        yield archive


@pytest.fixture(scope="module")
def metadata(wheel):
    (path,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(path).decode())


def test_every_file_of_the_package_is_in_it(wheel):
    source = ROOT / "src"
    files = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == files


def test_the_version_is_written_once(metadata):
    assert metadata["Version"] == noisebound.__version__
    texts = [(ROOT / name).read_text() for name in ("CITATION.cff", "mkdocs.yml", "README.md")]
    assert not any(noisebound.__version__ in text for text in texts)


def test_pictures_of_the_readme_are_shown_on_pypi(metadata):
    text = metadata.get_payload()
    assert "](https://raw.githubusercontent.com/noisebound/noisebound/main/docs/pictures/" in text
    assert not re.findall(r"\]\((?!https:)", text)


def packages(metadata, extra=None):
    """The packages that an extra brings; without one, those that come with noisebound itself."""
    needs = [Requirement(text) for text in metadata.get_all("Requires-Dist")]
    if extra is None:
        return {need.name for need in needs if need.marker is None}
    return {need.name for need in needs if need.marker and need.marker.evaluate({"extra": extra})}


def test_an_extra_is_not_installed_unasked(metadata):
    assert packages(metadata) == CORE
    assert {*metadata.get_all("Provides-Extra")} >= EXTRAS | {"all"}


def test_extra_all_installs_every_user_extra(metadata):
    assert packages(metadata, "all") == set.union(*(packages(metadata, name) for name in EXTRAS))
    assert packages(metadata, "all") < packages(metadata, "test")
    assert packages(metadata, "sklearn") == packages(metadata, "cli")


def test_the_packages_of_the_command_line_are_known_by_name(metadata):
    """So that a missing one is told as such, by the name that pip knows."""
    installed = packages_distributions()
    for extra in ("cli", "review"):
        found = packages_of(extra)
        assert {*found.values()} == packages(metadata, extra)
        for module, package in found.items():
            assert package in {name.lower() for name in installed[module]}


def test_faults_are_reported_to_the_projects_issues(metadata):
    assert f"Issues, {ISSUES}" in metadata.get_all("Project-URL")
