"""scikit-learn's protocols: metadata routing, set_output, pictures of estimators, searches."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.model_selection import GridSearchCV, GroupKFold, ShuffleSplit, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from noisebound.integrations.sklearn import Embedder, NoiseBoundedClassifier, engine

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
Y = np.where((X[:, 0] > 0) ^ (RNG.random(120) < 0.1), "up", "down")
WEIGHT = RNG.random(120)
GROUPS = np.repeat(np.arange(40), 3)
ONE_SPLIT = ShuffleSplit(1, test_size=40, random_state=0)


def classifier(**options):
    known = {"loss": "ce", "noise_rate": 0.1, "max_iter": 2, "random_state": 0}
    return NoiseBoundedClassifier(**(known | options))


def test_weights_and_groups_are_routed(monkeypatch):
    seen = []

    def fit(estimator, X, y, sample_weight, groups=None):
        seen.append((sample_weight, groups))
        original(estimator, X, y, sample_weight, groups)

    original = engine.fit
    monkeypatch.setattr(engine, "fit", fit)
    with config_context(enable_metadata_routing=True):
        model = classifier().set_fit_request(sample_weight=True, groups=True)
        model.set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        given = {"sample_weight": WEIGHT, "groups": GROUPS}
        folds = GroupKFold(3)
        found = cross_validate(make_pipeline(scaler, model), X, Y, params=given, cv=folds)
    assert np.isfinite(found["test_score"]).all()
    for (weight, groups), (train, _) in zip(seen, folds.split(X, Y, GROUPS), strict=True):
        np.testing.assert_array_equal(weight, WEIGHT[train])
        np.testing.assert_array_equal(groups, GROUPS[train])


def test_what_is_not_asked_for_is_not_routed():
    with config_context(enable_metadata_routing=True):
        model = make_pipeline(StandardScaler(), classifier())
        with pytest.raises(ValueError, match="not explicitly set as requested"):
            model.fit(X, Y, groups=GROUPS)


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_set_output(container):
    images = RNG.integers(0, 256, (4, 8, 8, 3), dtype=np.uint8)
    embedder = Embedder(lambda batch: batch.mean((2, 3))).set_output(transform=container)
    frame = embedder.fit_transform(images)
    assert type(frame).__module__.startswith(container)
    assert list(frame.columns) == ["embedding0", "embedding1", "embedding2"]
    np.testing.assert_allclose(frame.to_numpy(), images.mean((1, 2)) / 255, atol=1e-6)


def test_the_picture_of_an_estimator():
    model = make_pipeline(StandardScaler(), classifier(learner="auto"))
    assert "NoiseBoundedClassifier" in model._repr_html_()
    fitted = classifier().fit(X, Y)._repr_html_()
    assert "Fitted" in fitted
    assert "noise_rate" in fitted


def test_a_search_over_learners_and_recipes():
    auto = {"loss": "auto", "noise_rate": "auto"}
    grid = {"learner": ["linear", "trees"], "recipe": ["plain", "dropped"]}
    search = GridSearchCV(classifier(**auto, ensemble_size=1, n_jobs=1), grid, cv=ONE_SPLIT).fit(
        X, Y
    )
    assert len(search.cv_results_["params"]) == 4
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    best = search.best_estimator_.recipe_.chosen
    assert {"learner": best.learner, "recipe": best.recipe} == search.best_params_
    assert search.predict_proba(X).shape == (120, 2)
