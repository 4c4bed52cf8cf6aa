"""The theorems about the bound hold for every loss."""

import math
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch.nn import functional as F

import noisebound as nb
from all_losses import ALL_LOSSES, CLASSES, RATE, SYMMETRIC, TRANSITION, WITH_ENTROPY
from distributions import batches, batches_of_noise

KNOWN = [case for case in WITH_ENTROPY if case.entropy == "known"]
# These take noise out of the labels, so that they have no floor where there is too little of it.
CORRECTING = ("backward", "backward-symmetric", "nls")
FREE = [case for case in KNOWN if case.name not in CORRECTING]  # entropy on the whole simplex
HAS_NOISE_MODEL = [case for case in KNOWN if case.make().noise_model is not None]
every_known = pytest.mark.parametrize("case", KNOWN, ids=repr)
every_free = pytest.mark.parametrize("case", FREE, ids=repr)
pytestmark = [
    pytest.mark.filterwarnings("ignore::noisebound.NoiseRateWarning"),
    # Hard bootstrapping has several minima, of which one search alone may find the least.
    pytest.mark.filterwarnings("ignore::noisebound.BoundSearchWarning"),
]


def expected_loss(loss, p, q):
    """Return ``p · L(q)`` of each row, from the losses of one example per class."""
    logits = q.log().clamp(min=-1e4).repeat_interleave(CLASSES, 0)
    with torch.no_grad():
        losses = loss.reduced("none", logits, torch.arange(CLASSES).repeat(len(q)))
    return (p * losses.view(len(q), CLASSES)).sum(1)


class TestTheorems:
    """Each example that hypothesis draws is a batch of distributions."""

    few = settings(max_examples=6)

    @every_free
    @few
    @given(p=batches(CLASSES), q=batches(CLASSES))
    def test_no_prediction_is_expected_below_the_entropy(self, case, p, q):
        """Lemma "general": the noisy risk is at least the entropy of the noisy labels."""
        loss = case.make()
        assert (expected_loss(loss, p, q) >= nb.entropy(loss, p) - 1e-7).all()

    @pytest.mark.parametrize("case", HAS_NOISE_MODEL, ids=repr)
    @few
    @given(clean=batches(CLASSES), other=batches(CLASSES))
    def test_base_loss_is_proper(self, case, clean, other):
        """Among predictions seen through f, the truth has the least expected loss."""
        loss = case.make()
        p = loss.noise_model.forward(clean)
        at_truth = expected_loss(loss, p, clean)
        assert (at_truth <= expected_loss(loss, p, other) + 1e-7).all()
        torch.testing.assert_close(at_truth, nb.entropy(loss, p), rtol=0, atol=1e-6)

    @every_free
    @few
    @given(p=batches(CLASSES), q=batches(CLASSES), share=st.floats(0, 1))
    def test_entropy_is_concave(self, case, p, q, share):
        loss = case.make()
        mixture = nb.entropy(loss, share * p + (1 - share) * q)
        below = share * nb.entropy(loss, p) + (1 - share) * nb.entropy(loss, q)
        assert (mixture >= below - 1e-9).all()

    @every_free
    @few
    @given(p=batches(CLASSES), order=st.permutations(range(CLASSES)))
    def test_entropy_does_not_depend_on_the_order_of_classes(self, case, p, order):
        loss = case.make()
        torch.testing.assert_close(nb.entropy(loss, p), nb.entropy(loss, p[:, list(order)]))

    @every_free
    @few
    @given(drawn=batches_of_noise(CLASSES))
    def test_every_noise_of_a_rate_lies_in_the_interval(self, case, drawn):
        rates, noise = drawn
        loss = case.make()
        low, high = nb.entropy_interval(loss, rates, CLASSES)
        entropies = nb.entropy(loss, noise)
        assert ((low - 1e-9 <= entropies) & (entropies <= high + 1e-9)).all()

    @every_free
    def test_bound_is_the_upper_end_of_the_interval(self, case):
        loss = case.make()
        rates = torch.linspace(0, 0.99, 100, dtype=torch.float64)
        _, high = nb.entropy_interval(loss, rates, CLASSES)
        assert torch.equal(high, nb.noise_bound(loss, rates, CLASSES))

    @every_free
    @few
    @given(st.lists(st.floats(0, 0.99), min_size=1, max_size=6))
    def test_jensen_over_nonuniform_rates(self, case, several):
        """Corollary "worst case": of all rates with the same mean, equal ones are the worst."""
        loss = case.make()
        mean_rate = sum(several) / len(several)
        highest = nb.noise_bound(loss, mean_rate, CLASSES)
        assert nb.nonuniform_bound(loss, several, CLASSES) <= highest + 1e-9

    @every_known
    @few
    @given(q=batches(CLASSES))
    def test_noisy_risk_of_an_estimator_is_not_below_the_bound(self, case, q):
        """With symmetric noise on separable data, no prediction has a risk below the bound."""
        loss = case.make()
        bound = nb.noise_bound(loss, RATE, CLASSES) if loss.treats_classes_alike else 0.0
        transition = torch.tensor(TRANSITION if case.name == "backward" else SYMMETRIC)
        true = torch.arange(len(q)) % CLASSES  # q holds several predictions for each true class
        risks = expected_loss(loss, transition[:, true].T, q)
        assert risks.view(-1, CLASSES).mean(1).min() >= bound - 1e-7


class TestPaper:
    def test_worked_example(self):
        """Of two classes, 40 % are wrong: CE can reach 0 and FCE 0.511; the floor is 0.673."""
        confident, right = torch.tensor([[100.0, -100.0]]), torch.tensor([0])
        fce = nb.ForwardCrossEntropy.symmetric(0.4, 2)
        assert nb.CrossEntropy()(confident, right).item() == pytest.approx(0, abs=1e-9)
        assert fce(confident, right).item() == pytest.approx(0.511, abs=5e-4)
        for loss in (nb.CrossEntropy(), fce):
            assert nb.noise_bound(loss, 0.4, 2) == pytest.approx(0.673, abs=5e-4)
        bounded = nb.NoiseBoundedLoss(fce, 0.4, 2)
        assert bounded.bound == pytest.approx(0.673, abs=5e-4)

    @pytest.mark.parametrize("num_classes", [2, 10, 47, 200])
    @pytest.mark.parametrize("rate", [0.1, 0.4, 0.49])
    def test_explicit_bounds(self, rate, num_classes):
        """The appendix has formulas for GCE and SCE; λ is found by bisection here."""
        a, A, wrong = 0.4, 8.0, rate / (num_classes - 1)
        powers = (1 - rate) ** (1 / (1 - a)), wrong ** (1 / (1 - a))
        total = powers[0] + (num_classes - 1) * powers[1]
        gce = (1 - rate) / a * (1 - (powers[0] / total) ** a)
        gce += rate / a * (1 - (powers[1] / total) ** a)
        assert nb.noise_bound(nb.GeneralizedCrossEntropy(a=a), rate, num_classes) == pytest.approx(
            gce, abs=1e-12
        )
        low, high = A * (1 - rate), 1 + A * (1 - rate)
        for _ in range(200):
            lam = (low + high) / 2
            sum_of_q = (1 - rate) / (lam - A * (1 - rate)) + rate / (lam - A * wrong)
            low, high = (lam, high) if sum_of_q > 1 else (low, lam)
        likely, unlikely = (1 - rate) / (lam - A * (1 - rate)), wrong / (lam - A * wrong)
        sce = (1 - rate) * (-math.log(likely) + A * (1 - likely))
        sce += rate * (-math.log(unlikely) + A * (1 - unlikely))
        assert nb.noise_bound(nb.SymmetricCrossEntropy(A=A), rate, num_classes) == pytest.approx(
            sce, abs=1e-9
        )

    def test_closed_forms(self):
        rate, c = 0.4, 10
        u = np.array([0.6] + [0.4 / 9] * 9)
        shannon = -(u * np.log(u)).sum()
        bounds = {
            "ce": shannon,
            "fce": shannon,
            "cep": 2 * shannon,
            "mse": 1 - (u**2).sum(),
            "spherical": -np.linalg.norm(u),
            "mae": 0.4,
            "nce-mae": 0.4 / 9 + 0.4,
            "backward": 0.0,
        }
        for name, expected in bounds.items():
            loss = nb.create_loss(name, noise_rate=rate, num_classes=c)
            assert nb.noise_bound(loss, rate, c) == pytest.approx(expected, abs=1e-12), name

    def test_entropy_of_gce_and_sce_is_less_sensitive_to_structure(self):
        """Paper, "Sensitivity of Bounds": the ratio of the interval's ends is largest for CE."""
        losses = (nb.CrossEntropy(), nb.SymmetricCrossEntropy(), nb.GeneralizedCrossEntropy())
        for c in (10, 200):
            ratios = [high / low for low, high in (nb.entropy_interval(x, 0.4, c) for x in losses)]
            assert ratios[0] > max(ratios[1:])

    def test_nonuniform_emnist_uses_two_classes(self):
        """A rate of 0.6 with c = 2 is above (c-1)/c, which works with a warning."""
        with pytest.warns(nb.NoiseRateWarning, match="no longer the likeliest"):
            bound = nb.noise_bound(nb.CrossEntropy(), 0.6, 2)
        assert bound == pytest.approx(0.673, abs=5e-4)


class TestFewerClassesInTheBound:
    """Noise between two classes out of many is bounded with c = 2."""

    @pytest.mark.parametrize("rate", [0.3, 0.4, 0.6])
    @pytest.mark.parametrize("name", ["ce", "fce", "gce", "sce", "cep"])
    def test_is_the_bound_of_two_classes(self, name, rate):
        many = nb.create_loss(name, noise_rate=rate, num_classes=47)
        two = nb.create_loss(name, noise_rate=rate, num_classes=2)
        assert nb.noise_bound(many, rate, 2) == pytest.approx(nb.noise_bound(two, rate, 2))

    def test_of_cep_is_twice_shannons_entropy(self):
        shannon = nb.noise_bound(nb.CrossEntropy(), 0.6, 2)
        for num_classes in (2, 47):
            loss = nb.PriorCrossEntropy(0.6, num_classes)
            assert nb.noise_bound(loss, 0.6, 2) == pytest.approx(2 * shannon)

    def test_of_the_backward_correction_is_refused(self):
        with pytest.raises(ValueError, match="made for 47 classes"):
            nb.noise_bound(nb.BackwardCrossEntropy.symmetric(0.3, 47), 0.3, 2)


class TestBackward:
    """The backward correction is unbiased, so its floor is the clean entropy."""

    def test_is_zero_on_separable_data(self):
        loss = nb.BackwardCrossEntropy(TRANSITION)
        assert nb.transition_bound(loss, TRANSITION) == pytest.approx(0, abs=1e-12)

    def test_is_the_entropy_of_the_clean_labels(self):
        clean = torch.tensor([0.5, 0.25, 0.25, 0.0, 0.0], dtype=torch.float64)
        loss = nb.BackwardCrossEntropy(TRANSITION)
        noisy = loss.noise_model.forward(clean)
        assert nb.entropy(loss, noisy).item() == pytest.approx(1.5 * math.log(2))

    def test_has_no_minimum_when_it_corrects_more_than_there_is(self):
        with pytest.raises(ValueError, match="no minimum"):
            nb.noise_bound(nb.BackwardCrossEntropy.symmetric(0.4, 10), 0.2, 10)

    def test_needs_the_transition_when_classes_differ(self):
        with pytest.raises(ValueError, match="transition_bound"):
            nb.noise_bound(nb.BackwardCrossEntropy(TRANSITION), 0.3, CLASSES)


class TestTransitionBound:
    def test_of_symmetric_noise_is_the_noise_bound(self):
        for case in FREE:
            loss = case.make()
            assert nb.transition_bound(loss, SYMMETRIC) == pytest.approx(
                nb.noise_bound(loss, RATE, CLASSES)
            )

    def test_weighs_the_columns_by_the_prior(self):
        prior = [0.5, 0.2, 0.1, 0.1, 0.1]
        columns = torch.tensor(TRANSITION.T)
        expected = (torch.tensor(prior) * nb.entropy(nb.CrossEntropy(), columns)).sum().item()
        assert nb.transition_bound(nb.CrossEntropy(), TRANSITION, prior) == pytest.approx(expected)

    def test_refuses_a_prior_that_does_not_fit(self):
        with pytest.raises(ValueError, match=r"shape \(5,\)"):
            nb.transition_bound(nb.CrossEntropy(), TRANSITION, [0.5, 0.5])
        with pytest.raises(ValueError, match="sum to one"):
            nb.transition_bound(nb.CrossEntropy(), TRANSITION, [0.5] * 5)


class TestClassWeights:
    weight = torch.tensor([0.5, 1.0, 2.0, 4.0, 0.25], dtype=torch.float64)
    prior = torch.tensor([0.4, 0.3, 0.1, 0.1, 0.1], dtype=torch.float64)

    def loss(self, smoothing=0.0):
        return nb.CrossEntropy(weight=self.weight, label_smoothing=smoothing)

    def test_need_a_class_prior(self):
        loss = self.loss()
        for refused in (
            lambda: nb.noise_bound(loss, RATE, CLASSES),
            lambda: nb.entropy_interval(loss, RATE, CLASSES),
            lambda: nb.transition_bound(loss, TRANSITION),
            lambda: nb.nonuniform_bound(loss, [RATE], CLASSES),
            lambda: nb.entropy(loss, [0.2] * 5),
            lambda: nb.NoiseBoundedLoss(loss, RATE, CLASSES),
        ):
            with pytest.raises(ValueError, match="class_prior"):
                refused()

    @pytest.mark.parametrize("smoothing", [0.0, 0.2])
    def test_bound_is_the_least_weighted_risk(self, smoothing):
        """Compare the bound with a search over predictions, for torch's weighted mean."""
        noise = torch.tensor(SYMMETRIC)
        logits = torch.zeros(CLASSES, CLASSES, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.LBFGS([logits], max_iter=500, tolerance_grad=1e-10)
        plain = torch.nn.CrossEntropyLoss(
            weight=self.weight, label_smoothing=smoothing, reduction="none"
        )

        def weighted_risk():
            true, noisy = torch.cartesian_prod(torch.arange(CLASSES), torch.arange(CLASSES)).T
            mass = self.prior[true] * noise[noisy, true]
            losses = plain(logits[true], noisy)
            return (mass * losses).sum() / (mass * self.weight[noisy]).sum()

        def closure():
            optimizer.zero_grad()
            risk = weighted_risk()
            risk.backward()
            return risk

        optimizer.step(closure)
        bound = nb.noise_bound(self.loss(smoothing), RATE, CLASSES, class_prior=self.prior)
        assert bound == pytest.approx(weighted_risk().item(), abs=1e-7)

    def test_an_ignored_class_has_weight_zero(self):
        ignoring = nb.CrossEntropy(ignore_index=1)
        weighted = nb.CrossEntropy(weight=[1.0, 0.0, 1.0, 1.0, 1.0])
        with pytest.raises(ValueError, match="class_prior"):
            nb.noise_bound(ignoring, RATE, CLASSES)
        for rate in (0.0, RATE):
            bounds = [nb.noise_bound(x, rate, CLASSES, self.prior) for x in (ignoring, weighted)]
            assert bounds[0] == bounds[1]
            assert math.isfinite(bounds[0])

    def test_an_ignored_label_outside_the_classes_changes_nothing(self):
        ignoring = nb.CrossEntropy(ignore_index=255)
        assert nb.noise_bound(ignoring, RATE, CLASSES) == nb.noise_bound(
            nb.CrossEntropy(), RATE, CLASSES
        )

    def test_equal_weights_change_nothing(self):
        loss = nb.GeneralizedCrossEntropy(weight=torch.full((CLASSES,), 3.0))
        assert nb.noise_bound(loss, RATE, CLASSES, self.prior) == pytest.approx(
            nb.noise_bound(nb.GeneralizedCrossEntropy(), RATE, CLASSES)
        )

    def test_bound_with_a_prior_takes_several_rates(self):
        rates = np.array([0.1, 0.3])
        bounds = nb.noise_bound(self.loss(), rates, CLASSES, self.prior)
        assert bounds.shape == (2,)
        assert bounds[1] == nb.noise_bound(self.loss(), 0.3, CLASSES, self.prior)


def test_label_smoothing_raises_the_floor_to_the_smoothed_entropy():
    smoothed = 0.8 * nb.symmetric_noise(RATE, CLASSES) + 0.2 / CLASSES
    loss = nb.SymmetricCrossEntropy(label_smoothing=0.2)
    assert nb.noise_bound(loss, RATE, CLASSES) == pytest.approx(
        float(nb.entropy(nb.SymmetricCrossEntropy(), smoothed))
    )


class TestAnyLoss:
    """For a loss without a known noise model the bound is its Bayes risk."""

    @staticmethod
    def focal(logits, labels):
        nll = F.cross_entropy(logits, labels, reduction="none")
        return (1 - torch.exp(-nll)) ** 2 * nll

    @staticmethod
    def poly(logits, labels):
        nll = F.cross_entropy(logits, labels, reduction="none")
        return nll + 8.0 * (1 - torch.exp(-nll))

    @pytest.mark.parametrize("num_classes", [2, 10, 300])
    def test_poly_loss_is_sce_found_numerically(self, num_classes):
        assert nb.noise_bound(self.poly, 0.4, num_classes) == pytest.approx(
            nb.noise_bound(nb.SymmetricCrossEntropy(A=8.0), 0.4, num_classes), abs=1e-9
        )

    def test_focal_loss_against_a_fine_grid(self):
        q = torch.linspace(1e-6, 1 - 1e-6, 200_001, dtype=torch.float64)
        logits = torch.stack([q.log(), ((1 - q) / 9).log()] + [((1 - q) / 9).log()] * 8, dim=1)
        right, wrong = torch.zeros(len(q), dtype=torch.long), torch.ones(len(q), dtype=torch.long)
        grid = 0.6 * self.focal(logits, right) + 0.4 * self.focal(logits, wrong)
        bound = nb.noise_bound(self.focal, 0.4, 10)
        assert bound == pytest.approx(grid.min().item(), abs=1e-8)

    # FCE reaches its floor only if T can have produced u_sym.
    @pytest.mark.parametrize("case", [c for c in FREE if not c.name.startswith("fce")], ids=repr)
    @settings(max_examples=3)
    @given(rate=st.floats(0.01, 0.99))
    def test_search_finds_the_closed_forms(self, case, rate):
        loss = case.make()

        def foreign(logits, labels):
            return loss.reduced("none", logits, labels)

        found = nb.noise_bound(foreign, rate, CLASSES)
        assert found == pytest.approx(nb.noise_bound(loss, rate, CLASSES), rel=1e-6, abs=1e-6)

    @pytest.fixture(scope="class")
    @staticmethod
    def grid():
        """Every prediction for three classes in steps of 1/400, and some that are far out."""
        first, second = np.meshgrid(np.arange(401), np.arange(401), indexing="ij")
        whole = np.stack([first, second, 400 - first - second], -1).reshape(-1, 3)
        q = torch.from_numpy(whole[whole.min(1) >= 0] / 400)
        far = q.log().clamp(min=-1e6)  # zero is a class that vanishes far faster than the others
        return torch.cat([far, far[(far == -1e6).any(1)] * 1e-3])

    @every_free
    @pytest.mark.parametrize(
        "p", [(0.6, 0.2, 0.2), (0.6, 0.4, 0.0), (0.5, 0.3, 0.2), (0.36, 0.34, 0.3)]
    )
    def test_floor_against_a_dense_search(self, case, p, grid):
        """For symmetric, pairwise and any other noise, the best of all predictions is the floor."""
        loss = case.make()
        if loss.num_classes is not None:
            return  # it was made for another number of classes
        with torch.no_grad():
            by_class = torch.stack(
                [loss.reduced("none", grid, torch.full((len(grid),), k)) for k in range(3)], 1
            )
        p = torch.tensor(p, dtype=torch.float64)
        dense = (by_class @ p).min().item()
        floor = nb.entropy(loss, p).item()
        assert dense - 1e-2 * (1 + abs(dense)) < floor <= dense + 1e-9

    @staticmethod
    def wavy(logits, labels):
        """A loss with many local minima."""
        surprisal = F.cross_entropy(logits, labels, reduction="none")
        return surprisal + 0.8 * torch.sin(6 * surprisal)

    @pytest.mark.parametrize("rate", [0.3, 0.4, 0.5])
    def test_the_least_of_many_minima_against_a_dense_search(self, rate):
        q = np.arange(1, 1500) / 1500
        first, second = np.meshgrid(q, q, indexing="ij")
        third = 1 - first - second
        inside = third > 1e-9
        of_class = [
            surprisal + 0.8 * np.sin(6 * surprisal)
            for surprisal in (-np.log(np.where(inside, p, 0.5)) for p in (first, second, third))
        ]
        risk = (1 - rate) * of_class[0] + rate / 2 * (of_class[1] + of_class[2])
        dense = risk[inside].min()
        found = nb.noise_bound(self.wavy, rate, 3)
        assert dense - 2e-4 < found < dense + 1e-9
        if rate == 0.5:
            assert found == pytest.approx(0.363, abs=5e-4)

    def test_searches_that_disagree_warn(self):
        generator = torch.Generator().manual_seed(1)
        p = torch.rand(8, generator=generator, dtype=torch.float64)
        with pytest.warns(nb.BoundSearchWarning, match="there may be a lower minimum"):
            nb.entropy(self.wavy, p / p.sum())

    def test_search_takes_any_distribution(self):
        p = torch.tensor([[0.5, 0.3, 0.2, 0.0], [1.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
        torch.testing.assert_close(
            nb.entropy(self.poly, p), nb.entropy(nb.SymmetricCrossEntropy(), p), atol=1e-8, rtol=0
        )

    @pytest.mark.parametrize(
        "loss",
        [
            torch.nn.CrossEntropyLoss(),
            torch.nn.CrossEntropyLoss(reduction="sum"),
            torch.nn.CrossEntropyLoss(reduction="none"),
            F.cross_entropy,
        ],
    )
    def test_reduced_losses_are_taken_apart(self, loss):
        assert nb.noise_bound(loss, 0.4, 10) == pytest.approx(
            nb.noise_bound(nb.CrossEntropy(), 0.4, 10)
        )

    def test_class_dependent_loss_needs_the_transition(self):
        costs = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)

        def costly(logits, labels):
            return costs[labels] * F.cross_entropy(logits, labels, reduction="none")

        with pytest.raises(ValueError, match="treat all classes alike"):
            nb.noise_bound(costly, 0.4, 3)
        # The noise is between classes 0 and 1 only; the minimum is that of Σ p_k c_k (-log q_k).
        transition = [[0.7, 0.3, 0.0], [0.3, 0.7, 0.0], [0.0, 0.0, 1.0]]
        measures = costs * torch.tensor(transition, dtype=torch.float64).T
        mass = measures.sum(1, keepdim=True)
        expected = (mass.squeeze() * torch.special.entr(measures / mass).sum(1)).mean()
        assert nb.transition_bound(costly, transition) == pytest.approx(expected.item(), abs=1e-7)

    def test_foreign_class_weights_are_refused(self):
        weighted = torch.nn.CrossEntropyLoss(weight=torch.ones(5))
        for refused in (
            lambda: nb.noise_bound(weighted, 0.4, 5),
            lambda: nb.noise_bound(weighted, 0.4, 5, class_prior=[0.2] * 5),
            lambda: nb.transition_bound(weighted, TRANSITION, [0.2] * 5),
        ):
            with pytest.raises(ValueError, match="foreign loss with class weights"):
                refused()

    def test_logits_that_are_not_only_compared_with_each_other(self):
        """The squared error of the logits is least at the noise vector, where it is 1 - Σ u²."""

        def squared(logits, labels):
            return (logits - F.one_hot(labels, logits.shape[1])).square().sum(1)

        assert nb.noise_bound(squared, 0.4, 10) == pytest.approx(
            nb.noise_bound(nb.MeanSquaredError(), 0.4, 10)
        )

    def test_a_module_is_searched_in_a_copy(self):
        class Running(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = torch.nn.Linear(1, 1)  # in float32, the default
                self.register_buffer("calls", torch.tensor(0))

            def forward(self, logits, labels):
                self.calls += 1
                unchanged = 0 * self.scale(torch.ones(len(logits), 1, dtype=logits.dtype))
                return F.cross_entropy(logits, labels, reduction="none") + unchanged.squeeze(1)

        loss = Running()
        bound = nb.noise_bound(loss, 0.4, 10)
        assert bound == pytest.approx(nb.noise_bound(nb.CrossEntropy(), 0.4, 10))
        assert loss.calls == 0
        assert loss.scale.weight.dtype == torch.float32

    @pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
    def test_search_works_in_any_gradient_mode(self, mode):
        expected = nb.noise_bound(nb.Bootstrapping(), 0.4, 10)
        with mode():
            assert nb.noise_bound(nb.Bootstrapping(), 0.4, 10) == expected

    @pytest.mark.parametrize(
        ("loss", "message"),
        [
            (lambda z, y: -F.cross_entropy(z, y, reduction="none"), "no minimum"),
            (lambda z, y: z.gather(1, y.unsqueeze(1)).squeeze(1), "no minimum"),
            (lambda z, y: z[:, 0] * float("nan"), "not finite"),
            (lambda z, y: z, "one value per example"),
            (lambda z, y: F.cross_entropy(z, y, reduction="sum"), "not the mean"),
            (lambda z, y: z.float() @ z.T, "searched in float64"),
        ],
    )
    def test_losses_without_a_floor_are_refused(self, loss, message):
        with pytest.raises(ValueError, match=message):
            nb.noise_bound(loss, 0.4, 10)

    @pytest.mark.parametrize(
        "case", [case for case in ALL_LOSSES if case.entropy == "none"], ids=repr
    )
    def test_losses_with_a_memory_are_refused(self, case):
        with pytest.raises(ValueError, match=r"has no noise-bound.*BoundedLoss"):
            nb.noise_bound(case.make(), 0.4, CLASSES)


class TestArrays:
    @pytest.mark.parametrize(
        "case", [case for case in WITH_ENTROPY if case.make().treats_classes_alike], ids=repr
    )
    def test_kind_out_is_kind_in(self, case):
        loss = case.make()
        low, high = RATE, 0.5
        one = nb.noise_bound(loss, low, CLASSES)
        array = nb.noise_bound(loss, np.array([[low, high]]), CLASSES)
        tensor = nb.noise_bound(loss, torch.tensor([low, high], dtype=torch.float64), CLASSES)
        assert isinstance(one, float)
        assert isinstance(array, np.ndarray)
        assert array.dtype == np.float64
        assert array.shape == (1, 2)
        assert tensor.dtype == torch.float64
        assert array[0, 0] == pytest.approx(one)
        np.testing.assert_allclose(tensor.numpy(), array[0])

    def test_bound_is_differentiable_in_the_rate(self):
        rate = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
        for loss in (nb.CrossEntropy(), nb.SymmetricCrossEntropy(), nb.GeneralizedCrossEntropy()):
            assert torch.autograd.gradcheck(lambda r, x=loss: nb.noise_bound(x, r, 10), rate)

    def test_noise_vectors(self):
        torch.testing.assert_close(
            nb.symmetric_noise([0.0, 0.3], 4),
            torch.tensor([[1, 0, 0, 0], [0.7, 0.1, 0.1, 0.1]], dtype=torch.float64),
        )
        torch.testing.assert_close(
            nb.pairwise_noise([0.0, 0.3], 4),
            torch.tensor([[1, 0, 0, 0], [0.7, 0.3, 0, 0]], dtype=torch.float64),
        )
        assert nb.pairwise_noise(0.3, 2).tolist() == nb.symmetric_noise(0.3, 2).tolist()

    def test_no_noise_has_no_floor(self):
        for name in ("ce", "fce", "gce", "sce", "mse", "mae", "nce-mae", "cep"):
            loss = nb.create_loss(name, noise_rate=0.0, num_classes=10)
            assert nb.noise_bound(loss, 0.0, 10) == pytest.approx(0, abs=1e-12), name


class TestErrors:
    @pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan"), [0.2, 2.0]])
    def test_rate_outside_the_unit_interval(self, rate):
        for refused in (nb.symmetric_noise, nb.pairwise_noise):
            with pytest.raises(ValueError, match=r"`noise_rate` must lie in \[0, 1\]"):
                refused(rate, 10)
        with pytest.raises(ValueError, match=r"`noise_rate` must lie in \[0, 1\]"):
            nb.noise_bound(nb.CrossEntropy(), rate, 10)

    @pytest.mark.filterwarnings("default::noisebound.NoiseRateWarning")
    @pytest.mark.parametrize(("rate", "warns"), [(0.9, False), (0.91, True), (1.0, True)])
    def test_rate_above_the_limit_warns(self, rate, warns, recwarn):
        nb.symmetric_noise(rate, 10)
        assert [w.category for w in recwarn] == [nb.NoiseRateWarning] * warns

    def test_the_warning_points_to_the_callers_line(self, tmp_path):
        """This runs in a new process, because the checks of shapes add frames between the calls."""
        script = tmp_path / "script.py"
        script.write_text(
            "import noisebound as nb, torch\n"
            "nb.noise_bound(nb.CrossEntropy(), 0.6, 2)\n"
            "criterion = nb.NoiseBoundedLoss(nb.CrossEntropy(), 0.6, 2)\n"
            "nb.create_loss('ce+b', noise_rate=0.6, num_classes=2)\n"
            "criterion(torch.zeros(1, 7), torch.tensor([6]))\n"
        )
        run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
        warned = re.findall(r"^(.+:\d+): (\w+Warning)", run.stderr, re.MULTILINE)
        expected = {2: "NoiseRate", 3: "NoiseRate", 4: "NoiseRate", 5: "ClassCount"}
        assert warned == [(f"{script}:{line}", f"{kind}Warning") for line, kind in expected.items()]

    @pytest.mark.parametrize(
        ("p", "message"),
        [
            ([0.5, 0.6], "sum to one"),
            ([1.5, -0.5], "non-negative"),
            (0.5, "vector of class probabilities"),
        ],
    )
    def test_not_a_distribution(self, p, message):
        with pytest.raises(ValueError, match=message):
            nb.entropy(nb.CrossEntropy(), p)

    def test_no_rates(self):
        with pytest.raises(ValueError, match="at least one rate"):
            nb.nonuniform_bound(nb.CrossEntropy(), [], 10)

    def test_one_class(self):
        with pytest.raises(ValueError, match="at least 2"):
            nb.noise_bound(nb.CrossEntropy(), 0.1, 1)


class TestPosteriorBound:
    """The mean entropy of the noisy posterior, whatever the structure of the noise."""

    def test_it_is_the_floor_of_every_kind_of_noise(self):
        for loss in (nb.CrossEntropy(), nb.SymmetricCrossEntropy(), nb.GeneralizedCrossEntropy()):
            symmetric = nb.symmetric_noise(0.3, 5).repeat(7, 1)
            assert nb.posterior_bound(loss, symmetric) == pytest.approx(
                nb.noise_bound(loss, 0.3, 5)
            )
            rates = torch.tensor([0.0, 0.2, 0.6]).double()
            each = nb.symmetric_noise(rates, 5)
            assert nb.posterior_bound(loss, each) == pytest.approx(
                nb.nonuniform_bound(loss, rates, 5)
            )

    def test_it_works_for_a_loss_that_nobody_analysed(self):
        def own(logits, labels):
            return torch.nn.functional.cross_entropy(logits, labels, reduction="none")

        probs = [[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]]
        assert nb.posterior_bound(own, probs) == pytest.approx(
            nb.posterior_bound(nb.CrossEntropy(), probs), abs=1e-6
        )

    @pytest.mark.parametrize("probs", [[0.5, 0.5], [[0.5, 0.6]], [[[0.5, 0.5]]]])
    def test_what_is_no_posterior_is_refused(self, probs):
        with pytest.raises(ValueError, match="probs"):
            nb.posterior_bound(nb.CrossEntropy(), probs)
