"""The wheel: all that the package needs, and nothing else. `make dist` tries it out."""

import subprocess
import sys
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

import noisebound

ROOT = Path(__file__).parent.parent
EXTRAS = {"cleanlab", "lightning", "ray", "tensorboard", "transformers"}


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


def test_an_extra_is_not_installed_unasked(metadata):
    needs = [Requirement(text) for text in metadata.get_all("Requires-Dist")]
    core = {need.name for need in needs if need.marker is None}
    assert "torch" in core
    assert core.isdisjoint(EXTRAS)
    assert {*metadata.get_all("Provides-Extra")} >= EXTRAS
