"""Messages name flags, and faults in noisebound are not taken for mistakes of the user's."""

import errno
import json
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from cyclopts import App
from pydantic import BaseModel, ValidationError

import noisebound.cli
from noisebound.cli import ISSUES, main
from noisebound.cli.messages import command_flags, user_message, with_flags
from noisebound.errors import (
    DataError,
    FolderTakenError,
    InvalidTypeError,
    InvalidValueError,
    MissingExtraError,
    MisuseError,
    install_command,
    missing_extra,
)

TESTS = Path(__file__).parent.parent
FLAGS = {"noise_rate": "--noise-rate", "set_": "--set", "resume": "--resume", "data": "DATA"}


class Settings(BaseModel):
    share: float = 0.5


@pytest.fixture
def raising(monkeypatch):
    """The command line with one command, `try RUN --noise-rate …`, that ends with an error."""

    def prepare(error):
        app = App(name="noisebound")

        @app.command(name="try")
        def try_(run: str, *, noise_rate: float = 0.1, share: float = 0.5) -> None:
            if error is not None:
                raise error

        monkeypatch.setattr(noisebound.cli, "app", app)

    return prepare


def ended(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    out, error = capsys.readouterr()
    assert out == ""
    return stopped.value.code, error


class TestFlags:
    """The commands of the application."""

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            (["fit", "photos", "--out", "x"], {"data": "DATA", "out": "--out"}),
            (["fit"], {"noise_rate": "--noise-rate", "validation_share": "--validation-share"}),
            (["fit"], {"transition": "--transition", "target": "--target", "resume": "--resume"}),
            (["suspects", "run"], {"run": "RUN", "data": "DATA", "skip_bad": "--skip-bad"}),
            (["data", "info"], {"name_or_path": "NAME-OR-PATH", "image_size": "--image-size"}),
            (["preset", "cpu", "--set", "epochs=1"], {"name": "NAME", "set_": "--set"}),
            (["reproduce", "--set", "x"], {"target": "TARGET", "set_": "--set"}),
            (["bound", "ce"], {"loss": "LOSS", "num_classes": "--classes"}),
        ],
    )
    def test_spelling(self, words, expected):
        flags = command_flags(noisebound.cli.app, words)
        assert {name: flags[name] for name in expected} == expected
        assert "config" not in flags

    @pytest.mark.parametrize("words", [[], ["nonsense"], ["--help"], ["data"], ["data", "no"]])
    def test_no_command_has_none(self, words):
        assert command_flags(noisebound.cli.app, words) == {}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("`noise_rate` must lie in [0, 1]", "--noise-rate must lie in [0, 1]"),
        ("name `data`, or `set_`", "name DATA, or --set"),
        ("pass `resume`", "pass --resume"),
        ("`data='x'`, `probs`, `a b`", "`data='x'`, `probs`, `a b`"),
        ("noise_rate ``noise_rates``", "noise_rate ``noise_rates``"),
    ],
)
def test_arguments_become_flags(message, expected):
    assert with_flags(message, FLAGS) == expected
    assert with_flags(message, {}) == message


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (InvalidValueError("`noise_rate` is 7"), "--noise-rate is 7"),
        (InvalidTypeError("`run` of `model`"), "RUN of `model`"),
        (MisuseError("first `share`"), "first --share"),
        (DataError("[bold]a.csv is empty"), "[bold]a.csv is empty"),
        (FolderTakenError("run is taken"), "run is taken"),
        (FileNotFoundError(errno.ENOENT, "No such file", "a.csv"), "a.csv: No such file"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), "/x: Permission denied"),
        (OSError(errno.ENOSPC, "No space left on device"), "[Errno 28] No space left on device"),
        (IsADirectoryError(errno.EISDIR, "Is a directory", ".x.part", None, "x"), "x: Is a"),
        (ConnectionError("no route\n to host"), "no route to host"),
        (TimeoutError(), "TimeoutError"),
        (ModuleNotFoundError("", name="polars"), "this command needs polars, which is not"),
        (MissingExtraError("x", "ray", "ray"), "x needs ray, which is not installed: pip"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_errors_of_the_user_are_reported_in_one_line(raising, capsys, monkeypatch, error, line):
    raising(error)
    code, printed = ended(capsys, "try", "x")
    assert code == 2
    assert printed.startswith(f"error: {line}")
    assert printed.count("\n") == 1
    monkeypatch.setenv("NOISEBOUND_TRACEBACK", "1")
    with pytest.raises(type(error)) as raised:
        main(["try", "x"])
    assert raised.value is error


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["try"], "noisebound try needs RUN"),
        (["try", "x", "--noise-rate", "much"], "noise-rate"),
        (["try", "x", "--noise", "1"], "--noise"),
        (["tyr"], "tyr"),
    ],
)
def test_errors_of_cyclopts_are_reported_in_one_line(raising, capsys, arguments, line):
    raising(None)
    code, printed = ended(capsys, *arguments)
    assert code == 2
    assert printed.startswith("error: ")
    assert line in printed
    assert printed.count("\n") == 1


def test_a_setting_that_pydantic_refuses_is_named_by_its_flag(raising, capsys):
    with pytest.raises(ValidationError) as refused:
        Settings(share="half")
    raising(refused.value)
    code, printed = ended(capsys, "try", "x")
    assert code == 2
    assert printed.startswith("error: --share must be a valid number")
    assert printed.endswith("got 'half'\n")
    assert user_message(refused.value, {"noise_rate": "--noise-rate"}) is None  # a model of our own


@pytest.mark.parametrize(
    "error",
    [
        ValueError("`noise_rate` went wrong"),
        TypeError("unexpected"),
        KeyError("x"),
        RuntimeError("[bold]sizes differ"),
        AssertionError(),
        RecursionError(),
        ImportError("cannot import name 'x' from 'noisebound.bounds'", name="noisebound.bounds"),
        ModuleNotFoundError("No module named 'noisebound.x'", name="noisebound.x"),
        ModuleNotFoundError("No module named 'rich.x'", name="rich.x"),
        ModuleNotFoundError("No module named 'unheard_of'", name="unheard_of"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_anything_else_is_a_fault_in_noisebound(raising, capsys, error):
    raising(error)
    code, printed = ended(capsys, "try", "x")
    assert code == 1
    assert printed.startswith("Traceback (most recent call last):")
    assert "in try_" in printed
    *_, last_of_traceback, sentence = printed.splitlines()
    assert last_of_traceback.startswith(type(error).__name__)
    assert str(error) in printed  # as it is: nothing is translated or taken for markup
    assert sentence.startswith("This is a fault in noisebound: please report it")
    assert sentence.endswith(ISSUES)


def test_ctrl_c_and_success(raising, capsys):
    raising(KeyboardInterrupt())
    assert ended(capsys, "try", "x") == (130, "")
    raising(None)
    assert ended(capsys, "try", "x") == (0, "")


class TestMissingExtra:
    def test_a_missing_module_of_our_own_is_a_fault(self, raising, capsys):
        name = "noisebound.cli.nothing"
        raising(ModuleNotFoundError(f"No module named {name!r}", name=name))
        code, printed = ended(capsys, "try", "x")
        assert code == 1
        assert ISSUES in printed

    def test_causes_are_followed(self):
        wrapped = ImportError("Cannot import module")
        wrapped.__cause__ = ModuleNotFoundError("No module named 'PIL'", name="PIL")
        assert str(missing_extra("noisebound fit", wrapped)) == (
            f"noisebound fit needs pillow, which is not installed: {install_command('cli')}"
        )

    def test_the_review_page_has_an_extra_of_its_own(self):
        error = ModuleNotFoundError("No module named 'uvicorn'", name="uvicorn")
        assert str(missing_extra("this command", error)) == (
            f"this command needs uvicorn, which is not installed: {install_command('review')}"
        )

    @pytest.mark.parametrize(
        ("record", "command"),
        [
            (None, "pip install 'noisebound[cli]'"),  # from a package index: a release
            ({"url": "file:///a%20b/code", "dir_info": {}}, "pip install '/a b/code[cli]'"),
            (
                {"url": "file:///code", "dir_info": {"editable": True}},
                "pip install -e '/code[cli]'",
            ),
            ({"url": "file:///n.whl", "archive_info": {}}, "pip install '/n.whl[cli]'"),
            (
                {"url": "https://host/n.git", "vcs_info": {"vcs": "git", "commit_id": "ab"}},
                "pip install 'noisebound[cli] @ git+https://host/n.git'",
            ),
        ],
    )
    def test_the_command_installs_from_where_noisebound_came(
        self, tmp_path, monkeypatch, record, command
    ):
        info = tmp_path / "noisebound-9.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: noisebound\nVersion: 9\n")
        if record is not None:
            (info / "direct_url.json").write_text(json.dumps(record))
        monkeypatch.syspath_prepend(tmp_path)
        assert install_command("cli") == command

    @pytest.mark.parametrize("package", ["cyclopts", "rich", "pydantic", "matplotlib"])
    def test_the_command_says_which_extra_to_install(self, tmp_path, package):
        """In a new process that cannot import one package; only the command needs the last one."""
        code = (
            f"import sys; sys.path.insert(0, {str(TESTS)!r}); "
            f"from core_tour import hide; hide([{package!r}]); "
            "sys.argv[1:] = ['figure', 'sensitivity']; "
            "from noisebound.__main__ import main; main()"
        )
        run = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
        )
        assert run.returncode == 2, run.stderr
        assert run.stderr.startswith("error: ")
        assert f"needs {package}, which is not installed" in run.stderr
        assert run.stderr.endswith(f": {install_command('cli')}\n")
        assert run.stderr.count("\n") == 1
        assert list(tmp_path.iterdir()) == []


def test_the_example_of_reproduce_shows_that_the_bound_helps(capsys):
    """By what we measured with the same settings: it must not advise against the product."""
    with pytest.raises(SystemExit):
        main(["reproduce", "--help"])
    printed = " ".join(capsys.readouterr().out.split())
    example = r"Example: noisebound reproduce table1 --columns (\S+) --methods (\S+) (\S+)"
    column, *methods = re.search(example, printed).groups()
    found = pl.read_csv(TESTS.parent / "results" / "paper" / "accuracies.csv").filter(
        pl.col("table") == "table1", pl.col("column") == column, pl.col("weights") == "last"
    )
    plain, bounded = (
        found.filter(pl.col("method") == method)["accuracy"].mean() for method in methods
    )
    assert bounded > plain + 5
