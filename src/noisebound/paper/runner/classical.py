"""Peers without a network of their own: logistic regression, nearest neighbors, cleanlab.

They get the inputs that the networks get, normalized alike, and the same training examples; those
of validation are left out. What they choose, they choose by noisy labels: the strength of a penalty
by cross-validation, the number of neighbors by leaving one example out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from noisebound.data import Dataset, Normalization, Splits
from noisebound.errors import DataError
from noisebound.estimation import UnknownNoise
from noisebound.files import fingerprint, write_json
from noisebound.paper.protocol.contenders import Learner
from noisebound.runs.folder import RunFolder
from noisebound.runs.result import RunResult, write_result
from noisebound.training import EpochMetrics, TrainingConfig
from noisebound.training.data import split_validation

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

Vectors: TypeAlias = Float[Tensor, "n features"]
OtherVectors: TypeAlias = Float[Tensor, "m features"]
Labels: TypeAlias = Int64[Tensor, " n"]

PENALTIES = tuple(10 ** (power / 2) for power in range(-10, 5))
"""Values of scikit-learn's C: from 1e-5 to 1e2, two in each power of ten."""
_PATIENCE = 2  # values of C without improvement, after which larger ones are not tried
_CHOICE_FOLDS = 3
_CLEANLAB_FOLDS = 5  # cleanlab's own default
_ITERATIONS = 200  # of L-BFGS: about five times what the penalties take that are chosen
_TOLERANCE = 1e-3  # of the gradient, which settles the accuracy to about 0.1 points

NEIGHBORS = (1, 5, 10, 20, 50, 100, 200)
_JUDGES = 5_000  # examples that are left out, one by one, to choose the number of neighbors
_QUERIES = 500  # at once: their similarities to 50,000 examples take 100 MB
_TIE = 1e-6  # less than a vote: of classes with as many votes, the one with nearer voters


@dataclass(frozen=True, eq=False)
class Learned:
    """What a learner predicts after training.

    Args:
        test: the predicted classes of the test examples
        train: the predicted classes of some or all training examples; a neighbor has no vote on
            itself
        asked: the positions of these
        settings: what was chosen by noisy labels, and the accuracy there
    """

    test: Int64[Tensor, " m"]
    train: Int64[Tensor, " asked"]
    asked: Int64[Tensor, " asked"]
    settings: dict[str, float]

    def memorized(self, train: Dataset) -> float | None:
        """Return the share of the wrong labels that are predicted; None if none is known."""
        if train.true_labels is None:
            return None
        labels, true = train.labels[self.asked], train.true_labels[self.asked]
        is_wrong = labels != true
        return _share((self.train == labels)[is_wrong]) if is_wrong.any() else None


def learn_classically(
    learner: Learner, splits: Splits, training: TrainingConfig, folder: RunFolder, identity: str
) -> None:
    """Train a learner that is no network, and write what came of it into the run's folder.

    Args:
        learner: what learns
        splits: the data, whose test examples have clean labels
        training: says which examples validation keeps, and the seed
        folder: the run's
        identity: the hash of the run's config
    """
    data, _ = split_validation(splits, training)
    train, test = data.train, data.test
    if test is None:
        raise DataError(f"{splits.source} has no test examples to evaluate on")
    x, test_x = (_inputs(part, data.normalization) for part in (train, test))
    learned = _LEARNERS[learner](x, train.labels, test_x, training.seed)
    write_json(folder.learner, learned.settings)
    accuracy, memorized = _share(learned.test == test.labels), learned.memorized(train)
    metrics = EpochMetrics(
        epoch=1,
        learning_rate=0.0,
        train_loss=_share(learned.train != train.labels[learned.asked]),
        test_top1=accuracy,
        memorized=memorized,
        averaged_test_top1=accuracy,  # there are no steps to average over
        averaged_memorized=memorized,
    )
    result = RunResult.of(
        identity=identity,
        inputs=train.rows.fingerprint(),
        chosen=None,
        noise=UnknownNoise(train.num_classes),
        floor=None,
        history=[metrics],
    )
    write_result(folder, result)


def logistic(x: Vectors, labels: Labels, test: OtherVectors, seed: int) -> Learned:
    """Return a multinomial logistic regression whose penalty is chosen by cross-validation."""
    penalty, accuracy = choose_penalty(x, labels, seed)
    model = _regression(penalty).fit(x.numpy(), labels.numpy())
    return _predicted(model.predict, x, test, {"C": penalty, "accuracy": accuracy})


def cleanlab(x: Vectors, labels: Labels, test: OtherVectors, seed: int) -> Learned:
    """Return cleanlab's CleanLearning around the same logistic regression."""
    from cleanlab.classification import CleanLearning

    penalty, accuracy = choose_penalty(x, labels, seed)
    model = CleanLearning(
        _regression(penalty),
        seed=seed,
        cv_n_folds=_CLEANLAB_FOLDS,
        find_label_issues_kwargs={"n_jobs": 1},  # a worker keeps to its own core
    )
    model.fit(x.numpy(), labels.numpy())
    pruned = float(model.get_label_issues()["is_label_issue"].mean())
    return _predicted(
        model.predict, x, test, {"C": penalty, "accuracy": accuracy, "pruned": pruned}
    )


def neighbors(x: Vectors, labels: Labels, test: OtherVectors, seed: int) -> Learned:
    """Return the votes of the nearest training examples by cosine similarity.

    Their number is the one whose votes predict most labels of training examples that have no vote
    on themselves.
    """
    x, test = F.normalize(x), F.normalize(test)
    generator = torch.Generator().manual_seed(seed)
    judges = torch.randperm(len(x), generator=generator)[:_JUDGES]
    counts = [count for count in NEIGHBORS if count < len(x)]
    classes = int(labels.max()) + 1
    voters = labels[_nearest(x, x[judges], counts[-1], without=judges)]
    votes = {count: _votes(voters, count, classes) for count in counts}
    right = {count: _share(votes[count] == labels[judges]) for count in counts}
    best = max(right, key=right.__getitem__)
    predicted = _votes(labels[_nearest(x, test, best)], best, classes)
    return Learned(predicted, votes[best], judges, {"k": best, "accuracy": right[best]})


_LEARNERS: dict[Learner, Callable[[Vectors, Labels, OtherVectors, int], Learned]] = {
    "logistic": logistic,
    "neighbors": neighbors,
    "cleanlab": cleanlab,
}


def choose_penalty(x: Vectors, labels: Labels, seed: int) -> tuple[float, float]:
    """Return the value of C that predicts most noisy labels out of fold, and their share.

    It is searched once per process: cleanlab's run follows on that of logistic regression.
    """
    key = f"{fingerprint(x)} {fingerprint(labels)} {seed}"
    if key not in _chosen_penalties:
        _chosen_penalties[key] = _search_penalty(x.numpy(), labels.numpy(), seed)
    return _chosen_penalties[key]


_chosen_penalties: dict[str, tuple[float, float]] = {}


def _search_penalty(
    x: NDArray[np.float32], labels: NDArray[np.int64], seed: int
) -> tuple[float, float]:
    """Try ever larger values of C, which fit ever more closely, until they only do worse."""
    from sklearn.model_selection import KFold

    folds = list(KFold(_CHOICE_FOLDS, shuffle=True, random_state=seed).split(x))
    # Each fold's weights are where its search begins with the next value of C.
    models = [_regression(PENALTIES[0]).set_params(warm_start=True) for _ in folds]
    best, most, worse = PENALTIES[0], 0.0, 0
    for penalty in PENALTIES:
        scores = [
            model.set_params(C=penalty)
            .fit(x[inside], labels[inside])
            .score(x[outside], labels[outside])
            for model, (inside, outside) in zip(models, folds, strict=True)
        ]
        accuracy = float(np.mean(scores))
        if accuracy > most:
            best, most, worse = penalty, accuracy, 0
            continue
        worse += 1
        if worse == _PATIENCE:
            break
    return best, most


def _regression(penalty: float) -> "LogisticRegression":
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=penalty, max_iter=_ITERATIONS, tol=_TOLERANCE)


def _predicted(
    predict: Callable[[NDArray[np.float32]], NDArray[np.int64]],
    x: Vectors,
    test: OtherVectors,
    settings: dict[str, float],
) -> Learned:
    train, unseen = (torch.from_numpy(predict(part.numpy())) for part in (x, test))
    return Learned(unseen, train, torch.arange(len(x)), settings)


def _nearest(
    x: Vectors, queries: OtherVectors, count: int, without: Int64[Tensor, " m"] | None = None
) -> Int64[Tensor, "m neighbors"]:
    """Return the positions of the nearest examples, the nearest first.

    Args:
        x: the examples, of length one
        queries: the vectors whose neighbors are sought, of length one
        count: how many neighbors each has
        without: for each query the example that it is itself; None if it is none of them
    """
    found = []
    for start in range(0, len(queries), _QUERIES):
        similarity = queries[start : start + _QUERIES] @ x.T
        if without is not None:
            similarity.scatter_(1, without[start : start + _QUERIES, None], -torch.inf)
        found.append(similarity.topk(count, dim=1).indices)
    return torch.cat(found)


def _votes(labels: Int64[Tensor, "n neighbors"], count: int, classes: int) -> Labels:
    """Return the class that most of the first neighbors have; of several the one nearer by."""
    voters = labels[:, :count]
    worth = 1 - _TIE * torch.arange(voters.shape[1], dtype=torch.float64)
    votes = torch.zeros(len(labels), classes, dtype=torch.float64)
    return votes.scatter_add_(1, voters, worth.expand(voters.shape)).argmax(1)


def _inputs(part: Dataset, normalization: Normalization) -> Vectors:
    return normalization(part.dense_inputs)


def _share(hits: Bool[Tensor, " n"]) -> float:
    return hits.double().mean().item()
