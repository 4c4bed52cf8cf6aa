"""Algorithm 1: descend while the mean loss is above its bound, ascend while it is below."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int64
from lightning_fabric import Fabric
from torch import Generator, Tensor

from noisebound.bounded import StepBound
from noisebound.data import Batch, CropAndFlip, Dataset, Loader, Normalization
from noisebound.data.loader import derived_seed
from noisebound.errors import InvalidValueError
from noisebound.granularity import GranularBoundedLoss
from noisebound.training.checkpoints import TrainingState
from noisebound.training.config import TrainingConfig
from noisebound.training.evaluation import evaluate
from noisebound.training.memory import prune, share_memory
from noisebound.training.metrics import Metrics
from noisebound.training.mixup import mix_up
from noisebound.training.objective import Objective
from noisebound.training.ranks import share_buffers, sum_over_ranks


@dataclass(frozen=True, eq=False)
class TrainingData:
    """What is learnt from, what it is watched with (noisy too), and what it is judged by.

    Args:
        train: the examples to learn from
        validation: held out of the same
        test: with clean labels
        normalization: of the inputs
        positions: of the training examples among those that were given; None if those are all
    """

    train: Dataset
    validation: Dataset | None
    test: Dataset | None
    normalization: Normalization
    positions: Int64[Tensor, " n"] | None = None


class Training:
    """Training from where a state stands to the last epoch.

    Args:
        state: is changed as training goes on
        objective: the loss and its bound
        data: the test set is looked at, and decides nothing
        config: the rest
        fabric: launched; knows the devices and the ranks
    """

    def __init__(
        self,
        state: TrainingState,
        objective: Objective,
        data: TrainingData,
        config: TrainingConfig,
        fabric: Fabric,
    ) -> None:
        self.state, self.objective, self.data = state, objective, data
        self.config, self.fabric = config, fabric
        self.loader = Loader(
            data.train,
            config.batch_size,
            normalization=data.normalization,
            seed=config.seed,
            augmentation=CropAndFlip() if config.augment else None,
            rank=fabric.global_rank,
            world_size=fabric.world_size,
            device=fabric.device,
        )
        self.model, self.optimizer = fabric.setup(state.model, state.optimizer)
        self.step_bound = (
            None
            if objective.step_bound is None
            else StepBound(state.optimizer, objective.step_bound)
        )

    def epochs(self) -> Iterator[Metrics]:
        """Train; after each epoch, what was measured."""
        for epoch in range(self.state.epoch, self.config.epochs):
            started = time.perf_counter()
            rate = self.config.learning_rate_at(epoch)
            for group in self.state.optimizer.param_groups:
                group["lr"] = rate
            trained = self._train_epoch(epoch)
            self.state.epoch = epoch + 1
            yield {
                "epoch": self.state.epoch,
                "learning_rate": rate,
                **trained,
                **(self._measure() if self._is_measured(self.state.epoch) else {}),
                "seconds": round(time.perf_counter() - started, 3),
            }

    def _train_epoch(self, epoch: int) -> Metrics:
        criterion, step_bound = self.objective.criterion, self.step_bound
        means: list[Tensor] = []  # of every part, and how many examples each was of
        counts: list[int] = []
        below: list[Tensor] = []
        visited = []
        self.model.train()
        criterion.train()
        with self._randomness(epoch) as generator:
            batches = zip(self.loader.epoch(epoch), self.loader.batch_sizes(), strict=True)
            for batch, size in batches:
                for mean, count in self._step(batch, size, generator):
                    means.append(mean)
                    counts.append(count)
                if step_bound is not None:
                    below.append(step_bound.monitor.last_below)
                visited.append(batch.indices)
        share_buffers(self.state.model, self.fabric)
        if self.state.averaged is not None:
            share_buffers(self.state.averaged, self.fabric)
        share_memory(criterion, torch.cat(visited), self.fabric)
        pruned = prune(criterion, self.model, self.loader, epoch)
        if pruned is not None:
            share_memory(criterion, pruned, self.fabric)
        weights = torch.tensor(counts, dtype=torch.float64, device=self.fabric.device)
        totals = torch.stack([torch.stack(means).double() @ weights, weights.sum()])
        total, count = sum_over_ranks(totals, self.fabric).tolist()
        if not math.isfinite(total):
            raise InvalidValueError(
                f"the training loss is {total / count} in epoch {epoch + 1}: training has "
                "diverged; lower the learning rate (--learning-rate)"
            )
        return {
            "train_loss": total / count,
            "bound": self.objective.bound,
            "share_below": torch.stack(below).double().mean().item() if below else None,
        }

    def _step(
        self, batch: Batch, size: int, generator: Generator
    ) -> list[tuple[Float[Tensor, ""], int]]:
        """One update by a batch of ``size`` examples over all ranks; each part's mean and count."""
        observed = []
        self.state.optimizer.zero_grad()
        parts = self._parts(batch, generator)
        for number, (x, y, indices) in enumerate(parts, start=1):
            with self.fabric.no_backward_sync(self.model, enabled=number < len(parts)):
                logits = self.model(x)
                extra = (indices,) if self.objective.remembers else ()
                mean = self.objective.criterion(logits, y, *extra)
                if self.step_bound is not None:
                    self.step_bound.observe(mean, len(y))
                # gradients are averaged over the ranks: each gives its part of the whole mean
                self.fabric.backward(mean * (len(y) * self.fabric.world_size / size))
            observed.append((self._raw(mean), len(y)))
        self.optimizer.step()
        if self.state.averaged is not None:
            self.state.averaged.update_parameters(self.state.model)
        return observed

    def _raw(self, mean: Float[Tensor, ""]) -> Float[Tensor, ""]:
        """The mean loss before any bound."""
        criterion = self.objective.criterion
        return criterion.last_mean if isinstance(criterion, GranularBoundedLoss) else mean.detach()

    def _parts(self, batch: Batch, generator: Generator) -> list[tuple[Tensor, Tensor, Tensor]]:
        """The batch, mixed up if need be, in as many parts as gradients are accumulated over."""
        x, y, indices = batch
        if self.objective.mixes:
            x, y = mix_up(x, y, self.data.train.num_classes, generator)
        parts = min(self.config.accumulate, len(indices))
        return list(
            zip(
                x.tensor_split(parts),
                y.tensor_split(parts),
                indices.tensor_split(parts),
                strict=True,
            )
        )

    @contextmanager
    def _randomness(self, epoch: int) -> Iterator[Generator]:
        """Dropout and mixing follow from the seed, the epoch and the rank alone."""
        seed, mixing_seed = (
            derived_seed(self.config.seed, epoch, 1 + self.fabric.global_rank, use)
            for use in (0, 1)
        )
        device = self.fabric.device
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            yield Generator().manual_seed(mixing_seed)

    def _is_measured(self, epoch: int) -> bool:
        return epoch % self.config.measure_every == 0 or epoch == self.config.epochs

    def _measure(self) -> Metrics:
        """Losses and accuracies of the weights as they are, and of their average."""
        metrics: Metrics = self._measure_model("", self.model)
        if self.state.averaged is not None:
            metrics |= self._measure_model("averaged_", self.state.averaged)
        return metrics

    def _measure_model(self, prefix: str, model: torch.nn.Module) -> Metrics:
        metrics: Metrics = {}
        criterion, normalization = self.objective.criterion, self.data.normalization
        if self.data.validation is not None:
            noisy = evaluate(model, self.data.validation, normalization, criterion, self.fabric)
            metrics |= {"validation_loss": noisy.loss, "validation_top1": noisy.top1}
        if self.data.test is not None:
            clean = evaluate(model, self.data.test, normalization, criterion, self.fabric)
            metrics |= {"test_top1": clean.top1, "test_top5": clean.top5}
        if self._wrongly_labeled is not None:
            repeated = evaluate(model, self._wrongly_labeled, normalization, criterion, self.fabric)
            metrics |= {"memorized": repeated.top1}
        return {f"{prefix}{name}": value for name, value in metrics.items()}

    @cached_property
    def _wrongly_labeled(self) -> Dataset | None:
        """The training examples whose label is known to be wrong."""
        train = self.data.train
        if train.true_labels is None:
            return None
        is_wrong = train.labels != train.true_labels
        return train.subset(is_wrong) if is_wrong.any() else None
