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


def hinge():
    def formula(q, y):
        logits = np.log(q)
        return max(0.0, 1 - logits[y] + max(np.delete(logits, y)))

    return per_example(formula)


def curriculum(rate, base):
    def batch(q, y):
        losses = base(q, y)
        mistakes = sum(np.argmax(row) != label for row, label in zip(q, y, strict=True))
        threshold = (1 - rate) ** 2 * len(y) + (1 - rate) * mistakes
        kept, total = np.zeros(len(y)), 0.0
        for position, i in enumerate(np.argsort(losses), start=1):
            total += losses[i]
            kept[i] = total <= threshold + 1 - position
        return kept * losses

    return batch


def focal(gamma):
    return per_example(lambda q, y: (1 - q[y]) ** gamma * -np.log(q[y]))


def reverse(A):
    def formula(q, y):
        log_label = np.full(len(q), -A)
        log_label[y] = 0
        return -np.sum(q * log_label)

    return per_example(formula)


def normalized_by_sum(reference):
    """Divide a loss by its sum over the classes."""

    def batch(q, y):
        by_class = [reference(q, np.full(len(y), k)) for k in range(q.shape[1])]
        return reference(q, y) / np.sum(by_class, axis=0)

    return batch


def weighted_sum(alpha, first, beta, second):
    return lambda q, y: alpha * first(q, y) + beta * second(q, y)


def asymmetric_generalized(a, exponent):
    return per_example(lambda q, y: ((a + 1) ** exponent - (a + q[y]) ** exponent) / exponent)


def asymmetric_unhinged(a, exponent):
    return per_example(lambda q, y: ((a - q[y]) ** exponent - (a - 1) ** exponent) / exponent)


def asymmetric_exponential(a):
    return per_example(lambda q, y: np.exp(-q[y] / a))


def taylor(order):
    return per_example(lambda q, y: sum((1 - q[y]) ** i / i for i in range(1, order + 1)))


def jensen_shannon(label_weight):
    """Both Kullback-Leibler divergences to the mixture, weighted."""

    def divergence(first, second):
        present = first > 0
        return np.sum(first[present] * np.log(first[present] / second[present]))

    def formula(q, y):
        label = np.eye(len(q))[y]
        mixture = label_weight * label + (1 - label_weight) * q
        total = label_weight * divergence(label, mixture)
        total += (1 - label_weight) * divergence(q, mixture)
        return total / -((1 - label_weight) * np.log(1 - label_weight))

    return per_example(formula)


def label_smoothing(smoothing):
    def formula(q, y):
        label = (1 - smoothing) * np.eye(len(q))[y] + smoothing / len(q)
        return -np.sum(label * np.log(q))

    return per_example(formula)


def label_distributionally_robust(lam, margin):
    def formula(q, y):
        logits = np.log(q)
        margins = logits - logits[y] + margin * (np.arange(len(q)) != y)
        return lam * np.log(np.mean(np.exp(margins / lam)))

    return per_example(formula)
