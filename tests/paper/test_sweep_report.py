"""Pages about the runs of `reproduce` and `fit`."""

import pytest

from noisebound.errors import DataError
from noisebound.pages.page import to_html
from noisebound.paper.page import report_on
from noisebound.paper.presets import CPU
from noisebound.paper.run import DataSources, Plan, RunStore, execute
from noisebound.runs import train_run
from noisebound.training import TrainingConfig
from paper_runs import COLUMN, QUICK, digit_runs
from training_data import NOISE_RATE, noisy_clouds


@pytest.fixture(scope="module")
def reproduction(tmp_path_factory):
    """Runs of a table, of a search for the bound, and of a sweep over rates."""
    out = tmp_path_factory.mktemp("out")
    plan = Plan(CPU.override(QUICK), (0,), DataSources())
    runs = digit_runs(["mse", "ce", "ce+b", "sce+b"])
    runs += [plan.runs(COLUMN, "ce+b", bound_offset=offset)[0] for offset in (-0.05, 0.05)]
    runs += [plan.runs(COLUMN, "sce+b", noise_rate=rate)[0] for rate in (0.2, 0.6)]
    for run in runs:
        execute(run, RunStore(out / "runs"), DataSources())
    return out


def test_a_page_about_a_reproduction(reproduction):
    page = report_on(reproduction)
    titles = [section.title for section in page.sections]
    assert titles == [
        "Accuracies",
        "Bounds around the noise-bound",
        "Given another noise rate",
        "Digits 0.4, epoch by epoch",
        "To repeat it",
    ]
    assert "the bound helps in" in page.headline
    accuracies, offsets, rates, _, configs = page.sections
    labels = [row.label for row in accuracies.tables[0].rows]
    assert labels[:4] == ["MSE", "CE", "CE+B", "SCE+B"]
    assert "CE+B*" in labels
    assert len(offsets.tables[0].rows) == 1
    assert len(rates.tables[0].rows[0].cells) == 3
    assert '"dataset": "digits"' in configs.code[0].text
    assert to_html(page).count("<img") == 2
    assert configs.code[0].title == COLUMN.name


def test_runs_at_two_scales_are_shown_apart(tmp_path):
    store = RunStore(tmp_path)
    for settings in (QUICK, [*QUICK, "epochs=1"]):
        for run in digit_runs(["ce", "ce+b"], settings=settings):
            execute(run, store, DataSources())
    titles = [section.title for section in report_on(tmp_path).sections]
    assert titles.count("Accuracies") == 2
    assert titles.count("To repeat it") == 1


def test_the_runs_subfolder_works_too(reproduction):
    assert report_on(reproduction / "runs").headline == report_on(reproduction).headline


def test_one_training(tmp_path):
    config = TrainingConfig(loss="ce+b", noise_rate=NOISE_RATE, epochs=2, batch_size=30)
    run = train_run(noisy_clouds(), config, tmp_path / "<b>mine")
    run.folder.save_command("noisebound fit <b>mine")
    page = report_on(tmp_path / "<b>mine")
    assert page.headline == "CE+B after 2 epochs."
    labels = [fact.label for fact in page.facts]
    assert "training loss" in labels
    assert "share of the wrong training labels that the model reproduces" in labels
    assert [section.title for section in page.sections] == ["Training", "To repeat it"]
    assert page.sections[-1].code[0].text == "noisebound fit <b>mine"
    text = to_html(page)
    assert "&lt;b&gt;mine" in text
    assert "<b>mine" not in text


def test_several_trainings(tmp_path):
    for loss in ("ce", "ce+b", "sce+b"):
        config = TrainingConfig(loss=loss, noise_rate=NOISE_RATE, epochs=1, batch_size=30)
        train_run(noisy_clouds(), config, tmp_path / loss)
    page = report_on(tmp_path)
    titles = [section.title for section in page.sections]
    assert titles == ["Plain against bounded", "ce+b", "sce+b", "To repeat it"]
    assert "of 1 pairs" in page.headline  # SCE has no plain partner
    assert [row.label for row in page.sections[0].tables[0].rows] == ["ce", "ce+b", "sce+b"]


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", "result.json"])
def test_a_damaged_training_among_others_is_named(tmp_path, name):
    for loss in ("ce", "ce+b", "sce"):
        config = TrainingConfig(loss=loss, noise_rate=NOISE_RATE, epochs=1, batch_size=30)
        train_run(noisy_clouds(), config, tmp_path / loss)
    (tmp_path / "sce" / name).write_bytes(b"{\n")
    with pytest.raises(DataError, match=rf"sce.{name} is damaged"):
        report_on(tmp_path)


@pytest.mark.parametrize("name", ["run.json", "result.json"])
def test_a_damaged_run_of_a_reproduction_is_named(tmp_path, name):
    for run in digit_runs(["ce", "ce+b"]):
        execute(run, RunStore(tmp_path), DataSources())
    (RunStore(tmp_path).folder(run).path / name).write_text("{")
    with pytest.raises(DataError, match=rf"{run.key}.{name} is damaged"):
        report_on(tmp_path)


def test_the_moment_of_memorization_in_a_reproduction(tmp_path):
    """The plain training of a pair is marked."""
    settings = [*QUICK, "epochs=40", "learning_rate=0.003", "batch_size=50"]
    for run in digit_runs(["ce", "ce+b"], settings=settings):
        execute(run, RunStore(tmp_path), DataSources())
    (section,) = (s for s in report_on(tmp_path).sections if "epoch by epoch" in s.title)
    legend = section.pictures[0].figure.axes[0].get_legend()
    assert any("memorizing since epoch" in text.get_text() for text in legend.get_texts())


def test_one_run_of_a_reproduction(reproduction):
    folder = next(iter((reproduction / "runs").iterdir()))
    assert report_on(folder).title == folder.name


def test_the_same_runs_make_the_same_page(reproduction):
    assert to_html(report_on(reproduction)) == to_html(report_on(reproduction))


def test_folders_without_runs_are_refused(tmp_path):
    with pytest.raises(ValueError, match="not a folder of runs"):
        report_on(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="holds no finished run: expected the folder that"):
        report_on(tmp_path)
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "run.json").write_text("{}")
    with pytest.raises(ValueError, match=r"run\.json is damaged, or of another version"):
        report_on(tmp_path)
    (tmp_path / "x" / "metrics.jsonl").write_text("")
    with pytest.raises(ValueError, match=r"holds no run: there is no config\.json"):
        report_on(tmp_path / "x")


def test_a_run_whose_folder_was_named_by_an_earlier_hash(tmp_path):
    (run,) = digit_runs(["ce"])
    execute(run, RunStore(tmp_path), DataSources())
    (tmp_path / run.key).rename(tmp_path / "0123456789abcdef")
    page = report_on(tmp_path)
    assert page.sections[0].title == "Accuracies"
