"""The commands, as a user types them.

Most are called in this process, because starting another takes seconds; what only a process of its
own can show has one.
"""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

import noisebound as nb
from noisebound.cli import app, main
from noisebound.data import DATASETS, load
from noisebound.system.spreadsheets import quote_formulas
from published_files import plain_image


@pytest.fixture
def run(capsys, monkeypatch):
    """Call a command in this process: ``run("data", "list")`` gives its code and its output."""
    monkeypatch.setenv("COLUMNS", "120")
    handler = signal.getsignal(signal.SIGTERM)  # which `reproduce` replaces

    def run(*arguments):
        command = ["noisebound", *map(str, arguments)]
        monkeypatch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as ended:
            main()
        return subprocess.CompletedProcess(command, ended.value.code or 0, *capsys.readouterr())

    yield run
    signal.signal(signal.SIGTERM, handler)


class TestProcess:
    """Properties that only a separate process can show."""

    command = Path(sys.executable).with_name("noisebound")

    def test_the_installed_command_ends_with_its_exit_code(self):
        result = subprocess.run(
            [self.command, "data", "info", "imagenet"], capture_output=True, text=True
        )
        assert result.returncode == 2
        assert result.stderr.startswith("error: ")
        assert "Traceback" not in result.stderr

    def test_a_reader_that_has_seen_enough(self):
        """As in ``noisebound data list | head -1``."""
        command = [sys.executable, "-m", "noisebound", "data", "list"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as writer:
            writer.stdout.close()
            assert writer.stderr.read() == b""
        assert writer.returncode == 1


def test_list_names_every_data_set(run):
    result = run("data", "list")
    assert result.returncode == 0, result.stderr
    assert {line.split()[0] for line in result.stdout.splitlines()[1:]} >= set(DATASETS)


def test_info(run):
    result = run("data", "info", "digits")
    assert result.returncode == 0, result.stderr
    assert "1,257 examples of 1×8×8 uint8" in result.stdout
    assert result.stderr == ""  # no progress bars where nobody looks


def test_info_as_json(run, tmp_path):
    np.savez(tmp_path / "a.npz", X=np.eye(4), y=["u", "v", "u", "u"])
    result = run("data", "info", tmp_path / "a.npz", "--json")
    summary = json.loads(result.stdout)
    assert summary["train"]["class_counts"] == {"u": 3, "v": 1}
    assert summary["train"]["imbalance"] == 3
    assert summary["source"] == str(tmp_path / "a.npz")


def test_info_of_a_table(run, tmp_path):
    (tmp_path / "x.csv").write_text("a,b,y\n1,p,u\n,q,[bold]v\n3,q,u\n4,p,[bold]v\n")
    words = ("data", "info", tmp_path / "x.csv", "--target", "y")
    assert json.loads(run(*words, "--json").stdout)["columns"] == {"a": "number", "b": "category"}
    result = run(*words)
    assert "number columns    a\n" in result.stdout
    assert "category columns  b\n" in result.stdout
    assert "1 missing numbers became the mean" in result.stdout
    assert "[bold]v" in result.stdout  # what comes from the data is never markup


def test_skip_bad(run, tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        (tmp_path / "pets" / name / "x.png").write_bytes(plain_image(1, 8, "PNG"))
    (tmp_path / "pets" / "cat" / "bad.png").write_bytes(b"bad")
    result = run("data", "info", tmp_path / "pets")
    assert result.returncode == 2
    assert "bad.png" in result.stderr
    assert run("data", "info", tmp_path / "pets", "--skip-bad").returncode == 0


@pytest.mark.parametrize("command", ["info", "fetch"])
def test_errors_come_without_a_traceback(run, command):
    result = run("data", command, "imagenet")
    assert result.returncode == 2
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr


def test_fetch_without_network(run, tmp_path, monkeypatch):
    """A file that cannot be downloaded is named, with its hash and its folder."""
    # nobody listens on port 9: there is no way out, whatever network this machine has
    for name in ("https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("NOISEBOUND_CACHE", str(tmp_path))
    result = run("data", "fetch", "mnist")
    assert result.returncode == 2
    for part in (
        "train-images-idx3-ubyte.gz",
        "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
        str(tmp_path / "mnist"),
    ):
        assert part in result.stderr


def test_fetching_data_that_needs_no_download(run):
    assert "scikit-learn" in run("data", "fetch", "digits").stdout


def test_bad_option(run):
    result = run("data", "info", "digits", "--image-size", "0")
    assert result.returncode == 2
    assert "image-size" in result.stdout + result.stderr


def test_bound(run):
    result = run("bound", "sce", "--noise-rate", "0.4", "--classes", "10")
    assert "5.49469" in result.stdout
    record = json.loads(run("bound", "ce+b", "--noise-rate", 0.2, "--classes", 10, "--json").stdout)
    assert list(record) == ["loss", "noise_rate", "classes", "bound", "lower", "upper"]
    assert record["bound"] == pytest.approx(0.5004 + 0.2 * np.log(9), abs=1e-4)
    assert record["lower"] < record["bound"] == record["upper"]
    backward = run("bound", "backward", "--noise-rate", 0.2, "--classes", 10, "--json").stdout
    assert json.loads(backward)["bound"] == pytest.approx(0, abs=1e-9)


def test_a_rate_in_percent(run, tmp_path):
    assert (
        "at noise rate 0.15 with"
        in run("bound", "ce", "--noise-rate", "15%", "--classes", 3).stdout
    )
    options = ("--model", "linear", "--epochs", 1, "--noise-rate", "15%", "--out", tmp_path / "run")
    assert "the rate 0.15 that was given" in run("fit", "digits", *options).stdout


def test_a_misspelled_column(run, tmp_path):
    (tmp_path / "x.csv").write_text("width,Species\n1,u\n2,v\n")
    for wrong in ("species", "Specis"):
        result = run("data", "info", tmp_path / "x.csv", "--target", wrong)
        assert result.returncode == 2
        assert f"has no column {wrong!r} (did you mean 'Species'?)" in result.stderr
    result = run("data", "info", tmp_path / "x.csv", "--target", "price")
    assert "has no column 'price'; it has the columns width, Species" in result.stderr


def test_explore(run, tmp_path):
    result = run("explore", "--out", tmp_path / "new" / "explorer.html")
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"written: {tmp_path / 'new' / 'explorer.html'}\n"
    page = (tmp_path / "new" / "explorer.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert page.endswith("</html>")


def test_labels_that_a_spreadsheet_would_compute(run, tmp_path):
    formula = "=cmd|' /C calc'!A0"
    rows = [
        f"{(number * 7 % 100 - 50) / 8},{formula if number * 7 % 100 > 50 else 'down'}"
        for number in range(100)
    ]
    (tmp_path / "train.csv").write_text("x,kind\n" + "\n".join(rows))
    table, folder, out = tmp_path / "train.csv", tmp_path / "run", tmp_path / "out.csv"
    options = ("--noise-rate", "0.05", "--epochs", "1", "--accelerator", "cpu", "--out", folder)
    assert run("fit", table, "--target", "kind", *options).returncode == 0
    for command in (("suspects", folder), ("predict", folder, table)):
        assert run(*command, "--out", out).returncode == 0
        quoted = pl.read_csv(out)
        assert run(*command, "--out", out, "--no-quote-formulas").returncode == 0
        exact = pl.read_csv(out)
        assert set(exact["label"]) <= {formula, "down"}
        assert set(quoted["label"]) <= {f"'{formula}", "down"}
        assert quote_formulas(exact).equals(quoted)


def test_an_estimate_by_a_model_at_chance_is_not_stated(run, tmp_path):
    np.save(tmp_path / "probs.npy", np.full((1257, 10), 0.1))
    result = run("estimate", "digits", "--probs", tmp_path / "probs.npy")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("the noise is unknown: the predictions have nothing to do ")
    assert "noise rate 0" not in result.stdout.partition("\n")[0]


def test_fit_and_predict(run, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    rows = [f"{a},{b},{'up' if a > 0 else 'down'}" for a, b in x]
    (tmp_path / "train.csv").write_text("a,b,kind\n" + "\n".join(rows))
    (tmp_path / "new.csv").write_text("b,a\n0,3\n0,-3\n")
    command = ["fit", tmp_path / "train.csv", "--target", "kind", "--out", tmp_path / "run"]
    options = ["--noise-rate", "0.05", "--epochs", "60", "--accelerator", "cpu", "--logger", "csv"]
    result = run(*command, *options, "--json")
    assert result.returncode == 0, result.stderr
    assert re.fullmatch(r"(fce\+b: epoch \d+/60, loss .*\n)+", result.stderr)  # and no bar
    assert "epoch 60/60" in result.stderr
    assert json.loads(result.stdout)["final"]["epoch"] == 60
    (log,) = (tmp_path / "run").glob("logs/*/metrics.csv")
    assert len(log.read_text().splitlines()) == 61
    predicted = run("predict", tmp_path / "run", tmp_path / "new.csv", "--out", tmp_path / "y.csv")
    assert predicted.returncode == 0, predicted.stderr
    lines = (tmp_path / "y.csv").read_text().splitlines()
    assert [line.split(",")[1] for line in lines[1:]] == ["up", "down"]
    again = run(*command, *options)
    assert again.returncode == 2
    assert "--resume" in again.stderr
    assert run(*command, *options, "--resume").returncode == 0


@pytest.fixture(scope="module")
def noisy_digits(tmp_path_factory):
    """Digits of which three in ten bear the next one's label."""
    splits = load("digits")
    noisy = nb.corrupt(
        splits.train.labels, "pairwise", 0.3, 10, generator=torch.Generator().manual_seed(0)
    )
    path = tmp_path_factory.mktemp("noisy") / "digits.npz"
    np.savez(path, X=splits.train.inputs[:, 0].numpy(), y=noisy.labels.numpy())
    return path


class TestNoise:
    def test_estimate(self, run, noisy_digits, tmp_path):
        options = ("--model", "small_mlp", "--epochs", 20, "--batch-size", 50)
        result = run("estimate", noisy_digits, *options, "--out", tmp_path / "noise.json")
        assert result.returncode == 0, result.stderr
        assert result.stdout.startswith("estimated noise rate: 3")
        assert "if mistakes cannot be predicted from the inputs" in result.stdout
        assert " are labeled " in result.stdout
        record = json.loads((tmp_path / "noise.json").read_text())
        assert record["noise_rate"] == pytest.approx(0.3, abs=0.06)
        assert np.array(record["transition"]).shape == (10, 10)
        assert record["words"] in result.stdout
        assert f"check {record['labels_to_check']:,} labels by hand" in result.stdout

    def test_labels_of_copies_are_an_estimate_too(self, run, tmp_path):
        random = np.random.default_rng(0)
        labels = np.tile(np.arange(100) % 2, 2)
        labels[100:105] = 1 - labels[100:105]
        np.savez(tmp_path / "copies.npz", X=np.tile(random.normal(size=(100, 4)), (2, 1)), y=labels)
        np.save(tmp_path / "probs.npy", np.eye(2)[np.tile(np.arange(100) % 2, 2)] * 0.8 + 0.1)
        options = (tmp_path / "copies.npz", "--probs", tmp_path / "probs.npy")
        record = json.loads(run("estimate", *options, "--json").stdout)
        assert record["duplicates"]["agreement"] == 0.95
        result = run("estimate", *options)
        assert "agree in 95.0% of the pairs" in result.stdout
        assert "in 100 sets, 5 of them with different labels, such as #0 = #100" in result.stderr

    def test_estimate_from_given_probabilities(self, run, noisy_digits, tmp_path):
        labels = np.load(noisy_digits)["y"]
        np.save(tmp_path / "p.npy", np.eye(10)[labels] * 0.9 + 0.01)
        options = ("--probs", tmp_path / "p.npy", "--json")
        record = json.loads(run("estimate", noisy_digits, *options).stdout)
        assert record["noise_rate"] == 0
        np.save(tmp_path / "p.npy", np.eye(3))
        refused = run("estimate", noisy_digits, *options)
        assert refused.returncode == 2
        assert "one row for each of 1257 training examples" in refused.stderr

    def test_fit_then_suspects(self, run, noisy_digits, tmp_path):
        options = ("--model", "small_mlp", "--epochs", 8, "--batch-size", 50)
        fitted = run("fit", noisy_digits, "--out", tmp_path / "run", *options)
        assert fitted.returncode == 0, fitted.stderr
        rate = re.match(r"estimated noise rate: (\S+)% .* predicted from the inputs", fitted.stdout)
        assert float(rate[1]) == pytest.approx(30, abs=6)
        assert "\ntrained: " in fitted.stdout
        found = run("suspects", tmp_path / "run", "--out", tmp_path / "suspects.csv")
        assert found.returncode == 0, found.stderr
        lines = (tmp_path / "suspects.csv").read_text().splitlines()
        assert lines[0] == "example,label,probability_wrong,score,suggested"
        assert len(lines) == 1258
        page = (tmp_path / "suspects.html").read_text()
        assert page.count("<figure>") == 64
        assert "of which about" in page

    def test_a_known_matrix(self, run, noisy_digits, tmp_path):
        np.savetxt(tmp_path / "T.csv", 0.7 * np.eye(10) + 0.3 * np.eye(10, k=-1), delimiter=",")
        given = ("--transition", tmp_path / "T.csv")
        command = ("fit", noisy_digits, "--out", tmp_path / "run", *given)
        refused = run(*command)
        assert refused.returncode == 2
        assert "a column that sums to 0.7" in refused.stderr
        matrix = 0.7 * np.eye(10) + 0.3 * np.roll(np.eye(10), 1, axis=0)
        np.savetxt(tmp_path / "T.csv", matrix, delimiter=",")
        fitted = run(*command, "--model", "mlp", "--epochs", 3)
        assert fitted.returncode == 0, fitted.stderr
        assert "bound 0.611: the entropy of the transition matrix that was given" in fitted.stdout

    def test_plain_training_warns_of_memorization(self, run, noisy_digits, tmp_path):
        options = ("--loss", "ce", "--noise-rate", 0.3, "--model", "mlp", "--epochs", 20)
        fitted = run("fit", noisy_digits, *options, "--out", tmp_path / "run")
        assert "memorizing since epoch " in fitted.stdout
        found = run("suspects", tmp_path / "run", "--out", tmp_path / "s.parquet")
        assert "may have memorized wrong labels" in found.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["suspects", "nowhere", "--out", "s.csv"], "holds no run"),
        (["suspects", "nowhere", "--out", "s.csv", "--target", "y"], "--target does not apply"),
        (["estimate", "digits", "--seed", "-1"], "seed"),
        (["suspects", "nowhere", "--out", "s.txt"], ".csv or .parquet"),
        (["estimate", "digits", "--method", "magic"], "magic"),
        (["fit", "digits", "--out", "x", "--transition", "T.npy"], "T.npy"),
        (["fit", "digits", "--out", "x", "--noise-rate", "some"], "noise-rate"),
        (["fit", "digits", "--out", "x", "--noise-rate", "7"], "noise-rate"),
        (["fit", "digits", "--out", "x", "--loss", "hinge"], "unknown loss 'hinge': choose one of"),
        (["fit", "nowhere.csv", "--out", "x"], "neither a file or folder"),
        (["fit", "digits"], "noisebound fit needs --out"),
        (["predict"], "noisebound predict needs MODEL"),
        (["fit", "digits", "--out", "x", "--noise-rate", "15"], "pass 0.15 or 15%"),
        (["bound", "ce", "--noise-rate", "15", "--classes", "10"], "pass 0.15 or 15%"),
        (["predict", "nowhere", "digits", "--out", "y.csv"], "holds no run"),
        (["bound", "elr", "--noise-rate", "0.4", "--classes", "10"], "has no noise-bound"),
        (["fit", "digits", "--out", "x", "--accelerator", "teapot"], "teapot"),
        (["fit", "digits", "--out", "x", "--devices", "9999"], "--devices must be at most"),
        (["fit", "digits", "--out", "x", "--threads", "9999"], "--threads must be between 1 and"),
        (["estimate", "digits", "--threads", "9999"], "--threads must be between 1 and"),
        (["fit", "digits", "--out", __file__], "test_cli.py is a file: --out must be a folder"),
        (["fit", "digits", "--out", f"{__file__}/x"], "test_cli.py is a file: --out must be"),
        (["fit", "digits", "--out", "/proc/x", "--noise-rate", "0.4"], "/proc/x"),
        (["bound", "ce", "--noise-rate", "1.4", "--classes", "10"], "a rate lies between 0 and 1"),
    ],
)
def test_mistakes_are_reported_in_one_line(tmp_path, monkeypatch, capsys, arguments, complaint):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("error: ")
    assert complaint in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []  # nothing was begun


@pytest.mark.parametrize(
    "command",
    [
        "demo",
        "fit",
        "estimate",
        "suspects",
        "predict",
        "bound",
        "data list",
        "data info",
        "data cache",
    ],
)
def test_help_has_an_example(command, capsys):
    app([*command.split(), "--help"], result_action="return_value")
    assert f"Example: noisebound {command}" in capsys.readouterr().out


class TestExperiments:
    QUICK = ("--set", "epochs=2", "train_examples=200", "--seeds", 1, "--jobs", 1)

    def test_reproduce_then_report(self, run, tmp_path):
        out = tmp_path / "out"
        rows = ("--columns", "digits-0.4", "--methods", "ce", "ce+b")
        result = run("reproduce", "own", *rows, *self.QUICK, "--out", out)
        assert result.returncode == 0, result.stderr
        assert "\nCE+B " in result.stdout
        assert {path.name for path in out.iterdir()} == {
            *("own.md", "own.csv", "own-preset.json", "runs", "report.html", "command.txt"),
        }
        assert json.loads((out / "own-preset.json").read_text())["settings"]["epochs"] == 2
        result = run("report", out, "--out", tmp_path / "page.html")
        assert result.returncode == 0, result.stderr
        assert (tmp_path / "page.html").read_text() == (out / "report.html").read_text()
        assert "noisebound reproduce own --columns" in (out / "report.html").read_text()

    def test_rate_sweep_and_its_figure(self, run, tmp_path):
        column = ("--columns", "digits-0.4", "--methods", "ce")
        result = run("reproduce", "rate-sweep", *column, *self.QUICK, "--out", tmp_path)
        assert result.returncode == 0, result.stderr
        assert (tmp_path / "rate-sweep.svg").exists()
        table = tmp_path / "rate-sweep.csv"
        assert pl.read_csv(table)["believed_rate"][4] == 0.4

    def test_failed_runs_are_reported_at_the_end(self, run, tmp_path):
        rows = ("--columns", "digits-0.4", "--methods", "ce", "mae")
        bad = ("--set", "epochs=2", 'learning_rates={"ce": 1e30}', "--seeds", 1, "--jobs", 1)
        result = run("reproduce", "own", *rows, *bad, "--out", tmp_path)
        assert result.returncode == 1
        assert "failed runs: 1" in result.stderr
        assert "digits-0.4 ce seed 0: InvalidValueError: the training loss is" in result.stderr
        assert re.search(r"^MAE +[\d.]+.*\*", result.stdout, re.MULTILINE)
        assert "\\" not in result.stdout  # no Markdown for people to read

    def test_if_every_run_fails_the_reason_is_reported(self, run, tmp_path):
        bad = ("--set", "epochs=2", "learning_rate=1e30", "--seeds", 1)
        rows = ("--columns", "digits-0.4", "--methods", "ce")
        result = run("reproduce", "own", *rows, *bad, "--out", tmp_path)
        assert result.returncode == 1
        assert "digits-0.4 ce seed 0: InvalidValueError: the training loss is" in result.stderr
        assert not (tmp_path / "report.html").exists()

    def test_bound_table(self, run, tmp_path):
        result = run("reproduce", "bound-table", "--columns", "mnist", "--out", tmp_path)
        assert result.returncode == 0, result.stderr
        assert re.search(r"^FCE +0\.511 \(0\.511\) +0\.673 \(0\.673\)$", result.stdout, re.M)
        assert re.search(r"^SCE +5\.495 +7\.706$", result.stdout, re.M)

    def test_dry_run(self, run, tmp_path):
        result = run("reproduce", "table1", "--dry-run", "--preset", "paper")
        lines = result.stdout.splitlines()
        assert len(lines) == 8 * 19 * 3
        assert lines[0].split()[1:] == ["waiting", "mnist-0.4", "mse", "seed", "0"]

    @pytest.mark.parametrize(
        ("seeds", "expected"), [(("2",), [0, 1]), (("4", "7"), [4, 7]), (("4,7",), [4, 7])]
    )
    def test_seeds_and_lists(self, capsys, seeds, expected):
        rows = ("--columns", "digits-0.4,mnist-0.4", "--methods", "ce,mse")
        with pytest.raises(SystemExit) as stopped:
            main(["reproduce", "own", "--dry-run", *rows, "--seeds", *seeds])
        assert stopped.value.code == 0
        lines = capsys.readouterr().out.splitlines()
        assert {int(line.split()[-1]) for line in lines} == set(expected)
        assert len(lines) == 4 * len(expected)

    def test_presets_can_be_printed_and_given_back(self, run, tmp_path):
        mine = tmp_path / "mine.json"
        mine.write_text(run("preset", "paper", "--set", "epochs=3").stdout)
        result = run("preset", mine)
        assert json.loads(result.stdout)["settings"]["epochs"] == 3

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("reproduce", "table1", "--columns", "svhn"), "unknown column 'svhn'"),
            (("reproduce", "table1", "--methods", "mse+b"), "unknown method 'mse+b'"),
            (
                ("reproduce", "table1", "--set", "epochs=x"),
                "`epochs` must be a valid integer",
            ),
            (("reproduce", "table1", "--source", "emnist"), "must be written data-set=folder"),
            (("reproduce", "table1", "--source", "emnist=no"), "there is no no"),
            (("reproduce", "table1", "--source", "emnsit=."), "no column has a data set 'emnsit'"),
            (("reproduce", "table1", "--jobs", "0"), "jobs"),
            (("reproduce", "table1", "--seeds", "0"), "--seeds must be a number of at least 1"),
            (("reproduce", "table1", "--seeds", "x"), "--seeds must be a number of at least 1"),
            (("reproduce", "table3"), "table3"),
            (("reproduce", "estimates"), "estimates"),
            (("figure", "rate-sweep"), "rate-sweep"),
            (("report", "nowhere"), "nowhere is not a folder of runs"),
            (("preset", "gpu"), "neither a preset"),
        ],
    )
    def test_mistakes(self, arguments, message, capsys):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 2
        assert message in capsys.readouterr().err
