"""The page about one training: what was found, and nothing that was not believed."""

from dataclasses import replace

import pytest
import torch

from noisebound.data import load
from noisebound.entry import fit
from noisebound.estimation import EstimatedNoise, UnknownNoise
from noisebound.pages.comparison_page import comparison_page
from noisebound.pages.run_page import label_of, run_page
from noisebound.paper.page import report_on
from noisebound.runs import load_run, train_run
from noisebound.training import TrainingConfig, UnknownNoiseWarning
from training_data import NOISE_RATE, noisy_clouds


def test_a_training_that_estimates_the_noise(tmp_path):
    """With its data at hand: the estimate, the matrix, and the labels to look at."""
    splits = noisy_clouds(n=600)
    config = TrainingConfig(loss="fce+b", epochs=40, batch_size=30, learning_rate=1e-2)
    run = train_run(splits, config, tmp_path / "run")
    page = run_page(run, splits)
    titles = [section.title for section in page.sections]
    assert titles == [
        "Training",
        "Scores on true labels",
        "The test set",
        "The noise",
        "The most suspect labels",
        "To repeat it",
    ]
    _, _, scores, noise, suspects, _ = page.sections
    low, high = run.noise.interval
    assert f"({low:.1%} to {high:.1%} with 95% confidence" in noise.text
    assert [row.label for row in noise.tables[0].rows] == list(splits.train.class_names)
    right = round(run.final("test_top1") * 80)
    assert scores.text.startswith(f"The model predicts {right} of 80 test labels. ")
    assert [row.label for row in scores.tables[0].rows] == list(splits.train.class_names)
    assert page.facts[-1].label.startswith("AUROC on the test set")
    (table,) = suspects.tables
    probabilities = [row.cells[-1].value for row in table.rows]
    assert probabilities == sorted(probabilities, reverse=True)
    assert page.facts[0].value == f"{run.noise.rate:.1%}"


def test_the_moment_of_memorization(tmp_path):
    config = TrainingConfig(
        loss="ce", noise_rate=NOISE_RATE, epochs=60, batch_size=30, learning_rate=1e-2
    )
    run = train_run(noisy_clouds(n=120), config, tmp_path / "run")
    assert run.result.memorizing_since is not None
    page = run_page(run)
    assert f"memorizing wrong labels since epoch {run.result.memorizing_since}" in page.headline
    axes = page.sections[0].pictures[0].figure.axes[0]
    assert f"memorizing since epoch {run.result.memorizing_since}" in [
        text.get_text() for text in axes.get_legend().get_texts()
    ]


def test_a_loss_without_a_floor_is_no_headline(tmp_path):
    """ELR's loss may be below zero, and nothing says how low it should be."""
    config = TrainingConfig(loss="elr", epochs=2, batch_size=30, learning_rate=1e-2)
    run = train_run(noisy_clouds(), config, tmp_path / "run", show=False)
    assert run.floor is None
    page = run_page(run)
    assert "loss" not in page.headline
    assert not [fact for fact in page.facts if "loss" in fact.label]
    (losses, _) = page.sections[0].pictures
    assert "floor" not in losses.description + losses.figure.axes[0].get_title()


def test_suspects_are_not_shown_of_data_that_have_changed(tmp_path):
    config = TrainingConfig(loss="ce+b", noise_rate=NOISE_RATE, epochs=1, batch_size=30)
    run = train_run(noisy_clouds(), config, tmp_path / "run")
    page = run_page(run, noisy_clouds(n=30))
    (section,) = (each for each in page.sections if each.title == "The most suspect labels")
    assert "They cannot be shown: " in section.text


def test_an_estimate_that_was_not_believed_is_not_shown(tmp_path):
    """Networks that were still learning: the page says so, and accuses no label."""
    config = TrainingConfig(loss="fce+b", epochs=2, batch_size=30, learning_rate=1e-5)
    with pytest.warns(UnknownNoiseWarning, match="were still learning"):
        run = train_run(noisy_clouds(), config, tmp_path / "run")
    assert isinstance(run.noise, UnknownNoise)
    page = run_page(run, noisy_clouds())
    assert "could not be estimated" in page.headline
    assert "of the labels are" not in page.headline
    titles = [section.title for section in page.sections]
    assert titles == ["Training", "The test set", "To repeat it"]
    suspects = run.judgment(noisy_clouds()).suspects
    assert suspects.probability.max() < 0.5


def test_a_model_at_chance_states_no_noise_as_a_fact(tmp_path, capsys):
    """The estimate is there, and the run's own diagnostics leave nothing of it."""
    generator = torch.Generator().manual_seed(0)
    splits = load((torch.randn(400, 3, generator=generator).numpy(), [0, 1, 2, 3] * 100))
    options = {"learner": "network", "epochs": 16, "batch_size": 40, "learning_rate": 1e-2}
    run = fit(splits, out=tmp_path / "run", **options)
    reason = run.noise.unknown_because
    assert isinstance(run.noise, EstimatedNoise)
    assert "nothing to do with the labels" in reason
    assert load_run(tmp_path / "run").noise.unknown_because == reason
    page = run_page(run, splits)
    assert f"is unknown: it could not be estimated, because {reason}" in page.headline
    assert page.facts[0].value == "unknown"
    assert run.recipe.chosen.recipe == "plain"
    titles = [section.title for section in page.sections]
    assert titles == ["Training", "The choice", "To repeat it"]
    rate = f"{run.noise.estimate.noise_rate:.1%}"
    assert rate not in (tmp_path / "run" / "report.html").read_text()


def test_many_classes_have_a_table_of_mistakes(tmp_path):
    splits = noisy_clouds()
    names = tuple(f"class {k}" for k in range(14))
    train = replace(splits.train, class_names=names)
    transition = tuple(tuple(row) for row in (0.8 * torch.eye(14) + 0.2 / 14).tolist())
    config = TrainingConfig(
        loss="ce+b", noise_rate=None, transition=transition, epochs=1, batch_size=30
    )
    run = train_run(replace(splits, train=train, test=None), config, tmp_path / "run")
    (section,) = (s for s in run_page(run).sections if s.title == "The noise")
    assert len(section.tables[0].rows) == 20


def test_the_choice_and_its_evidence_are_shown(tmp_path):
    config = TrainingConfig(recipe="auto", epochs=3, batch_size=30, model="small_mlp")
    run = train_run(noisy_clouds(n=160), config, tmp_path / "run", show=False)
    page = run_page(run)
    section = _section(page, "The choice")
    assert run.recipe.label in section.text
    (table,) = section.folded
    assert len(table.rows) == len(run.recipe.tried)
    assert {row.cells[0].text for row in table.rows} <= {"epoch 1", "epoch 2", "epoch 3"}
    assert label_of(run) == run.recipe.name
    (axes,) = section.pictures[0].figure.axes
    assert len(axes.get_yticklabels()) == len(run.recipe.tried)


@pytest.mark.parametrize("ensemble_size", [1, 3])
def test_learners_without_epochs(tmp_path, ensemble_size):
    """No plots by epoch, and no training loss; the evidence takes the place of the plots."""
    config = TrainingConfig(quick=True, ensemble_size=ensemble_size, batch_size=30)
    splits = noisy_clouds(n=160)
    run = fit(splits, out=tmp_path / "run", show=False, **config.model_dump(exclude_defaults=True))
    assert not run.epochs
    page = run_page(run, splits)
    titles = [section.title for section in page.sections]
    assert titles[:2] == ["The test set", "The choice"]
    assert "epoch" not in page.headline
    assert page.headline.startswith(run.recipe.label[0].upper() + run.recipe.label[1:])
    assert f"{run.final('test_top1'):.1%}" in [fact.value for fact in page.facts]
    assert not [fact for fact in page.facts if "loss" in fact.label]
    (table,) = _section(page, "The choice").folded
    shaded = {row.label for row in table.rows if row.is_shaded}
    assert shaded == {f"{each.learner}: {each.recipe}" for each in run.recipe.members}
    assert any("neighbors by" in row.cells[0].text for row in table.rows)
    assert (tmp_path / "run" / "report.html").exists()
    assert report_on(tmp_path / "run").headline == page.headline
    comparison = comparison_page([run, run], "two")
    assert [len(section.pictures) for section in comparison.sections if section.title == "run"] == [
        0,
        0,
    ]


def _section(page, title):
    return next(section for section in page.sections if section.title == title)
