import torch

from noisebound.training.objective import mix_up


def test_examples_and_labels_are_blended_alike():
    x, y = torch.eye(6), torch.arange(6)
    mixed, targets = mix_up(x, y, 6, torch.Generator().manual_seed(3))
    # with one-hot inputs that are their labels, both blends are the same
    torch.testing.assert_close(mixed, targets)
    torch.testing.assert_close(targets.sum(1), torch.ones(6))
    assert ((targets > 0).sum(1) <= 2).all()


def test_shares_are_even():
    generator = torch.Generator().manual_seed(0)
    shares = torch.stack(
        [mix_up(torch.eye(2), torch.arange(2), 2, generator)[1].max() for _ in range(3000)]
    )
    # half of the time both are exchanged: of λ, max(λ, 1-λ) is seen, even in [1/2, 1]; else 1
    mixed = shares[shares < 1]
    assert abs(len(mixed) - 1500) < 4 * (3000 / 4) ** 0.5
    assert abs(mixed.mean() - 0.75) < 4 * (1 / 48 / len(mixed)) ** 0.5
