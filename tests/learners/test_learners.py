"""Each learner learns, counts weights and soft targets, and copes with classes that are missing."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from noisebound.data.rows import SparseRows
from noisebound.learners import (
    AnyEstimator,
    Boosting,
    Ensemble,
    FittedEstimator,
    Linear,
    Neighbors,
    Network,
    Trees,
)
from noisebound.learners.learner import Arrays, inputs_of
from noisebound.learners.network import judged_epochs
from noisebound.losses import CrossEntropy
from noisebound.models import linear
from noisebound.training import TrainingConfig
from noisebound.training.data import TrainingData
from noisebound.training.devices import OneDevice
from noisebound.training.objective import Objective
from training_data import noisy_clouds


def data_of(n=200, noisy=False):
    """Four clouds as training data, with their true labels unless noise is asked for."""
    train = noisy_clouds(n).train
    return TrainingData.unsplit(train if noisy else train.with_labels(train.true_labels))


def test_examples():
    return noisy_clouds().test


test_examples.__test__ = False


def network(epochs=8, fewest_epochs=None):
    config = TrainingConfig(
        loss="ce", epochs=epochs, batch_size=30, learning_rate=0.03, average_epochs=0
    )
    torch.manual_seed(0)
    objective = Objective(CrossEntropy(), None)
    return Network(
        linear((6,), 4), config, objective, OneDevice("cpu"), fewest_epochs=fewest_epochs
    )


ESTIMATORS = [Linear(), Boosting(columns=6), Trees(), Neighbors()]
OTHERS = [
    AnyEstimator(make_pipeline(StandardScaler(), LogisticRegression())),
    AnyEstimator(KNeighborsClassifier(25)),  # takes no weights
    AnyEstimator(GaussianNB()),
]


def name_of(learner):
    given = getattr(learner, "given", None)
    return learner.name if given is None else type(given).__name__


@pytest.mark.parametrize("learner", [network(), *ESTIMATORS, *OTHERS], ids=name_of)
class TestEach:
    def test_learns_clouds_stage_by_stage(self, learner):
        examples, few = test_examples(), test_examples().subset(torch.arange(1))
        probs, first = learner.predict_stages(data_of(), [examples, few], 0)
        assert probs.shape == (len(learner.stages), 80, 4)
        torch.testing.assert_close(first, probs[:, :1])
        torch.testing.assert_close(probs.sum(2), torch.ones(len(learner.stages), 80))
        accuracy = (probs.argmax(2) == examples.labels).double().mean(1)
        assert accuracy.max() > 0.95

    def test_gives_the_same_for_the_same_seed(self, learner):
        first, second = (learner.predict_stages(data_of(), [test_examples()], 3) for _ in range(2))
        assert torch.equal(first[0], second[0])


@pytest.mark.parametrize("learner", [*ESTIMATORS, *OTHERS], ids=name_of)
class TestEachEstimator:
    def test_fits_at_a_stage_as_it_predicted_there(self, learner):
        """But for digits, where a penalty is reached from the last one, and for more trees."""
        most = 0.15 if isinstance(learner, Trees) else 0.02
        data, examples = data_of(noisy=True), test_examples()
        (staged,) = learner.predict_stages(data, [examples], 0)
        for stage in {0, len(learner.stages) // 2, len(learner.stages) - 1}:
            model = learner.fit(data, stage, 0)
            inputs = torch.from_numpy(inputs_of(examples, data.normalization))
            found = model(inputs).softmax(1)
            torch.testing.assert_close(found, staged[stage], atol=most, rtol=0)

    def test_a_class_without_examples_has_no_probability(self, learner):
        data = data_of()
        data = data.subset(data.train.labels != 2)
        (probs,) = learner.predict_stages(data, [test_examples()], 0)
        assert probs.shape[2] == 4
        assert probs[..., 2].max() < 1e-6
        known = test_examples().labels != 2
        assert (probs[-1].argmax(1) == test_examples().labels)[known].double().mean() > 0.95
        model = learner.fit(data, 0, 0)
        assert model(torch.zeros(3, 6)).isfinite().all()

    def test_a_single_class_is_all_that_is_predicted(self, learner):
        data = data_of()
        data = data.subset(data.train.labels == 1)
        (probs,) = learner.predict_stages(data, [test_examples()], 0)
        assert probs.shape == (len(learner.stages), 80, 4)
        assert (probs[..., 1] > 0.999).all()
        model = learner.fit(data, 0, 0)
        assert (model(torch.zeros(3, 6)).argmax(1) == 1).all()

    def test_an_example_without_weight_is_left_out(self, learner):
        """Half of the examples have wrong labels and no weight."""
        data = data_of()
        train = data.train
        weights = (torch.arange(200) // 4 % 2).float()
        wrong = torch.where(weights == 0, (train.labels + 1) % 4, train.labels)
        weighted = replace(data, train=replace(train.with_labels(wrong), weights=weights))
        (probs,) = learner.predict_stages(weighted, [test_examples()], 0)
        accuracy = (probs.argmax(2) == test_examples().labels).double().mean(1)
        assert accuracy.max() > 0.95

    def test_what_has_more_weight_outvotes_wrong_labels(self, learner):
        """Three labels in five are wrong, but the others weigh ten times as much."""
        data = data_of(300)
        train = data.train
        is_wrong = torch.arange(300) // 4 % 5 < 3
        labels = torch.where(is_wrong, (train.labels + 1) % 4, train.labels)
        weights = torch.where(is_wrong, 0.1, 1.0)
        weighted = replace(data, train=replace(train.with_labels(labels), weights=weights))
        (probs,) = learner.predict_stages(weighted, [test_examples()], 0)
        accuracy = (probs.argmax(2) == test_examples().labels).double().mean(1)
        assert accuracy.max() > 0.9

    def test_soft_targets_are_learned(self, learner):
        """All labels are wrong, and the targets say so."""
        data = data_of()
        targets = 0.9 * torch.nn.functional.one_hot(data.train.labels, 4) + 0.025
        train = replace(data.train.with_labels((data.train.labels + 1) % 4), targets=targets)
        (probs,) = learner.predict_stages(replace(data, train=train), [test_examples()], 0)
        accuracy = (probs.argmax(2) == test_examples().labels).double().mean(1)
        assert accuracy.max() > 0.95


class TestWeights:
    def predictions(self, learner, data, stage):
        return learner.predict_stages(data, [test_examples()], 0)[0][stage]

    @pytest.mark.parametrize(
        "learner",
        [Linear(), AnyEstimator(GaussianNB()), AnyEstimator(KNeighborsClassifier(3))],
        ids=name_of,
    )
    def test_equal_weights_are_no_weights(self, learner):
        data = data_of(noisy=True)
        alike = replace(data, train=replace(data.train, weights=torch.full((200,), 3.0)))
        stage = len(learner.stages) // 2
        plain, weighted = (self.predictions(learner, each, stage) for each in (data, alike))
        assert torch.equal(plain, weighted)

    @pytest.mark.parametrize("learner", [AnyEstimator(GaussianNB())], ids=name_of)
    def test_a_weight_is_a_number_of_copies(self, learner):
        data = data_of(noisy=True)
        counts = torch.arange(200) % 3 + 1
        weighted = replace(data, train=replace(data.train, weights=counts.float()))
        repeated = data.subset(torch.arange(200).repeat_interleave(counts))
        torch.testing.assert_close(
            self.predictions(learner, weighted, 0),
            self.predictions(learner, repeated, 0),
            atol=1e-5,
            rtol=0,
        )

    def test_a_weight_of_logistic_regression_is_a_number_of_copies(self):
        data = data_of(noisy=True)
        counts = torch.arange(200) % 3 + 1
        weighted = replace(data, train=replace(data.train, weights=counts.float()))
        repeated = data.subset(torch.arange(200).repeat_interleave(counts))
        one, two = (self.predictions(Linear(), each, 2) for each in (weighted, repeated))
        torch.testing.assert_close(one, two, atol=1e-3, rtol=0)

    def test_a_soft_target_is_a_weighted_copy_per_class(self):
        data = data_of(4)
        targets = torch.tensor([[0.5, 0.5, 0, 0], [0, 1.0, 0, 0], [0.96, 0.04, 0, 0], [0.25] * 4])
        weights = torch.tensor([2.0, 1.0, 1.0, 4.0])
        train = replace(data.train, targets=targets, weights=weights)
        copies = Arrays.of(replace(data, train=train)).as_copies
        assert copies.labels.tolist() == [0, 1, 1, 0, 0, 1, 2, 3]
        assert copies.weights == pytest.approx([1] * 8)  # one share of the third is too small
        rows = inputs_of(data.train, data.normalization)
        np.testing.assert_array_equal(copies.inputs, rows[[0, 0, 1, 2, 3, 3, 3, 3]])

    def test_without_soft_targets_nothing_is_copied(self):
        arrays = Arrays.of(data_of())
        assert arrays.as_copies is arrays
        assert arrays.targets.sum() == 200
        assert (arrays.targets.argmax(1) == arrays.labels).all()


@pytest.mark.parametrize("learner", [Linear(), Trees(), Neighbors()], ids=name_of)
def test_sparse_inputs_are_learned_as_dense_ones(learner):
    data, examples = data_of(), test_examples()

    def sparse(dataset):
        return replace(dataset, inputs=SparseRows(csr_array(dataset.dense_inputs.numpy())))

    unscaled = type(data.normalization).identity()
    data = replace(data, normalization=unscaled)
    (dense,) = learner.predict_stages(data, [examples], 0)
    thin = replace(data, train=sparse(data.train))
    (found,) = learner.predict_stages(thin, [sparse(examples)], 0)
    stage = 2
    assert (found[stage].argmax(1) == dense[stage].argmax(1)).double().mean() > 0.95
    model = learner.fit(thin, stage, 0)
    assert (model(examples.dense_inputs).argmax(1) == examples.labels).double().mean() > 0.95


class TestNetwork:
    def test_it_is_judged_on_a_geometric_grid(self):
        assert judged_epochs(1) == (1,)
        epochs = judged_epochs(300)
        assert epochs[-1] == 300
        assert len(epochs) < 25
        assert all(later > sooner for sooner, later in pairwise(epochs))

    def test_the_given_network_stays_as_it_was(self):
        learner = network()
        before = {name: value.clone() for name, value in learner.network.state_dict().items()}
        learner.predict_stages(data_of(), [test_examples()], 0)
        for name, value in learner.network.state_dict().items():
            assert torch.equal(value, before[name])

    def test_it_stops_well_past_its_best_epoch(self):
        """Chance decides which epoch predicts random labels best; later stages repeat the last."""
        generator = torch.Generator().manual_seed(0)
        data = data_of()
        random = data.train.with_labels(torch.randint(4, (200,), generator=generator))
        learner = network(epochs=200, fewest_epochs=0)
        learner.config = learner.config.model_copy(update={"batch_size": 200})
        (probs,) = learner.predict_stages(replace(data, train=random), [test_examples()], 0)
        hits = (probs.argmax(2) == test_examples().labels).double().mean(1)
        best = learner.stages[int(hits.argmax())]
        last = next(epoch for epoch in learner.stages if epoch >= 2 * best + 5)
        ended = learner.stages.index(last)
        assert ended < len(learner.stages) - 1
        assert all(torch.equal(probs[ended], later) for later in probs[ended:])
        assert not torch.equal(probs[ended], probs[ended - 1])

    def test_it_does_not_stop_before_plain_training_is_best(self):
        """A slow start is no reason to stop: the comparison is at the same epoch."""
        generator = torch.Generator().manual_seed(0)
        data = data_of()
        random = data.train.with_labels(torch.randint(4, (200,), generator=generator))
        learner = network(epochs=200, fewest_epochs=150)
        learner.config = learner.config.model_copy(update={"batch_size": 200})
        (probs,) = learner.predict_stages(replace(data, train=random), [test_examples()], 0)
        before = [stage for stage in learner.stages if stage <= 150]
        assert all(not torch.equal(one, other) for one, other in pairwise(probs[: len(before)]))

    def test_plain_training_goes_on_to_the_end(self):
        (probs,) = network(epochs=40).predict_stages(data_of(noisy=True), [test_examples()], 0)
        assert all(not torch.equal(one, other) for one, other in pairwise(probs))


def test_an_ensemble_averages_probabilities():
    data, examples = data_of(noisy=True), test_examples()
    inputs = torch.from_numpy(inputs_of(examples, data.normalization))
    members = [learner.fit(data, 1, 0) for learner in (Linear(), Trees(), Neighbors())]
    mean = torch.stack([member(inputs).softmax(1) for member in members]).mean(0)
    torch.testing.assert_close(Ensemble(members)(inputs).softmax(1), mean)


def test_a_class_that_nothing_predicts_has_a_finite_logit():
    data = data_of()
    data = data.subset(data.train.labels < 2)
    model = Trees().fit(data, 0, 0)
    assert isinstance(model, FittedEstimator)
    logits = model(torch.zeros(2, 6))
    assert logits.isfinite().all()
    assert logits.softmax(1)[:, 2:].max() < 1e-30
