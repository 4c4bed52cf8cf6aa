"""f and f⁻¹ are inverse to each other on the whole simplex, and are those of the paper."""

import pytest
import torch
from hypothesis import given, strategies as st

import noisebound as nb
from all_losses import CLASSES, RATE, SYMMETRIC, TRANSITION
from distributions import distributions
from noisebound.noise_models import Identity, Linear, Power, Saturating, Symmetric

MODELS = [
    Identity(),
    Linear(TRANSITION),
    Symmetric(RATE, CLASSES),
    Power(0.4),
    Power(0.9),
    Saturating(8.0),
    Saturating(0.0),
    Saturating(1e6),
]
every_model = pytest.mark.parametrize("model", MODELS, ids=repr)


@every_model
@given(q=distributions(CLASSES))
def test_inverse_undoes_forward(model, q):
    torch.testing.assert_close(model.inverse(model.forward(q)), q, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    "model", [model for model in MODELS if not isinstance(model, Linear | Symmetric)], ids=repr
)
@given(p=distributions(CLASSES))
def test_forward_undoes_inverse_and_both_stay_on_the_simplex(model, p):
    """This does not hold for T, which maps to a part of the simplex only."""
    clean = model.inverse(p)
    assert (clean >= 0).all()
    torch.testing.assert_close(clean.sum(), torch.tensor(1.0, dtype=torch.float64))
    torch.testing.assert_close(model.forward(clean), p, rtol=1e-7, atol=1e-9)


@every_model
def test_batches_and_gradients(model):
    p = torch.rand(2, 3, CLASSES, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    p /= p.sum(-1, keepdim=True)
    for f in (model.forward, model.inverse):
        torch.testing.assert_close(f(p)[1, 2], f(p[1, 2]))
        assert torch.autograd.gradcheck(f, p.clone().requires_grad_())


def test_saturating_solves_for_lambda_as_the_paper_states_it():
    """Σ p_i / (λ - A p_i) = 1, with λ recovered from any class: λ = p_i (A + 1/q_i)."""
    p = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
    q = Saturating(8.0).inverse(p)
    lam = p * (8.0 + 1 / q)
    torch.testing.assert_close(lam, lam[:1].expand(3))


@given(st.floats(0.001, 0.999), st.integers(2, 1000))
def test_saturating_agrees_with_the_quadratic_of_symmetric_noise(rate, num_classes):
    """For u_sym λ solves a quadratic (paper, "Explicit Bounds")."""
    A, wrong = 8.0, rate / (num_classes - 1)
    # (1-η)(λ - A r) + (c-1) r (λ - A(1-η)) = (λ - A(1-η))(λ - A r)
    linear = -(A * (1 - rate) + A * wrong + 1)
    constant = A**2 * (1 - rate) * wrong + A * wrong * (1 - rate) + A * rate * (1 - rate)
    lam = (-linear + (linear**2 - 4 * constant) ** 0.5) / 2
    noise = torch.tensor([1 - rate] + [wrong] * (num_classes - 1), dtype=torch.float64)
    expected = noise / (lam - A * noise)
    torch.testing.assert_close(Saturating(A).inverse(noise), expected, rtol=1e-8, atol=1e-10)


def test_vertices_and_the_center_are_fixed_points():
    points = torch.cat([torch.eye(4), torch.full((1, 4), 0.25)]).double()
    for model in (Power(0.4), Power(0.999), Saturating(8.0), Saturating(1e9)):
        torch.testing.assert_close(model.forward(points), points)
        torch.testing.assert_close(model.inverse(points), points)


def test_symmetric_is_linear():
    q = torch.softmax(torch.randn(7, CLASSES, dtype=torch.float64), dim=1)
    closed, general = Symmetric(RATE, CLASSES), Linear(SYMMETRIC)
    torch.testing.assert_close(closed.transition, general.transition)
    torch.testing.assert_close(closed.forward(q), general.forward(q))
    torch.testing.assert_close(closed.inverse(q), general.inverse(q))


def test_losses_know_their_noise_model():
    q = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)
    torch.testing.assert_close(nb.CrossEntropy().noise_model.forward(q), q)
    torch.testing.assert_close(
        nb.ForwardCrossEntropy.symmetric(0.3, 3).noise_model.forward(q), 0.55 * q + 0.15
    )
    assert nb.MeanAbsoluteError().noise_model is None


def test_lists_are_taken_in_float64():
    assert Power(0.4).inverse([0.5, 0.5]).dtype == torch.float64
    assert Saturating(8.0).inverse(torch.tensor([1, 0])).tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Power(1.0), r"`a` must lie in \(0, 1\)"),
        (lambda: Power(0.0), "`a` must lie in"),
        (lambda: Saturating(-1.0), "`A` must lie in"),
        (lambda: Linear([[0.5, 0.5], [0.5, 0.5]]).inverse([0.5, 0.5]), "singular"),
        (lambda: Symmetric(0.9, 10).inverse([0.1] * 10), "singular"),
    ],
)
def test_singular_models_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
