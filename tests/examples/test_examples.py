"""Every example runs: scripts by their commands, for fewer epochs, and notebooks as they are."""

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import torch
from nbclient import NotebookClient
from PIL import Image

from noisebound.features import parse_backbone

EXAMPLES = Path(__file__).parents[2] / "examples"
COMMANDS = re.findall(r"\| `(.*)` \|$", (EXAMPLES / "README.md").read_text(), flags=re.MULTILINE)
PYTHON = {
    "python": [sys.executable],
    "torchrun": [sys.executable, "-m", "torch.distributed.run"],
}


def command_of(name, epochs):
    (command,) = (command for command in COMMANDS if f"/{name}" in command)
    program, *arguments = shlex.split(command)
    return program, [*arguments, "--epochs", str(epochs)]


def run(name, epochs):
    program, arguments = command_of(name, epochs)
    result = subprocess.run(
        [*PYTHON[program], *arguments],
        capture_output=True,
        text=True,
        cwd=EXAMPLES.parent,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture
def run_here(monkeypatch, capsys):
    """Return a function that runs an example as `run` does, but starts no process."""

    def run_here(name, epochs):
        program, arguments = command_of(name, epochs)
        assert program == "python"
        monkeypatch.setattr(sys, "argv", arguments)
        monkeypatch.chdir(EXAMPLES.parent)
        monkeypatch.syspath_prepend(EXAMPLES)  # as for a script
        with torch.random.fork_rng():
            runpy.run_path(arguments[0], run_name="__main__")
        return capsys.readouterr().out

    return run_here


def accuracies(printed):
    return [float(figure) for figure in re.findall(r"clean test labels ([\d.]+)%", printed)]


def test_every_example_is_listed():
    listed = {word for command in COMMANDS for word in command.split() if "/" in word}
    notebooks = re.findall(r"\]\((\w+\.ipynb)\)", (EXAMPLES / "README.md").read_text())
    listed |= {f"examples/{name}" for name in notebooks}
    found = {f"examples/{path.name}" for path in EXAMPLES.iterdir() if path.suffix != ".md"}
    assert listed == found - {"examples/__pycache__"}


def test_plain_pytorch(run_here):
    lines = run_here("digits.py", epochs=2).splitlines()
    assert lines[0].startswith("digits: 1257 training images")
    assert [line.split()[0] for line in lines[3:]] == ["CE", "FCE", "GCE", "SCE", "CEP"]


@pytest.mark.parametrize("name", ["fabric_digits.py", "torchrun_digits.py"])
def test_two_processes(name):
    printed = run(name, epochs=60)
    assert printed.count("2 processes, bound 7.706") == 1  # only one process prints
    (accuracy,) = accuracies(printed)
    assert accuracy > 60


@pytest.mark.filterwarnings("default")  # those of Lightning
def test_lightning(run_here):
    printed = run_here("lightning_digits.py", epochs=30)
    assert min(accuracies(printed)) > 60
    assert re.search(r"below the floor 7.706 since epoch [12]\d", printed)


def test_transformers(run_here):
    printed = run_here("transformers_sequences.py", epochs=10)
    assert len(accuracies(printed)) == 2
    assert "plain at 0.000: 0% of the steps uphill" in printed
    assert "bounded at 1.112" in printed


def test_transformers_tokens(run_here):
    printed = run_here("transformers_tokens.py", epochs=1)
    assert "plain at 0.000: 0% of the steps uphill" in printed
    assert "bounded at 0.187" in printed
    assert re.search(r"F1 on clean test labels [\d.]+%\n\d+ spans have probably lost", printed)


def test_segmentation(run_here):
    printed = run_here("segmentation.py", epochs=5)
    assert re.search(r"bounded at 0\.455: [\d.]+% of the steps uphill, pixel accuracy", printed)
    assert re.search(r"wrong pixels: 15.6%; estimated .*% \(.* with 95% confidence", printed)


def test_encoder(onnx_file):
    """The file that the example wrote is a backbone, whose vectors have 1,280 numbers."""
    backbone = parse_backbone(f"onnx:{onnx_file}")
    vectors = backbone.embed([backbone.prepare(Image.new("RGB", (32, 32)))])
    assert vectors.shape == (1, 1280)


def runs(name, folder):
    """Run a notebook in its own kernel; return what it prints, and whether it draws."""
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    assert any(cell.get("outputs") for cell in notebook.cells)  # for readers on the web
    assert f"blob/main/examples/{name}.ipynb" in notebook.cells[0].source  # on Colab
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=300, resources=resources).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    printed = "".join(output.text for output in outputs if output.get("name") == "stdout")
    return printed, any("image/png" in output.get("data", {}) for output in outputs)


def percents(pattern, printed):
    return [float(figure) for figure in re.findall(rf"{pattern} +([\d.]+)%", printed)]


def test_photos(tmp_path):
    printed, draws = runs("photos", tmp_path)
    assert draws
    assert int(re.search(r"(\d+) of the 30 most suspect labels are wrong", printed)[1]) > 20


def test_table(tmp_path):
    printed, _ = runs("table", tmp_path)
    (boosting,), (ours,) = percents("boosting", printed), percents("noisebound", printed)
    assert ours > boosting + 3
    assert int(re.search(r"(\d+) of the 50 most suspect labels are wrong", printed)[1]) > 40


def test_texts(tmp_path):
    printed, _ = runs("texts", tmp_path)
    assert int(re.search(r"(\d+) of the 50 most suspect labels are wrong", printed)[1]) > 30


def test_annotators(tmp_path):
    printed, _ = runs("annotators", tmp_path)
    (majority,), (consensus,) = percents("vote right", printed), percents("sus right", printed)
    assert consensus > majority + 1
    assert percents("on new digits:", printed)[0] > 85


def test_own_loop(tmp_path):
    printed, draws = runs("own_loop", tmp_path)
    assert draws
    assert "no honest model gets below 7.706" in printed
    assert re.search(r"memorizing since epoch \d+", printed)
    plain, bounded = map(float, re.findall(r"plain ([\d.]+)%, bounded ([\d.]+)%", printed)[0])
    assert bounded > plain + 10
