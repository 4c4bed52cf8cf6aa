"""Algorithm 1: descend while the mean loss is above its bound, ascend while it is below."""

import math
import time
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from noisebound.averaging import RunningAverage
from noisebound.data import Batch, CropAndFlip, Loader
from noisebound.data.rows import takes_sparse
from noisebound.errors import InvalidValueError
from noisebound.step_bound import GradientBound
from noisebound.training.config import TrainingConfig
from noisebound.training.data import TrainingData
from noisebound.training.devices import (
    Devices,
    default_type,
    mixing_generator,
    seeded,
    share_buffers,
    sum_over_ranks,
)
from noisebound.training.evaluation import Evaluator, in_type
from noisebound.training.fine_tuning import FineTuned
from noisebound.training.metrics import EpochMetrics
from noisebound.training.objective import Objective, mix_up, prune, share_memory
from noisebound.training.state import TrainingState, is_finite


class Training:
    """Training from a state, which changes, to the last epoch; the test split decides nothing."""

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
        prepared: tuple[Any, Any] = devices.setup(state.model, state.optimizer)
        self.model, self.optimizer = prepared
        averaged = state.averaged
        self._average = None if averaged is None else RunningAverage(averaged, state.model)
        self._evaluator = Evaluator(data, objective.criterion, devices)
        self._dtype = next(state.model.parameters()).dtype
        # Fabric converts outputs to torch's default type, which must not shorten float64.
        is_double = self._dtype == torch.float64
        self._default_type = torch.float64 if is_double else torch.get_default_dtype()

    def epochs(self) -> Iterator[EpochMetrics]:
        """Train, and yield the metrics of each epoch."""
        self.model.train()  # evaluation restores this mode
        self.objective.criterion.train()
        for epoch in range(self.state.epoch, self.config.epochs):
            started = time.perf_counter()
            train_loss, share_below = self._train_epoch(epoch)
            done = self.state.epoch = epoch + 1
            is_evaluated = done % self.config.measure_every == 0 or done == self.config.epochs
            evaluated = (
                self._evaluator.evaluate(self.model, self.state.averaged) if is_evaluated else {}
            )
            yield EpochMetrics(
                epoch=done,
                learning_rate=self.config.learning_rate_at(epoch),
                train_loss=train_loss,
                bound=self.objective.bound,
                share_below=share_below,
                seconds=round(time.perf_counter() - started, 3),
                **evaluated,
            )

    def _train_epoch(self, epoch: int) -> tuple[float, float | None]:
        """Train on every example once; return the mean loss and the share of steps uphill."""
        level, is_alone = self.objective.bound, self.devices.world_size == 1
        bound = None if level is None else GradientBound(level, alone=is_alone)
        record = _EpochRecord(epoch + 1, self.devices)
        place = self.config.seed, epoch, self.devices
        mixing = mixing_generator(*place) if self.objective.mixes else None
        with seeded(*place), default_type(self._default_type):
            for step, batch in enumerate(self.loader.epoch(epoch)):
                self._set_rate(epoch, step)
                self.state.optimizer.zero_grad()
                parts = self._parts(batch, mixing)
                if is_alone and len(parts) == 1:
                    mean = self._mean(parts[0], record)
                    sign = None if bound is None else bound.sign(mean)  # +1 above, -1 below
                    self.devices.backward(mean, gradient=sign)
                else:
                    self._accumulate(parts, batch.total, bound, record)
                self.optimizer.step()
                if self._average is not None:
                    self._average.update()
        self._share(record, epoch)
        # Averaged weights are finite only if those of every step were.
        mean_loss = record.mean_loss(is_finite(self.state.averaged or self.state.model))
        return mean_loss, None if bound is None else bound.share_below

    def _accumulate(
        self, parts: list[Batch], total: float, bound: GradientBound | None, record: "_EpochRecord"
    ) -> None:
        """Compute the same gradient part by part and rank by rank, then give it its sign.

        The mean over all parts and ranks decides the sign: local signs would disagree.
        """
        share = self.devices.world_size / total if total else 0.0  # all may have the weight zero
        for number, part in enumerate(parts, start=1):
            with self.devices.no_backward_sync(self.model, enabled=number < len(parts)):
                mean = self._mean(part, record)
                # Gradients are averaged over the ranks: each gives its part of the whole mean.
                self.devices.backward(mean * (part.total * share))
            if bound is not None:
                bound.observe(mean.detach(), part.total)
        if bound is not None:
            bound.apply(self.state.optimizer)

    def _mean(self, part: Batch, record: "_EpochRecord") -> Float[Tensor, ""]:
        logits = self.model(in_type(part.x, self._dtype))
        mean = self.objective.mean(logits, part.y, part.weights, part.indices)
        record.add(part, logits, mean)
        return mean

    def _set_rate(self, epoch: int, step: int) -> None:
        """Give each group of weights its share of the rate, which rises during the warm-up."""
        steps = len(self.loader)
        rising = self.config.warmup * steps
        warmth = min(1.0, (epoch * steps + step + 1) / rising) if rising else 1.0
        rate = warmth * self.config.learning_rate_at(epoch)
        for group in self.state.optimizer.param_groups:
            group["lr"] = rate * group.get("share", 1.0)

    def _parts(self, batch: Batch, mixing: Generator | None) -> list[Batch]:
        """Return the batch, mixed up if need be, in the parts that gradients are accumulated over.

        The ``total`` of a part is the weight of its own examples.
        """
        if mixing is not None:
            x, y = mix_up(batch.x, batch.y, self.data.train.num_classes, mixing)
            batch = batch._replace(x=x, y=y)
        examples, model = len(batch.indices), self.state.model
        count = self.config.accumulate
        if isinstance(model, FineTuned):  # keeps an encoder's activations small
            count = max(count, -(-examples // model.examples_at_once))
        count = min(count, examples)
        if count == 1 and self.devices.world_size == 1:
            return [batch]
        weights = batch.weights
        columns = (
            batch.x.tensor_split(count),
            batch.y.tensor_split(count),
            batch.indices.tensor_split(count),
            [None] * count if weights is None else weights.tensor_split(count),
        )
        return [Batch(*part, _total(part[2], part[3])) for part in zip(*columns, strict=True)]

    def _share(self, record: "_EpochRecord", epoch: int) -> None:
        """Bring batch norm, and a loss that remembers, to the same state on every rank."""
        criterion = self.objective.criterion
        share_buffers(self.state.model, self.devices)
        if self.state.averaged is not None:
            share_buffers(self.state.averaged, self.devices)
        share_memory(criterion, record.visited, self.devices)
        pruned = prune(criterion, self.model, self.loader, epoch)
        if pruned is not None:
            share_memory(criterion, pruned, self.devices)


class _EpochRecord:
    """The losses and examples of an epoch so far. Recording never waits for the device."""

    def __init__(self, number: int, devices: Devices) -> None:
        self._number, self._devices = number, devices
        self._means: list[Float[Tensor, ""]] = []
        self._weights: list[float | Tensor] = []
        self._visited: list[Tensor] = []
        self._largest_logits: list[Tensor] = []  # of each example

    def add(self, part: Batch, logits: Tensor, mean: Float[Tensor, ""]) -> None:
        """Record the mean loss and the logits of a batch, or of a part of one."""
        self._means.append(mean.detach())
        self._weights.append(part.total)
        self._visited.append(part.indices)
        # The largest logit of each example shows NaN and infinity; a mask may hold -inf.
        self._largest_logits.append(logits.detach().amax(1).flatten())

    @property
    def visited(self) -> Tensor:
        """The positions of the examples that this rank trained on."""
        return torch.cat(self._visited)

    def mean_loss(self, has_finite_weights: bool) -> float:
        """Return the mean loss over all ranks, or an error if training has diverged."""
        means = torch.stack(self._means).double()
        weights = torch.tensor(self._weights).to(means)
        lost = (~torch.cat(self._largest_logits).isfinite()).sum().to(means)
        sums = torch.stack([means @ weights, weights.sum(), lost])
        loss, weight, count = sum_over_ranks(sums, self._devices).tolist()
        if not math.isfinite(loss):
            sign = f"the training loss is {loss / weight}"
        elif count:  # some losses turn NaN into zero
            sign = f"the logits of {count:.0f} examples are not finite"
        elif not has_finite_weights:
            sign = "weights of the network are not finite"
        else:
            return float(loss / weight)
        raise InvalidValueError(
            f"{sign} in epoch {self._number}: training has diverged; lower `learning_rate`, or "
            "scale the features"
        )


def _total(indices: Tensor, weights: Tensor | None) -> float:
    return float(len(indices)) if weights is None else weights.sum(dtype=torch.float64).item()
