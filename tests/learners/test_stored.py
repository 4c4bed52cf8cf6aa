"""Models with estimators as files: equal predictions, and only known types are loaded."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skops.io import dumps

from noisebound.data.rows import SparseRows
from noisebound.errors import DataError, InvalidTypeError, RunError
from noisebound.learners import AnyEstimator, Boosting, Ensemble, Linear, Neighbors, Trees
from noisebound.learners.stored import check_can_be_stored, dumped, estimators_of, joined, rebuilt
from noisebound.models import create_model
from noisebound.runs import SavedModel
from noisebound.runs.folder import RunFolder
from noisebound.runs.saved_model import ModelCard
from noisebound.training.data import TrainingData
from training_data import NAMES, noisy_clouds


def trained(*learners, with_network=False):
    """An ensemble of learners on four noisy clouds, or a single one."""
    data = TrainingData.unsplit(noisy_clouds(200).train)
    members = [learner.fit(data, len(learner.stages) // 2, 0) for learner in learners]
    network = [create_model("small_mlp", (6,), 4)] if with_network else []
    return joined([*network, *members])


def saved(model, folder, name=None):
    card = ModelCard(
        model=name or "small_mlp",
        input_shape=(6,),
        input_dtype="float32",
        class_names=NAMES,
        mean=(),
        std=(),
    )
    found = SavedModel(model, card)
    found.save(folder)
    return found


LEARNERS = {
    "linear": [Linear()],
    "boosting": [Boosting(columns=6)],
    "trees": [Trees()],
    "neighbors": [Neighbors()],
    "an ensemble": [Linear(), Neighbors(), Trees()],
    "two neighbors": [Neighbors(), Neighbors()],
    "a pipeline": [
        AnyEstimator(make_pipeline(StandardScaler(), SelectKBest(k=4), LogisticRegression()))
    ],
    "a forest": [AnyEstimator(RandomForestClassifier(10))],
    "bayes": [AnyEstimator(GaussianNB())],
    "another network": [AnyEstimator(MLPClassifier((8,), max_iter=20))],
    "neighbors by cosine": [AnyEstimator(KNeighborsClassifier(5, metric="cosine"))],
    "a calibrated one": [AnyEstimator(CalibratedClassifierCV(GaussianNB(), cv=2))],
}


@pytest.mark.parametrize("with_network", [False, True])
@pytest.mark.parametrize("learners", LEARNERS.values(), ids=LEARNERS)
def test_the_predictions_are_the_same_again(learners, with_network, tmp_path):
    before = saved(trained(*learners, with_network=with_network), tmp_path)
    after = SavedModel.load(tmp_path)
    assert after.card == before.card
    assert isinstance(after.model, Ensemble) == (with_network or len(learners) > 1)
    inputs = noisy_clouds().test.dense_inputs
    assert torch.equal(after.probabilities(inputs), before.probabilities(inputs))
    assert after.probabilities(inputs[:0]).shape == (0, 4)


def test_neighbors_among_sparse_examples(tmp_path):
    data = TrainingData.unsplit(noisy_clouds(200).train)
    rows = SparseRows(csr_array(data.train.dense_inputs.numpy()))
    data = replace(data, train=replace(data.train, inputs=rows))
    before = saved(Neighbors().fit(data, 2, 0), tmp_path)
    inputs = noisy_clouds().test.dense_inputs
    after = SavedModel.load(tmp_path)
    assert torch.equal(after.probabilities(inputs), before.probabilities(inputs))


def test_a_model_of_one_class(tmp_path):
    data = TrainingData.unsplit(noisy_clouds(200).train)
    data = data.subset(data.train.labels == 3)
    before = saved(Linear().fit(data, 0, 0), tmp_path)
    inputs = noisy_clouds().test.dense_inputs
    found = SavedModel.load(tmp_path).probabilities(inputs)
    assert torch.equal(found, before.probabilities(inputs))
    assert (found.argmax(1) == 3).all()


class Own(LogisticRegression):
    """A class that skops cannot know."""


class TestNothingUnknownIsLoaded:
    def test_a_type_that_nobody_has_checked_is_refused(self):
        with pytest.raises(InvalidTypeError, match=r"Own.*use the estimator in NoiseBounded"):
            dumped([Own()])

    @pytest.mark.parametrize("given", [Own(), KNeighborsClassifier()])
    def test_before_it_is_trained(self, given):
        """A tree of neighbors appears only once they are fitted."""
        data = TrainingData.unsplit(noisy_clouds().train)
        with pytest.raises(InvalidTypeError, match="a run folder cannot hold an estimator with"):
            check_can_be_stored(given, data, 0)
        check_can_be_stored(GaussianNB(), data, 0)
        check_can_be_stored(CalibratedClassifierCV(GaussianNB(), cv=50), data, 0)

    def test_nor_is_it_loaded(self):
        with pytest.raises(DataError, match=r"cannot be read.*Own"):
            rebuilt(dumps([Own()]), {}, torch.nn.Identity(), 4)

    @pytest.mark.parametrize("content", [b"", b"damaged", dumped([Linear().estimator(1, 0)])[:-40]])
    def test_what_is_no_archive_is_an_error(self, content):
        with pytest.raises(DataError, match="the stored estimators cannot be read"):
            rebuilt(content, {}, torch.nn.Identity(), 4)

    def test_a_damaged_file_is_noticed(self, tmp_path):
        saved(trained(Linear()), tmp_path)
        path = RunFolder(tmp_path).estimators
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"estimators\.skops is damaged or was changed"):
            SavedModel.load(tmp_path)

    def test_a_missing_file_is_noticed(self, tmp_path):
        saved(trained(Linear()), tmp_path)
        RunFolder(tmp_path).estimators.unlink()
        with pytest.raises(RunError, match=r"lacks estimators\.skops"):
            SavedModel.load(tmp_path)

    def test_a_network_alone_has_none(self, tmp_path):
        model = create_model("small_mlp", (6,), 4)
        assert estimators_of(model) == [None]
        saved(model, tmp_path)
        assert not RunFolder(tmp_path).estimators.exists()


@pytest.mark.parametrize(
    "estimator", [ExtraTreesClassifier(3), HistGradientBoostingClassifier(max_iter=3)]
)
def test_trees_with_nodes_that_do_not_exist_are_refused(estimator):
    """A prediction would read outside of the memory of such a tree."""
    inputs, labels = np.random.default_rng(0).normal(size=(200, 4)), np.arange(200) % 2
    estimator.fit(inputs, labels)
    content, network = dumped([estimator]), torch.nn.Identity()
    rebuilt(content, {}, network, 2)
    if isinstance(estimator, ExtraTreesClassifier):
        estimator.estimators_[0].tree_.children_left[0] = 10_000
    else:
        estimator._predictors[0][0].nodes["feature_idx"][0] = 4
    with pytest.raises(DataError, match="cannot be read"):
        rebuilt(dumped([estimator]), {}, network, 2)
