"""Algorithm 1: descend while the mean loss is above its bound, ascend while it is below."""

import time
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from noisebound.averaging import RunningAverage
from noisebound.data import Batch, CropAndFlip, Loader
from noisebound.data.rows import takes_sparse
from noisebound.models.fine_tuned import FineTuned
from noisebound.step_bound import GradientBound
from noisebound.training.config import TrainingConfig
from noisebound.training.data import TrainingData
from noisebound.training.devices import (
    Devices,
    default_type,
    mixing_generator,
    seeded,
    share_buffers,
)
from noisebound.training.epoch_record import EpochRecord
from noisebound.training.evaluation import Evaluator, in_type
from noisebound.training.metrics import EpochMetrics
from noisebound.training.objective import Objective, mix_up, prune, share_memory
from noisebound.training.state import FiniteCheck, TrainingState


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
        averaged = state.averaged
        self._average = None if averaged is None else RunningAverage(averaged, state.model)
        # Averaged weights are finite only if those of every step were.
        self._finite_check = FiniteCheck(averaged or state.model)
        self._evaluator = Evaluator(data, objective.criterion, devices)
        self._dtype = next(state.model.parameters()).dtype
        # Fabric converts outputs to torch's default type, which must not shorten float64.
        is_double = self._dtype == torch.float64
        self._default_type = torch.float64 if is_double else torch.get_default_dtype()

    def epochs(self) -> Iterator[EpochMetrics]:
        """Train, and yield the metrics of each epoch."""
        self.model.train()  # and so after every evaluation
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
        level, alone = self.objective.bound, self.devices.world_size == 1
        bound = None if level is None else GradientBound(level, alone=alone)
        record = EpochRecord(epoch + 1, self.devices)
        place = self.config.seed, epoch, self.devices
        mixing = mixing_generator(*place) if self.objective.mixes else None
        rate = self.config.learning_rate_at(epoch)
        with seeded(*place), default_type(self._default_type):
            for step, batch in enumerate(self.loader.epoch(epoch), epoch * len(self.loader)):
                self._set_rate(rate, step)
                self.state.optimizer.zero_grad()
                parts = self._parts(batch, mixing)
                if len(parts) == 1 and self.devices.world_size == 1:
                    self._backward(parts[0], bound, record)
                else:
                    self._accumulate(parts, batch.total, bound, record)
                self.optimizer.step()
                if self._average is not None:
                    self._average.update()
        self._share(record, epoch)
        mean_loss = record.mean_loss()
        record.check_finite(self._finite_check)
        return mean_loss, None if bound is None else bound.share_below

    def _backward(self, batch: Batch, bound: GradientBound | None, record: EpochRecord) -> None:
        """Compute the gradient of a step: one device has the whole mean before it."""
        mean = self._mean(batch, record)
        sign = None if bound is None else bound.sign(mean)  # +1 above the bound, -1 below it
        self.devices.backward(mean, gradient=sign)

    def _accumulate(
        self, parts: list[Batch], total: float, bound: GradientBound | None, record: EpochRecord
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

    def _mean(self, part: Batch, record: EpochRecord) -> Float[Tensor, ""]:
        logits = self.model(in_type(part.x, self._dtype))
        mean = self.objective.mean(logits, part.y, part.weights, part.indices)
        record.add(part, logits, mean)
        return mean

    def _set_rate(self, rate: float, step: int) -> None:
        """Give each group of weights its share of the rate, which rises over the first steps."""
        rising = self.config.warmup * len(self.loader)
        warmth = min(1.0, (step + 1) / rising) if rising else 1.0
        for group in self.state.optimizer.param_groups:
            group["lr"] = rate * group.get("share", 1.0) * warmth

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

    def _share(self, record: EpochRecord, epoch: int) -> None:
        """Bring batch norm, and a loss that remembers, to the same state on every rank."""
        if self.devices.world_size > 1:
            share_buffers(self.state.model, self.devices)
            if self.state.averaged is not None:
                share_buffers(self.state.averaged, self.devices)
            share_memory(self.objective.criterion, record.visited, self.devices)
        pruned = prune(self.objective.criterion, self.model, self.loader, epoch)
        if pruned is not None:
            share_memory(self.objective.criterion, pruned, self.devices)


def _total(indices: Tensor, weights: Tensor | None) -> float:
    return float(len(indices)) if weights is None else weights.sum(dtype=torch.float64).item()
