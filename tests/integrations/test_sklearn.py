"""The estimator among scikit-learn's own: pipelines, searches, weights, interruptions."""

import os
import pickle
import signal
import threading

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

import noisebound as nb
from multi_label_data import examples
from noisebound.data import Normalization, Splits
from noisebound.errors import InvalidValueError
from noisebound.estimation.multi_label import of_true_label
from noisebound.integrations.sklearn import (
    ConstantLabelWarning,
    InterruptedTrainingWarning,
    NoiseBoundedClassifier,
    UnknownNoiseWarning,
)
from noisebound.search.recipes import OF_SEVERAL_LABELS, RECIPES

FEW_STEPS = {"max_iter": 10, "learning_rate": 1e-2}  # enough for the data of scikit-learn's checks


@pytest.mark.filterwarnings("ignore::noisebound.integrations.sklearn.UnknownNoiseWarning")
@parametrize_with_checks(
    [
        NoiseBoundedClassifier(recipe="dropped", **FEW_STEPS),
        NoiseBoundedClassifier(noise_rate=0.1, **FEW_STEPS),
    ]
)
def test_scikit_learn_s_checks(estimator, check):
    check(estimator)


def noisy(y, rate, num_classes):
    generator = torch.Generator().manual_seed(0)
    return nb.corrupt(y, "symmetric", rate, num_classes, generator=generator).labels.numpy()


def clouds(n=300, rate=0.3, classes=3):
    X, y = make_blobs(n, centers=classes, n_features=4, cluster_std=2.0, random_state=0)
    return X, noisy(y, rate, classes), y


def known(**options):
    return NoiseBoundedClassifier(noise_rate=0.3, random_state=0, max_iter=20, **options)


@pytest.fixture(scope="module")
def digits():
    """1,200 training examples with 40 % wrong labels, and the rest for testing."""
    X, y = load_digits(return_X_y=True)
    return X[:1200], noisy(y[:1200], 0.4, 10), X[1200:], y[1200:], y[:1200]


@pytest.fixture(scope="module")
def fitted(digits):
    X, y, *_ = digits
    return NoiseBoundedClassifier(random_state=0, max_iter=40).fit(X, y)


@pytest.fixture(scope="module")
def in_either_precision():
    """Up to three averaged models in float32, and the best one in float64."""
    X, y, _ = clouds(n=90)
    model = NoiseBoundedClassifier(max_iter=3, standardize=False, random_state=0)
    single = X.astype(np.float32)
    one = clone(model).set_params(ensemble_size=1)
    return model.fit(single, y), one.fit(single.astype(float), y)


class Unknown(LogisticRegression):
    """A class that skops refuses to store."""


class TestWhatItFinds:
    def test_the_noise(self, fitted):
        assert fitted.noise_rate_ == pytest.approx(0.4, abs=0.05)
        low, high = fitted.noise_estimate_.interval
        assert low <= 0.4 <= high

    def test_more_than_plain_training_does(self, fitted, digits):
        X, y, X_test, y_test, _ = digits
        plain = NoiseBoundedClassifier(recipe="plain", random_state=0, max_iter=40).fit(X, y)
        assert fitted.score(X_test, y_test) > plain.score(X_test, y_test) + 0.05

    def test_what_to_train(self, fitted):
        chosen = fitted.recipe_.chosen
        assert chosen.gain > 0
        assert {each.learner for each in fitted.recipe_.tried} == {
            *("network", "linear", "boosting", "trees", "neighbors")
        }

    def test_a_recipe_of_a_network(self):
        X, y, _ = clouds(n=200)
        model = NoiseBoundedClassifier(learner="network", random_state=0, max_iter=8).fit(X, y)
        chosen = model.recipe_.chosen
        assert len(model.loss_curve_) == model.n_iter_ == chosen.epochs
        assert {each.recipe for each in model.recipe_.tried} == set(RECIPES) - set(
            OF_SEVERAL_LABELS
        )

    def test_the_loss_that_is_named_stays_at_its_floor(self, digits):
        X, y, *_ = digits
        model = NoiseBoundedClassifier("ce", random_state=0, max_iter=40).fit(X, y)
        assert len(model.loss_curve_) == model.n_iter_ == 40
        assert model.loss_curve_[-1] == pytest.approx(model.bound_, abs=0.1)
        assert model.recipe_ is None

    def test_wrong_labels(self, fitted, digits):
        _, y, _, _, truth = digits
        is_wrong = y != truth
        assert is_wrong[fitted.suspects_].mean() > 0.85
        assert is_wrong[fitted.suspects_[:100]].mean() > 0.97
        ranked = fitted.suspicion_[fitted.suspects_]
        assert (np.diff(ranked) <= 0).all()
        assert ranked.min() > 0.5
        assert np.delete(fitted.suspicion_, fitted.suspects_).max() <= 0.5


class TestAmongOthers:
    def test_text(self):
        """TF-IDF is sparse, and labels are words."""
        generator = np.random.default_rng(0)
        words = {"fruit": "apple pear plum cherry", "tools": "hammer saw drill file"}
        topics = generator.choice(list(words), 400)
        texts = [" ".join(generator.choice(words[topic].split(), 3)) for topic in topics]
        labels = np.where(generator.random(400) < 0.2, "fruit", topics)
        model = make_pipeline(
            TfidfVectorizer(), NoiseBoundedClassifier(random_state=0, max_iter=20)
        ).fit(texts, labels)
        assert model.score(texts, topics) > 0.98
        assert list(model[-1].classes_) == ["fruit", "tools"]
        layers = [each for each in model[-1].network_.modules() if isinstance(each, nn.Linear)]
        assert len(layers) == 1  # of sparse features a linear model

    def test_grid_search(self):
        X, y, _ = clouds()
        search = GridSearchCV(
            make_pipeline(StandardScaler(), known()),
            {"noiseboundedclassifier__loss": ["ce", "sce", nb.GeneralizedCrossEntropy(a=0.7)]},
            cv=2,
        ).fit(X, y)
        assert search.best_score_ > 0.5

    def test_cross_val_predict_and_calibration(self):
        X, y, truth = clouds()
        probs = cross_val_predict(known(), X, y, cv=3, method="predict_proba")
        assert (probs.argmax(1) == truth).mean() > 0.85
        calibrated = CalibratedClassifierCV(known(), cv=2).fit(X, y)
        assert (calibrated.predict(X) == truth).mean() > 0.85

    def test_pickle_and_clone(self):
        X, y, _ = clouds()
        model = known(loss=nb.SymmetricCrossEntropy(A=4.0)).fit(X, y)
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(
            again.partial_fit(X, y).predict_proba(X), model.partial_fit(X, y).predict_proba(X)
        )
        unfitted = clone(model)
        assert unfitted.get_params().keys() == model.get_params().keys()
        assert not hasattr(unfitted, "network_")

    def test_of_labels_that_say_nothing_no_suspects_are_named(self):
        generator = np.random.default_rng(0)
        X, y = generator.normal(size=(150, 10)), generator.integers(2, size=150)
        model = NoiseBoundedClassifier(max_iter=20, random_state=0).fit(X, y)
        assert "nothing to do with the labels" in model.noise_estimate_.diagnostics.rejection
        assert model.noise_rate_ == 0
        assert len(model.suspects_) == 0
        assert np.isnan(model.suspicion_).all()

    @pytest.mark.parametrize("given", [{"noise_rate": 0.2}, {"bound": 0.3}, {"loss": "sce"}])
    def test_a_recipe_stands_alone(self, given):
        X, y, _ = clouds()
        with pytest.raises(ValueError, match="brings its own loss"):
            NoiseBoundedClassifier(recipe="dropped", **given).fit(X, y)

    @pytest.mark.parametrize("form", [csr_matrix, np.asarray])
    def test_a_regularized_network_is_a_usual_one_afterwards(self, form):
        X, y, truth = clouds()
        model = NoiseBoundedClassifier(
            recipe="regularized", hidden_layer_sizes=(50,), max_iter=20, random_state=0
        ).fit(form(X), y)
        assert (model.predict(X) == truth).mean() > 0.6
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
        assert [tuple(each.shape) for each in model.network_.parameters()] == [
            *((50, X.shape[1]), (50,)),
            *((len(model.classes_), 50), (len(model.classes_),)),
        ]

    @pytest.mark.parametrize("first", [csr_matrix, np.asarray])
    def test_new_rows_may_be_sparse_or_dense_whatever_the_first_were(self, first):
        X, y, _ = clouds()
        model = known().fit(first(X), y)
        np.testing.assert_allclose(
            model.predict_proba(csr_matrix(X)), model.predict_proba(X), rtol=1e-9
        )

    def test_sparse_and_dense_rows_are_the_same_rows(self):
        X, y, _ = clouds()
        dense, sparse = (
            known(standardize=False, hidden_layer_sizes=(50,)).fit(rows, y).predict_proba(X)
            for rows in (X, csr_matrix(X))
        )
        np.testing.assert_allclose(sparse, dense, rtol=1e-9)

    def test_features_are_standardized(self):
        """At any scale and offset, even if float32 has few digits left."""
        X, y, truth = clouds(n=600)
        moved = (1e4 + 30 * X).astype(np.float32)
        assert known().fit(moved, y).score(moved, truth) > 0.9
        tiny = (1e-30 * X).astype(np.float32)
        assert known().fit(tiny, y).score(tiny, truth) > 0.9

    def test_long_columns_of_float32_keep_their_mean(self):
        values = np.random.default_rng(0).normal(1e5, 30, size=(200_000, 1)).astype(np.float32)
        weights = torch.ones(len(values))
        for scaling in (Normalization.of(torch.from_numpy(values), w) for w in (None, weights)):
            assert scaling.mean == pytest.approx((1e5,), abs=1)
            assert scaling.std == pytest.approx((30,), rel=0.02)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_numbers_keep_their_precision(self, dtype):
        X, y, _ = clouds()
        assert known().fit(X.astype(dtype), y).predict_proba(X).dtype == dtype

    def test_trials_are_the_same_in_either_precision(self, in_either_precision):
        """They are computed in float32, which takes half the time, and normalized before."""
        single, double = in_either_precision
        assert single.recipe_.tried == double.recipe_.tried

    def test_torch_s_global_generator_is_left_alone(self):
        X, y, _ = clouds()
        before = torch.random.get_rng_state()
        known().fit(X, y)
        assert torch.equal(before, torch.random.get_rng_state())


class TestLearners:
    @pytest.mark.parametrize("learner", ["network", "linear", "boosting", "trees", "neighbors"])
    def test_each_by_name(self, learner):
        X, y, truth = clouds(n=200)
        model = NoiseBoundedClassifier(learner=learner, max_iter=6, random_state=0).fit(X, y)
        assert [each.learner for each in model.recipe_.members] == [learner]
        assert model.score(X, truth) > 0.8
        assert (y != truth)[model.suspects_].mean() > 0.7
        assert len(model.suspicion_) == 200
        assert (len(model.loss_curve_) > 0) == (learner == "network")
        assert model.predict_proba(X).dtype == X.dtype
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))

    @pytest.mark.parametrize(
        "given",
        [
            make_pipeline(StandardScaler(), LogisticRegression()),
            KNeighborsClassifier(9),
            Unknown(),
        ],
        ids=["pipeline", "neighbors", "a type of one's own"],
    )
    def test_any_classifier(self, given):
        X, y, truth = clouds(n=200)
        model = NoiseBoundedClassifier(learner=given, random_state=0).fit(X, y)
        assert model.score(X, truth) > 0.85
        assert [each.learner for each in model.recipe_.members] == ["estimator"]
        assert model.n_iter_ == 1
        with pytest.raises(NotFittedError):
            given.predict(X)  # a copy was trained
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
        unfitted = clone(model)
        assert unfitted.learner is not given
        assert type(unfitted.learner) is type(given)

    def test_boosting_takes_no_sparse_rows(self):
        X, y, _ = clouds(n=200)
        with pytest.raises(ValueError, match="boosting takes no sparse inputs"):
            NoiseBoundedClassifier(learner="boosting").fit(csr_matrix(X), y)

    def test_recipes_of_a_learner(self):
        X, y, truth = clouds(n=200)
        model = NoiseBoundedClassifier(learner="linear", recipe="dropped", random_state=0).fit(X, y)
        assert model.recipe_.chosen.candidate == ("linear", "dropped")
        assert model.score(X, truth) > 0.85

    def test_the_number_of_processes_changes_nothing(self, monkeypatch):
        monkeypatch.setattr("noisebound.training.session._WORTH_PROCESSES", 0.0)
        X, y, _ = clouds(n=100)
        one, two = (
            NoiseBoundedClassifier(
                learner="linear", recipe="plain", n_jobs=jobs, random_state=0
            ).fit(X, y)
            for jobs in (1, 2)
        )
        assert one.recipe_ == two.recipe_
        np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))

    def test_an_average_of_several(self, in_either_precision):
        X, _, truth = clouds(n=90)
        several, one = in_either_precision
        assert 1 <= len({each.learner for each in several.recipe_.members}) <= 3
        assert several.score(X, truth) > 0.8
        assert len(one.recipe_.members) == 1


class TestBounds:
    @pytest.mark.parametrize("loss", ["ce", "fce", "gce", "sce", "cep", "mse"])
    def test_a_given_rate(self, loss):
        X, y, _ = clouds()
        model = known(loss=loss).fit(X, y)
        expected = nb.noise_bound(nb.create_loss(loss, noise_rate=0.3, num_classes=3), 0.3, 3)
        assert model.bound_ == pytest.approx(expected)
        assert model.noise_rate_ == 0.3
        assert model.noise_estimate_ is None

    def test_a_level_of_one_s_own(self):
        X, y, _ = clouds()
        model = known(bound=0.95).fit(X, y)
        assert model.bound_ == 0.95
        assert model.loss_curve_[-1] == pytest.approx(0.95, abs=0.05)

    @pytest.mark.parametrize("level", [np.float32(0.5), np.int64(1), 2])
    def test_a_level_of_any_kind_of_number(self, level):
        X, y, _ = clouds(n=60)
        assert known(bound=level).fit(X, y).bound_ == level

    def test_the_backward_correction(self):
        X, y, _ = clouds()
        assert known(loss="backward").fit(X, y).bound_ == pytest.approx(0)

    def test_a_correction_by_name_and_as_an_object_have_one_bound(self, digits):
        """By estimated noise and by the noise that the loss corrects."""
        X, y, *_ = digits
        for loss in ("backward", nb.BackwardCrossEntropy.symmetric(0.4, 10)):
            model = NoiseBoundedClassifier(loss, random_state=0, max_iter=20).fit(X, y)
            assert model.bound_ == pytest.approx(0, abs=1e-6)

    @pytest.mark.parametrize("correction", [nb.ForwardCrossEntropy, nb.BackwardCrossEntropy])
    def test_a_loss_with_its_matrix_brings_the_noise(self, correction):
        """Labels that are less noisy: an estimate would contradict the matrix."""
        X, y, _ = clouds(rate=0.1)
        loss = correction.symmetric(0.3, 3)
        model = NoiseBoundedClassifier(loss, random_state=0, max_iter=5).fit(X, y)
        assert model.noise_rate_ == pytest.approx(0.3)
        assert model.noise_estimate_ is None
        assert model.bound_ == pytest.approx(nb.noise_bound(loss, 0.3, 3), abs=1e-9)

    def test_a_loss_for_other_classes_is_refused(self):
        X, y, _ = clouds(n=60)
        with pytest.raises(ValueError, match="made for 10 classes, and y has 3"):
            NoiseBoundedClassifier(nb.BackwardCrossEntropy.symmetric(0.3, 10)).fit(X, y)

    def test_a_loss_with_class_weights_has_no_floor_without_more(self):
        X, y, _ = clouds()
        loss = nb.CrossEntropy(weight=[1.0, 3.0, 2.0])
        with pytest.raises(ValueError, match="pass sample_weight to fit instead, or a bound"):
            known(loss=loss).fit(X, y)
        assert known(loss=loss, bound=0.9).fit(X, y).bound_ == 0.9

    def test_none_at_all(self):
        X, y, _ = clouds(n=100)
        model = known(bound=None, alpha=0.0, learning_rate=1e-2).set_params(max_iter=300).fit(X, y)
        assert model.bound_ is None
        assert model.loss_curve_[-1] < 0.1  # memorized

    def test_too_few_examples_to_measure(self):
        X, y, _ = clouds(n=40)
        with pytest.warns(UnknownNoiseWarning, match="40 training examples are too few"):
            model = NoiseBoundedClassifier("ce", random_state=0, max_iter=2).fit(X, y)
        assert model.noise_rate_ == 0
        assert model.bound_ == 0


class TestWeights:
    def test_an_example_without_weight_is_left_out(self):
        X, y, _ = clouds()
        kept = np.arange(len(y)) % 3 > 0
        weighted = known().fit(X, y, sample_weight=kept)
        np.testing.assert_allclose(
            weighted.predict_proba(X),
            known().fit(X[kept], y[kept]).predict_proba(X),
            rtol=1e-9,
        )
        assert len(weighted.suspicion_) == len(y)  # and is judged all the same

    def test_suspects_are_positions_among_all(self):
        """The noise is estimated by models that saw only examples with a weight."""
        X, y, truth = clouds(n=600, classes=4)
        kept = np.arange(len(y)) % 3 > 0
        model = NoiseBoundedClassifier(learner="linear", random_state=0)
        model.fit(X, y, sample_weight=kept)
        assert (y != truth)[model.suspects_].mean() > 0.9

    def test_weights_outweigh_wrong_labels(self):
        X, y, truth = clouds(rate=0.6)
        trusted = known(bound=None).fit(X, y, sample_weight=np.where(y == truth, 1.0, 0.01))
        assert trusted.score(X, truth) > 0.95

    def test_class_weights_of_a_loss_count_as_those_of_examples(self):
        """In one batch, with features that are not scaled, they are the same mean."""
        X, y, _ = clouds(n=200)
        by_class = np.array([1.0, 3.0, 2.0])
        of_loss = known(loss=nb.CrossEntropy(weight=by_class), bound=None, standardize=False)
        of_examples = known(bound=None, standardize=False)
        np.testing.assert_allclose(
            of_loss.fit(X, y).predict_proba(X),
            of_examples.fit(X, y, sample_weight=by_class[y]).predict_proba(X),
            rtol=1e-6,
        )

    def test_nothing_but_zeros(self):
        X, y, _ = clouds(n=30)
        with pytest.raises(ValueError, match=r"(?i)sample.weight"):
            known().fit(X, y, sample_weight=np.zeros(30))


class TestStreams:
    def test_learning_part_by_part(self):
        X, y, truth = clouds(n=1200)
        model = known(learning_rate=1e-2)
        for part in np.array_split(np.arange(1200), 8):
            model.partial_fit(X[part], y[part], classes=[0, 1, 2])
        assert model.score(X, truth) > 0.9
        assert model.n_iter_ == len(model.loss_curve_) == 8

    def test_going_on_after_fit(self):
        X, y, _ = clouds()
        model = known().fit(X, y)
        before = model.n_iter_
        model.partial_fit(X, y)
        assert model.n_iter_ == before + 1

    def test_parts_are_not_searched_for_duplicates(self, monkeypatch):
        monkeypatch.setattr(Splits, "duplicates", property(lambda splits: pytest.fail("searched")))
        X, y, _ = clouds(n=60)
        known().partial_fit(X, y, classes=[0, 1, 2])

    def test_noise_is_not_measured_on_a_stream(self):
        model = NoiseBoundedClassifier()
        with pytest.raises(AttributeError, match="has no attribute 'partial_fit'") as said:
            model.partial_fit([[0.0]], [0])
        assert "cannot be estimated: give noise_rate as a number" in str(said.value.__cause__)
        assert not hasattr(model, "partial_fit")  # which scikit-learn asks
        assert hasattr(model.set_params(noise_rate=0.2), "partial_fit")

    def test_a_loss_may_bring_the_noise_of_a_stream(self):
        X, y, truth = clouds(n=1200)
        model = NoiseBoundedClassifier(
            nb.ForwardCrossEntropy.symmetric(0.3, 3), learning_rate=1e-2, random_state=0
        )
        for part in np.array_split(np.arange(1200), 8):
            model.partial_fit(X[part], y[part], classes=[0, 1, 2])
        assert model.noise_rate_ == pytest.approx(0.3)
        assert model.score(X, truth) > 0.9

    def test_a_first_call_that_fails_is_none(self):
        X, y, _ = clouds()
        model = known()
        with pytest.raises(ValueError, match="NaN"):
            model.partial_fit(np.full_like(X, np.nan), y, classes=[0, 1, 2])
        assert model.partial_fit(X, y, classes=[0, 1, 2]).n_iter_ == 1

    def test_parameters_may_change_on_the_way(self):
        X, y, _ = clouds()
        model = known().fit(X, y)
        model.set_params(loss="sce", noise_rate=0.2, learning_rate=0.1).partial_fit(X, y)
        assert model.bound_ == pytest.approx(nb.noise_bound(nb.SymmetricCrossEntropy(), 0.2, 3))
        assert model.noise_rate_ == 0.2
        assert not hasattr(model, "suspects_")  # those of fit were of other data

    def test_unknown_classes(self):
        X, y, _ = clouds()
        model = known().partial_fit(X, y, classes=[0, 1, 2])
        with pytest.raises(ValueError, match=r"labels \[7\] are not among the classes"):
            model.partial_fit(X[:2], [7, 7])


def interrupt_after(seconds):
    """What Ctrl-C sends."""
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()


@pytest.mark.usefixtures("heeds_interrupts")
class TestInterruption:
    def test_while_training(self):
        X, y, truth = clouds()
        model = known().set_params(max_iter=10**6)
        interrupt_after(1.0)
        with pytest.warns(InterruptedTrainingWarning, match="interrupted after"):
            model.fit(X, y)
        assert 0 < model.n_iter_ < 10**6
        assert model.score(X, truth) > 0.8
        assert len(model.suspicion_) == len(y)

    def test_during_trials(self):
        """There is no model yet."""
        X, y, _ = clouds(n=4000)
        model = NoiseBoundedClassifier(random_state=0, max_iter=10**6, learning_rate=1e-7)
        interrupt_after(1.0)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
        with pytest.raises(NotFittedError):
            model.predict(X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "elr"}, "loss must be 'auto', one of ce, fce"),
        ({"recipe": "best"}, "`recipe` must be 'plain', "),
        ({"loss": 3}, "loss must be a name or a noisebound.Loss, got 3"),
        ({"noise_rate": 1.5}, "noise_rate"),
        ({"noise_rate": "0.4"}, "`noise_rate` must be .* valid number"),
        ({"max_iter": "10"}, "`max_iter` must be .* valid integer"),
        ({"noise_rate": True}, "`noise_rate` must be .* valid number"),
        ({"noise_rate": None}, "noise_rate must be a number"),
        ({"bound": "low"}, "`bound` must be .* valid number"),
        ({"bound": np.nan}, "`bound` must be .* finite number"),
        ({"max_iter": 0}, "max_iter"),
        ({"batch_size": 0}, "batch_size"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"hidden_layer_sizes": (0,)}, "hidden_layer_sizes"),
        ({"hidden_layer_sizes": "wide"}, "hidden_layer_sizes must be widths, or 'auto'"),
        ({"learner": "forest"}, "`learner` must be .*'network', 'linear'.*got 'forest'"),
        ({"learner": "estimator"}, "give the estimator itself"),
        ({"learner": None}, "learner must be a name or a classifier"),
        ({"learner": GaussianNB}, "learner must be a name or a classifier"),
        ({"learner": LinearSVC()}, "learner must be a name or a classifier"),
        ({"learner": "trees", "loss": "ce"}, "for networks, but the learner 'trees'"),
        ({"learner": "trees", "noise_rate": 0.2}, "for networks, but the learner 'trees'"),
        ({"learner": GaussianNB(), "recipe": "gce"}, "for networks, but the learner 'estimator'"),
        ({"ensemble_size": 0}, "ensemble_size"),
    ],
)
def test_parameters_are_checked_in_fit(options, message):
    X, y, _ = clouds(n=30)
    with pytest.raises((ValueError, TypeError), match=message):
        NoiseBoundedClassifier(**options).fit(X, y)


def test_one_hidden_layer_as_a_number():
    X, y, _ = clouds(n=60)
    widths = [layer.out_features for layer in known(hidden_layer_sizes=7).fit(X, y).network_[1::2]]
    assert widths == [7, 3]


def test_a_failed_fit_leaves_no_model():
    X, y, _ = clouds()
    model = known().fit(X, y)
    with pytest.raises(ValueError, match="at least two classes"):
        model.fit(X, np.zeros(len(y)))
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_one_class():
    with pytest.raises(ValueError, match="at least two classes, got one class"):
        known().fit([[0.0], [1.0]], ["a", "a"])


@pytest.mark.parametrize("labels", [["a", None, "b"], [0, None, 1], np.array(["a", None, "b"])])
def test_labels_that_are_missing_are_counted(labels):
    with pytest.raises(ValueError, match="1 of 3 labels are missing: drop these examples"):
        known().fit(np.eye(3), labels)


def test_a_matrix_of_labels_gives_one_of_each_label():
    X, true, noisy = examples(240)
    model = NoiseBoundedClassifier(learner="linear", recipe="plain", random_state=0)
    model.fit(X[:160], noisy[:160])
    assert model.predict(X[160:]).shape == true[160:].shape
    assert model.predict_proba(X[160:]).shape == true[160:].shape
    assert model.score(X[160:], true[160:]) == (model.predict(X[160:]) == true[160:]).all(1).mean()
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.noise_rate_.shape == (3,)
    assert model.suspicion_.shape == (160, 3)
    assert all(model.suspicion_[row, label] > 0.5 for row, label in model.suspects_)
    first = model.suspects_[:20]
    assert np.mean([noisy[row, label] != true[row, label] for row, label in first]) > 0.5
    alone = clone(model).set_params(random_state=model.estimators_[1].random_state)
    alone._counts_alike = True
    alone.fit(X[:160], noisy[:160, 1])
    seen, transition = alone.predict_proba(X)[:, 1], alone.noise_estimate_.transition
    true_label = of_true_label(seen, transition, share=1.0)  # it learned the labels as they are
    np.testing.assert_array_equal(true_label.astype(np.float32), model.predict_proba(X)[:, 1])


def test_missing_constant_and_wrong_labels_of_a_matrix():
    X, _, noisy = examples(120)
    labels = noisy.copy()
    labels[:, 0], labels[::4, 1] = 1, -1
    model = NoiseBoundedClassifier(learner="linear", recipe="plain", random_state=0)
    with pytest.warns(ConstantLabelWarning, match="label 0 is always there: it is predicted so"):
        model.fit(X, labels)
    assert model.predict_proba(X)[:, 0].tolist() == [1] * 120
    assert np.isnan(model.suspicion_[::4, 1]).all()
    assert not np.isnan(model.suspicion_[1::4, 1]).any()
    with pytest.raises(InvalidValueError, match="must hold 1 for each label that an example has"):
        model.fit(X, noisy + 1)
    assert not hasattr(model, "estimators_")


def test_weights_of_another_length_are_refused_for_a_matrix_of_labels():
    X, _, y = examples(40)
    with pytest.raises(ValueError, match="sample_weight"):
        NoiseBoundedClassifier().fit(X, y, sample_weight=np.ones(50))
