"""Algorithm 1: descend while the mean loss is above its bound, ascend while it is below."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from noisebound.averaging import RunningAverage
from noisebound.bounded import step_sign
from noisebound.data import Batch, CropAndFlip, Dataset, Loader
from noisebound.data.loader import derived_seed
from noisebound.data.rows import takes_sparse
from noisebound.errors import InvalidValueError
from noisebound.models.fine_tuned import FineTuned
from noisebound.step_bound import multiply_gradients
from noisebound.training.config import TrainingConfig
from noisebound.training.data import TrainingData
from noisebound.training.devices import Devices, share_buffers, sum_over_ranks
from noisebound.training.evaluation import evaluate, in_type
from noisebound.training.metrics import EpochMetrics
from noisebound.training.objective import Objective, mix_up, prune, share_memory
from noisebound.training.state import TrainingState, is_finite


class _Part(NamedTuple):
    """The raw mean loss of a part of a batch, and the weight of its examples."""

    mean: Float[Tensor, ""]
    weight: float | Tensor


def _total(indices: Tensor, weights: Tensor | None) -> float:
    return float(len(indices)) if weights is None else weights.sum(dtype=torch.float64).item()


def _diverged(sign: str, epoch: int) -> InvalidValueError:
    return InvalidValueError(
        f"{sign} in epoch {epoch + 1}: training has diverged; lower `learning_rate`, or scale the "
        "features"
    )


class Training:
    """Training from where a state stands to the last epoch.

    Args:
        state: the state, which changes as training goes on
        objective: the loss and its bound
        data: the splits; the test split is evaluated and decides nothing
        config: how to train
        devices: the devices and the ranks
    """

    def __init__(
        self,
        state: TrainingState,
        objective: Objective,
        data: TrainingData,
        config: TrainingConfig,
        devices: Devices,
    ) -> None:
        self.state, self.objective, self.data = state, objective, data
        self.config, self.devices = config, devices
        self.loader = Loader(
            data.train,
            config.batch_size,
            normalization=data.normalization,
            seed=config.seed,
            augmentation=CropAndFlip() if config.augment else None,
            rank=devices.global_rank,
            world_size=devices.world_size,
            device=devices.device,
            # Sparse tensors can be neither split nor blended.
            keep_sparse=takes_sparse(state.model)
            and not objective.mixes
            and config.accumulate == 1
            and devices.world_size == 1,
        )
        self.model, self.optimizer = devices.setup(state.model, state.optimizer)
        self._dtype = next(state.model.parameters()).dtype
        self._largest_logits: list[Tensor] = []  # of each example, in this epoch
        averaged = state.averaged
        self._average = None if averaged is None else RunningAverage(averaged, state.model)

    def epochs(self) -> Iterator[EpochMetrics]:
        """Train, and yield the metrics of each epoch."""
        for epoch in range(self.state.epoch, self.config.epochs):
            started = time.perf_counter()
            train_loss, share_below = self._train_epoch(epoch)
            self.state.epoch = epoch + 1
            evaluated = self._evaluate() if self._is_evaluated(self.state.epoch) else {}
            yield EpochMetrics(
                epoch=self.state.epoch,
                learning_rate=self.config.learning_rate_at(epoch),
                train_loss=train_loss,
                bound=self.objective.bound,
                share_below=share_below,
                seconds=round(time.perf_counter() - started, 3),
                **evaluated,
            )

    def _train_epoch(self, epoch: int) -> tuple[float, float | None]:
        """Train on every example once; return the mean loss and the share of steps uphill."""
        parts: list[_Part] = []
        below: list[Tensor] = []
        visited = []
        rate = self.config.learning_rate_at(epoch)
        self._largest_logits.clear()
        self.model.train()
        self.objective.criterion.train()
        with self._randomness(epoch) as generator, self._precision():
            for number, batch in enumerate(self.loader.epoch(epoch)):
                self._set_rate(rate, epoch * len(self.loader) + number)
                observed, sign = self._step(batch, generator)
                parts += observed
                if sign is not None:
                    below.append(sign < 0)
                visited.append(batch.indices)
        share_buffers(self.state.model, self.devices)
        if self.state.averaged is not None:
            share_buffers(self.state.averaged, self.devices)
        self._share_memory(torch.cat(visited), epoch)
        mean = self._mean_of(parts, epoch)
        self._check_finite(epoch)
        return mean, torch.stack(below).double().mean().item() if below else None

    def _set_rate(self, rate: float, step: int) -> None:
        """Give each group of weights its share of the rate, which rises over the first steps."""
        rising = self.config.warmup * len(self.loader)
        warmth = min(1.0, (step + 1) / rising) if rising else 1.0
        for group in self.state.optimizer.param_groups:
            group["lr"] = rate * group.get("share", 1.0) * warmth

    def _step(
        self, batch: Batch, generator: Generator
    ) -> tuple[list[_Part], Float[Tensor, ""] | None]:
        """Take one step of Algorithm 1; return the parts' losses and the sign of the step."""
        self.state.optimizer.zero_grad()
        parts = self._parts(batch, generator)
        if len(parts) == 1 and self.devices.world_size == 1:
            # The whole mean is at hand before the backward pass, so that its sign costs nothing.
            mean = self._mean(parts[0])
            observed = [_Part(mean.detach(), batch.total)]
            sign = self._sign(observed[0].mean)
            self.devices.backward(mean, gradient=sign)
        else:
            observed = self._accumulate(parts, batch.total)
            sign = self._sign_over_ranks(observed)
            if sign is not None:
                multiply_gradients(self.state.optimizer, sign)
        self.optimizer.step()
        if self._average is not None:
            self._average.update()
        return observed, sign

    def _sign(self, mean: Float[Tensor, ""]) -> Float[Tensor, ""] | None:
        """Return +1 to descend or -1 to ascend; None without a bound."""
        bound = self.objective.bound
        return None if bound is None else step_sign(mean, bound)

    def _accumulate(self, parts: list[Batch], total: float) -> list[_Part]:
        """Accumulate the gradient of the whole batch's mean, part by part and rank by rank."""
        observed = []
        share = self.devices.world_size / total if total else 0.0  # all may have the weight zero
        for number, part in enumerate(parts, start=1):
            with self.devices.no_backward_sync(self.model, enabled=number < len(parts)):
                mean = self._mean(part)
                # Gradients are averaged over the ranks: each gives its part of the whole mean.
                self.devices.backward(mean * (part.total * share))
            observed.append(_Part(mean.detach(), part.total))
        return observed

    def _sign_over_ranks(self, observed: list[_Part]) -> Float[Tensor, ""] | None:
        """Return the sign for the mean over all parts and ranks: local signs would disagree."""
        if self.objective.bound is None:
            return None
        total, weight = self._totals(observed)
        return self._sign(total / weight if weight else total)

    def _totals(self, parts: list[_Part]) -> Float[Tensor, " two"]:
        """Return the sum of the weighted losses and of the weights, over all ranks."""
        means = torch.stack([part.mean for part in parts]).double()
        weights = torch.tensor([part.weight for part in parts]).to(means)
        return sum_over_ranks(torch.stack([means @ weights, weights.sum()]), self.devices)

    def _mean(self, part: Batch) -> Float[Tensor, ""]:
        logits = self.model(in_type(part.x, self._dtype))
        # The largest logit of each example shows NaN and infinity; a mask may hold -inf.
        self._largest_logits.append(logits.detach().amax(1).flatten())
        return self.objective.mean(logits, part.y, part.weights, part.indices)

    def _mean_of(self, parts: list[_Part], epoch: int) -> float:
        total, weight = self._totals(parts).tolist()
        if not math.isfinite(total):
            raise _diverged(f"the training loss is {total / weight}", epoch)
        mean: float = total / weight
        return mean

    def _check_finite(self, epoch: int) -> None:
        """Raise an error if training has diverged; some losses turn NaN logits into zero."""
        logits = torch.cat(self._largest_logits)
        lost = sum_over_ranks((~logits.isfinite()).sum(), self.devices).item()
        if lost:
            raise _diverged(f"the logits of {lost} examples are not finite", epoch)
        # The average has a part of every step's weights: once they were not finite, it is not.
        if not is_finite(self.state.averaged or self.state.model):
            raise _diverged("weights of the network are not finite", epoch)

    def _parts(self, batch: Batch, generator: Generator) -> list[Batch]:
        """Return the batch, mixed up if need be, in the parts that gradients are accumulated over.

        The ``total`` of a part is the weight of its own examples.
        """
        x, y, indices, weights, total = batch
        if self.objective.mixes:
            x, y = mix_up(x, y, self.data.train.num_classes, generator)
        count = min(max(self.config.accumulate, self._fewest_parts(len(indices))), len(indices))
        if count == 1 and self.devices.world_size == 1:
            return [Batch(x, y, indices, weights, total)]
        split_weights = [None] * count if weights is None else list(weights.tensor_split(count))
        parts = zip(
            x.tensor_split(count),
            y.tensor_split(count),
            indices.tensor_split(count),
            split_weights,
            strict=True,
        )
        return [Batch(*part, _total(part[2], part[3])) for part in parts]

    def _fewest_parts(self, examples: int) -> int:
        """Return how many parts keep an encoder's activations small: 1 for other networks."""
        model = self.state.model
        return -(-examples // model.examples_at_once) if isinstance(model, FineTuned) else 1

    def _share_memory(self, visited: Tensor, epoch: int) -> None:
        """Bring a loss that remembers its examples to the same state on every rank."""
        share_memory(self.objective.criterion, visited, self.devices)
        pruned = prune(self.objective.criterion, self.model, self.loader, epoch)
        if pruned is not None:
            share_memory(self.objective.criterion, pruned, self.devices)

    @contextmanager
    def _randomness(self, epoch: int) -> Iterator[Generator]:
        """Make dropout and mixing follow from the seed, the epoch and the rank alone."""
        seed, mixing_seed = (
            derived_seed(self.config.seed, epoch, 1 + self.devices.global_rank, use)
            for use in (0, 1)
        )
        device = self.devices.device
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            if device.type == "cpu":
                # torch.manual_seed records a stack trace for unused accelerators, which takes a
                # tenth of the time of a small network's epoch.
                torch.default_generator.manual_seed(seed)
            else:
                torch.manual_seed(seed)
            yield Generator().manual_seed(mixing_seed)

    @contextmanager
    def _precision(self) -> Iterator[None]:
        """Keep float64 logits as they are: Fabric converts outputs to torch's default type."""
        before = torch.get_default_dtype()
        if self._dtype == torch.float64:
            torch.set_default_dtype(torch.float64)
        try:
            yield
        finally:
            torch.set_default_dtype(before)

    def _is_evaluated(self, epoch: int) -> bool:
        return epoch % self.config.measure_every == 0 or epoch == self.config.epochs

    def _evaluate(self) -> dict[str, float | None]:
        """Return losses and accuracies of the last weights, and of the averaged ones."""
        evaluated = self._evaluate_model("", self.model)
        if self.state.averaged is not None:
            evaluated |= self._evaluate_model("averaged_", self.state.averaged)
        return evaluated

    def _evaluate_model(self, prefix: str, model: torch.nn.Module) -> dict[str, float | None]:
        found: dict[str, float | None] = {}
        criterion, normalization = self.objective.criterion, self.data.normalization
        if self.data.validation is not None:
            noisy = evaluate(model, self.data.validation, normalization, criterion, self.devices)
            found |= {"validation_loss": noisy.loss, "validation_top1": noisy.top1}
        if self.data.test is not None:
            clean = evaluate(model, self.data.test, normalization, criterion, self.devices)
            found |= {"test_top1": clean.top1, "test_top5": clean.top5}
        if self._wrongly_labeled is not None:
            repeated = evaluate(
                model, self._wrongly_labeled, normalization, criterion, self.devices
            )
            found |= {"memorized": repeated.top1}
        return {f"{prefix}{name}": value for name, value in found.items()}

    @cached_property
    def _wrongly_labeled(self) -> Dataset | None:
        """The training examples whose label is known to be wrong."""
        train = self.data.train
        if train.true_labels is None:
            return None
        is_wrong = train.labels != train.true_labels
        return train.subset(is_wrong) if is_wrong.any() else None
