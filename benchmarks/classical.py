"""Logistic regression, nearest neighbors and cleanlab on the inputs that networks get.

They choose by noisy labels: the penalty by cross-validation, the number of neighbors by leaving one
example out.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch
from cleanlab.classification import CleanLearning
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from torch import Tensor
from torch.nn import functional as F

PENALTIES = tuple(10 ** (power / 2) for power in range(-10, 5))
"""Values of scikit-learn's C: from 1e-5 to 1e2, two in each power of ten."""
NEIGHBORS = (1, 5, 10, 20, 50, 100, 200)
_JUDGES = 5_000  # examples that are left out, one by one, to choose the number of neighbors
_QUERIES = 500  # at once: their similarities to 50,000 examples take 100 MB
_TIE = 1e-6  # less than a vote: of classes with equal votes, the one with nearer voters wins

Array = NDArray[np.float32]
Learner = Callable[[Tensor, Tensor, Tensor, int], Tensor]


def logistic(x: Tensor, labels: Tensor, test: Tensor, seed: int) -> Tensor:
    """Return the test classes of a logistic regression whose C is chosen by cross-validation."""
    model = _regression(choose_penalty(x, labels, seed)).fit(x.numpy(), labels.numpy())
    return torch.from_numpy(model.predict(test.numpy()))


def cleanlab(x: Tensor, labels: Tensor, test: Tensor, seed: int) -> Tensor:
    """Return the test classes of cleanlab's CleanLearning around the same regression."""
    regression = _regression(choose_penalty(x, labels, seed))
    model = CleanLearning(regression, seed=seed, find_label_issues_kwargs={"n_jobs": 1})
    model.fit(x.numpy(), labels.numpy())
    return torch.from_numpy(np.asarray(model.predict(test.numpy())))


def neighbors(x: Tensor, labels: Tensor, test: Tensor, seed: int) -> Tensor:
    """Return the votes of the nearest training examples by cosine similarity.

    Their number is the one whose votes predict most labels of examples without their own vote.
    """
    x, test, classes = F.normalize(x), F.normalize(test), int(labels.max()) + 1
    generator = torch.Generator().manual_seed(seed)
    judges = torch.randperm(len(x), generator=generator)[:_JUDGES]
    counts = [count for count in NEIGHBORS if count < len(x)]
    voters = labels[_nearest(x, x[judges], counts[-1], without=judges)]
    right = {
        count: (_votes(voters, count, classes) == labels[judges]).double().mean().item()
        for count in counts
    }
    best = max(right, key=right.__getitem__)
    return _votes(labels[_nearest(x, test, best)], best, classes)


LEARNERS: dict[str, Learner] = {
    "logistic": logistic,
    "neighbors": neighbors,
    "cleanlab": cleanlab,
}


def choose_penalty(x: Tensor, labels: Tensor, seed: int) -> float:
    """Return the value of C that predicts most noisy labels out of fold."""
    return _search(x.numpy().tobytes(), tuple(x.shape), labels.numpy().tobytes(), seed)


@lru_cache(maxsize=2)  # cleanlab often follows on logistic regression, with the same inputs
def _search(inputs: bytes, shape: tuple[int, ...], targets: bytes, seed: int) -> float:
    """Try ever larger values of C, which fit ever more closely, until two of them do worse."""
    x = np.frombuffer(inputs, dtype=np.float32).reshape(shape)
    labels = np.frombuffer(targets, dtype=np.int64)
    folds = list(KFold(3, shuffle=True, random_state=seed).split(x))
    # Each fold's weights are where its search begins with the next value of C.
    models = [_regression(PENALTIES[0]).set_params(warm_start=True) for _ in folds]
    best, most, worse = PENALTIES[0], 0.0, 0
    for penalty in PENALTIES:
        scores = [
            model.set_params(C=penalty).fit(x[inside], labels[inside]).score(x[out], labels[out])
            for model, (inside, out) in zip(models, folds, strict=True)
        ]
        if np.mean(scores) > most:
            best, most, worse = penalty, float(np.mean(scores)), 0
            continue
        worse += 1
        if worse == 2:
            break
    return best


def _regression(penalty: float) -> LogisticRegression:
    return LogisticRegression(C=penalty, max_iter=200, tol=1e-3)


def _nearest(x: Tensor, queries: Tensor, count: int, without: Tensor | None = None) -> Tensor:
    """Return the nearest examples, the nearest first; `without` is each query's own position."""
    found = []
    for start in range(0, len(queries), _QUERIES):
        similarity = queries[start : start + _QUERIES] @ x.T
        if without is not None:
            similarity.scatter_(1, without[start : start + _QUERIES, None], -torch.inf)
        found.append(similarity.topk(count, dim=1).indices)
    return torch.cat(found)


def _votes(labels: Tensor, count: int, classes: int) -> Tensor:
    """Return the class that most of the first neighbors have; of several the one nearer by."""
    voters = labels[:, :count]
    worth = 1 - _TIE * torch.arange(voters.shape[1], dtype=torch.float64)
    votes = torch.zeros(len(labels), classes, dtype=torch.float64)
    return votes.scatter_add_(1, voters, worth.expand(voters.shape)).argmax(1)
