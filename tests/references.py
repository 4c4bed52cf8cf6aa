"""Every loss in numpy, slowly and from the papers' formulas.

Each function returns a function of probabilities ``[N, C]`` and labels ``[N]``: the losses ``[N]``.
"""

import numpy as np


def per_example(formula):
    return lambda q, y: np.array([formula(row, label) for row, label in zip(q, y, strict=True)])


def cross_entropy():
    return per_example(lambda q, y: -np.log(q[y]))


def forward(transition):
    return per_example(lambda q, y: -np.log((transition @ q)[y]))


def backward(transition):
    # E[L(q, noisy) | true] = -log q_true for every true class, so L solves Tᵀ L = -log q.
    return per_example(lambda q, y: np.linalg.solve(transition.T, -np.log(q))[y])


def generalized(a):
    return per_example(lambda q, y: (1 - q[y] ** a) / a)


def symmetric(A):
    return per_example(lambda q, y: -np.log(q[y]) + A * (1 - q[y]))


def prior(rate):
    def formula(q, y):
        p = np.full(len(q), rate / (len(q) - 1))
        p[0] = 1 - rate
        return -np.log(q[y]) - np.sum(p * np.log(np.sort(q)[::-1]))

    return per_example(formula)


def squared():
    return per_example(lambda q, y: np.sum((q - np.eye(len(q))[y]) ** 2))


def absolute():
    return per_example(lambda q, y: 1 - q[y])


def normalized(alpha, beta):
    return per_example(lambda q, y: alpha * np.log(q[y]) / np.sum(np.log(q)) + beta * (1 - q[y]))


def spherical():
    return per_example(lambda q, y: -q[y] / np.linalg.norm(q))


def soft_bootstrap(beta):
    def formula(q, y):
        target = beta * np.eye(len(q))[y] + (1 - beta) * q
        return -np.sum(target * np.log(q))

    return per_example(formula)


def hard_bootstrap(beta):
    def formula(q, y):
        target = beta * np.eye(len(q))[y] + (1 - beta) * np.eye(len(q))[np.argmax(q)]
        return -np.sum(target * np.log(q))

    return per_example(formula)


def truncated(exponent, k):
    return per_example(
        lambda q, y: (1 - q[y] ** exponent) / exponent - (1 - k**exponent) / exponent
    )


def early_learning(lam, beta):
    """Return the loss when an example is seen first, and its target is (1-beta) q."""
    return per_example(lambda q, y: -np.log(q[y]) + lam * np.log(1 - np.dot((1 - beta) * q, q)))


def curriculum(rate):
    def batch(q, y):
        losses = np.array([-np.log(row[label]) for row, label in zip(q, y, strict=True)])
        mistakes = sum(np.argmax(row) != label for row, label in zip(q, y, strict=True))
        threshold = (1 - rate) ** 2 * len(y) + (1 - rate) * mistakes
        kept, total = np.zeros(len(y)), 0.0
        for position, i in enumerate(np.argsort(losses), start=1):
            total += losses[i]
            kept[i] = total <= threshold + 1 - position
        return kept * losses

    return batch
