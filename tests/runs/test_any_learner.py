"""Runs with every learner: they train, predict, find suspects, resume, and are the same again."""

import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import noisebound as nb
from noisebound.cli import main
from noisebound.errors import InvalidTypeError, InvalidValueError
from noisebound.runs import train_run
from noisebound.runs.folder import RunFolder
from noisebound.runs.noise_record import noise_record
from noisebound.search import estimate_label_noise, search
from noisebound.search.recipes import OF_SEVERAL_LABELS
from noisebound.training import TrainingConfig
from noisebound.training.config import LABEL_USES
from training_data import noisy_clouds

NAMED = ("network", "linear", "boosting", "trees", "neighbors")
BRIEF = {"epochs": 4, "batch_size": 30, "learning_rate": 1e-2, "average_epochs": 0}


def table(n=160):
    train = noisy_clouds(n).train
    return train.dense_inputs.numpy(), train.labels.numpy()


def fit(data, folder, **options):
    return nb.fit(data, out=folder, show=False, report=False, n_jobs=1, **(BRIEF | options))


def are_the_same(one, other):
    """True if two runs chose the same and predict the same, to the last bit."""
    X, _ = table()
    return (
        one.recipe == other.recipe
        and noise_record(one.noise) == noise_record(other.noise)
        and np.array_equal(one.predict_proba(X), other.predict_proba(X))
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run with defaults and one process that nothing interrupted, and its number of trials."""
    trials, cross_fit = [], search.cross_fit
    folder = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "cross_fit", lambda *args: trials.append(args) or cross_fit(*args))
        run = train_run(noisy_clouds(), TrainingConfig(**BRIEF), folder, show=False)
    return run, len(trials)


@pytest.mark.parametrize("learner", [*NAMED, "auto"])
def test_each_by_name(learner, tmp_path):
    X, y = table()
    run = fit((X, y), tmp_path / "run", learner=learner)
    members = {each.learner for each in run.recipe.members}
    assert members == {learner} or learner == "auto"
    assert run.predict_proba(X).sum(1) == pytest.approx(np.ones(160), abs=1e-5)
    truth = noisy_clouds(160).train.true_labels.numpy()
    assert (run.predict(X) == truth).mean() > 0.85
    again = nb.load_run(tmp_path / "run")
    np.testing.assert_array_equal(again.predict_proba(X), run.predict_proba(X))
    assert again.recipe == run.recipe
    assert run.noise.rate == pytest.approx(1 / 3, abs=0.15)
    suspects = again.suspects((X, y))
    assert suspects.height == 160
    first = suspects.head(30)["example"].to_numpy()
    assert (y[first] != truth[first]).mean() > 0.8
    assert len(again.review_queue((X, y)).next(5)) == 5


@pytest.mark.parametrize(
    "given",
    [make_pipeline(StandardScaler(), LogisticRegression()), GaussianNB()],
    ids=["pipeline", "bayes"],
)
def test_anyone_s_estimator(given, tmp_path):
    X, y = table()
    run = fit((X, y), tmp_path / "run", learner=given)
    assert run.config.learner == "estimator"
    assert "the given estimator" in run.recipe.label
    np.testing.assert_array_equal(
        nb.load_run(tmp_path / "run").predict_proba(X), run.predict_proba(X)
    )
    assert not hasattr(given, "classes_")  # it is a copy that is trained


class Unknown(LogisticRegression):
    """A class that skops cannot know."""

    def fit(self, X, y, sample_weight=None):
        """Fail, because it must not come to this."""
        raise AssertionError("it was trained")


def test_an_estimator_of_an_unknown_type_is_refused_before_training(tmp_path):
    with pytest.raises(InvalidTypeError, match="a run folder cannot hold an estimator with"):
        fit(table(), tmp_path / "run", learner=Unknown())
    assert not (tmp_path / "run" / "cross-fit").exists()


def test_the_name_of_an_estimator_is_none(tmp_path):
    with pytest.raises(InvalidValueError, match="the estimator itself, which only Python can pass"):
        fit(table(), tmp_path / "run", learner="estimator")
    with pytest.raises(InvalidValueError, match="learner"):
        fit(table(), tmp_path / "other", learner="forest")


class TestNamedRecipes:
    @pytest.mark.parametrize("recipe", sorted(set(LABEL_USES) - set(OF_SEVERAL_LABELS)))
    def test_a_learner_follows_it(self, recipe, tmp_path):
        run = fit(table(), tmp_path / "run", learner="linear", recipe=recipe)
        assert [(each.learner, each.recipe) for each in run.recipe.members] == [("linear", recipe)]
        assert run.recipe.reason == "this recipe was named"
        assert run.recipe.members[0].stage > 0
        assert nb.load_run(tmp_path / "run").recipe == run.recipe

    @pytest.mark.parametrize(
        "options",
        [{"recipe": "gce"}, {"loss": "ce+b"}, {"noise_rate": 0.2}, {"bound": 0.5}],
    )
    def test_what_is_for_networks_is_refused_beside_another_learner(self, options, tmp_path):
        with pytest.raises(InvalidValueError, match="for networks, but the learner 'trees'"):
            fit(table(), tmp_path / "run", learner="trees", **options)

    @pytest.mark.parametrize("options", [{"recipe": "gce"}, {"noise_rate": 0.2}, {"model": "mlp"}])
    def test_a_network_is_trained_where_only_networks_can_be(self, options, tmp_path):
        run = fit(table(), tmp_path / "run", **options)
        assert not RunFolder(run.path).estimators.exists()
        assert len(run.epochs) > 0


def test_quick_tries_less(tmp_path):
    run = fit(table(), tmp_path / "run", quick=True)
    tried = {(each.learner, each.recipe) for each in run.recipe.tried}
    assert tried == {("linear", "plain"), ("trees", "plain"), ("neighbors", "plain")}
    assert run.recipe.network is None
    assert 0 < run.noise.rate < 0.6


@pytest.mark.parametrize("size", [1, 3])
def test_the_size_of_the_ensemble(size, tmp_path):
    run = fit(table(), tmp_path / "run", ensemble_size=size, quick=True)
    assert len(run.recipe.members) <= size
    content = json.loads((run.path / "result.json").read_text())
    assert len(content["choice"]["members"]) == len(run.recipe.members)


def test_few_examples_train_the_learner_that_was_named(tmp_path):
    with pytest.warns(nb.UnknownNoiseWarning, match="too few"):
        run = fit(table(40), tmp_path / "run", learner="linear")
    assert [each.candidate.learner for each in run.recipe.members] == ["linear"]
    assert "too few" in run.recipe.reason
    assert not run.noise.is_known


def test_the_command_line(tmp_path):
    X, y = table()
    rows = "\n".join(",".join(map(str, [*row, label])) for row, label in zip(X, y, strict=True))
    path = tmp_path / "table.csv"
    path.write_text("a,b,c,d,e,f,label\n" + rows + "\n")
    options = ["--learner", "linear", "--ensemble-size", "1", "--jobs", "1"]
    for folder, more in (("run", options), ("quick", ["--quick"])):
        with pytest.raises(SystemExit) as end:
            main(["fit", str(path), "--target", "label", "--out", str(tmp_path / folder), *more])
        assert end.value.code == 0
    run, quick = (nb.load_run(tmp_path / folder) for folder in ("run", "quick"))
    assert (run.config.learner, run.config.ensemble_size) == ("linear", 1)
    assert quick.config.quick


def test_an_estimate_of_the_noise_is_that_of_fit(whole):
    found, fitted = (
        noise_record(noise)
        for noise in (
            estimate_label_noise(noisy_clouds(), TrainingConfig(**BRIEF)),
            whole[0].noise,
        )
    )
    for record in (found, fitted):  # that of the predictions that judge labels, in `fit` the chosen
        del record["floor"]["temperature"]
    assert found == fitted


@pytest.mark.parametrize(
    "named",
    [{"learner": "linear"}, {"learner": "neighbors"}, {"learner": "linear", "recipe": "dropped"}],
    ids=str,
)
def test_an_estimate_by_name_is_that_of_fit(named, tmp_path):
    config = TrainingConfig(**named, **BRIEF)
    run = train_run(noisy_clouds(160), config, tmp_path / "run", show=False)
    found = estimate_label_noise(noisy_clouds(160), config)
    assert noise_record(found) == noise_record(run.noise)


def test_an_interrupted_search_goes_on(tmp_path, monkeypatch, whole):
    calls, cross_fit, interrupted_at = [], search.cross_fit, 9

    def counted(*args):
        calls.append(args)
        if len(calls) == interrupted_at:
            raise KeyboardInterrupt
        return cross_fit(*args)

    config = TrainingConfig(**BRIEF)
    monkeypatch.setattr(search, "cross_fit", counted)
    with pytest.raises(KeyboardInterrupt):
        train_run(noisy_clouds(), config, tmp_path / "run", show=False)
    resumed = train_run(noisy_clouds(), config, tmp_path / "run", resume=True, show=False)
    run, trials = whole
    assert len(calls) == trials + 1  # the one that was interrupted is done again
    assert are_the_same(resumed, run)


def test_the_number_of_processes_changes_nothing(tmp_path, monkeypatch, whole):
    monkeypatch.setattr("noisebound.training.session._WORTH_PROCESSES", 0.0)
    config = TrainingConfig(**BRIEF)
    two = train_run(noisy_clouds(), config, tmp_path / "run", show=False, n_jobs=2)
    assert are_the_same(whole[0], two)
