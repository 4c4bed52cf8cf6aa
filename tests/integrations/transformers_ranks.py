"""Trains a small BERT on the ranks that torchrun starts: ``transformers_ranks.py OUT BOUND…``.

See test_transformers.py, which takes the model and its data from here, too.
"""

import os
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    PreTrainedModel,
    Trainer,
    TrainingArguments,
)

import noisebound as nb
from noisebound.integrations.transformers import BoundedLossFunction

WORDS, LENGTH, CLASSES, STEPS, BATCH = 20, 5, 4, 6, 16
EPOCHS = 2


def make_model(kind: str) -> PreTrainedModel:
    config = BertConfig(
        vocab_size=WORDS,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=LENGTH,
        num_labels=CLASSES,
        hidden_dropout_prob=0.0,  # or micro-batches would see other networks
        attention_probs_dropout_prob=0.0,
    )
    models = {"sequences": BertForSequenceClassification, "tokens": BertForTokenClassification}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return models[kind](config).double()


def make_data(kind: str, num_batches: int = STEPS) -> list[dict[str, Tensor]]:
    """Return sentences with a third of the labels ignored, and some with all of them ignored."""
    generator = torch.Generator().manual_seed(1)
    n = num_batches * BATCH
    words = torch.randint(WORDS, (n, LENGTH), generator=generator)
    if kind == "sequences":
        labels = torch.randint(CLASSES, (n,), generator=generator)
    else:
        labels = torch.randint(CLASSES, (n, LENGTH), generator=generator)
        labels[torch.rand(n, LENGTH, generator=generator) < 0.3] = -100
        labels[::7] = -100
    return [{"input_ids": x, "labels": y} for x, y in zip(words, labels, strict=True)]


def make_arguments(folder: Path, **options: object) -> TrainingArguments:
    defaults = {
        "num_train_epochs": EPOCHS,
        "per_device_train_batch_size": BATCH,
        "learning_rate": 0.1,
        "lr_scheduler_type": "constant",
        "optim": "sgd",
        "weight_decay": 0.01,
        "max_grad_norm": 0.0,
        "logging_strategy": "epoch",
    }
    quiet = {"report_to": "none", "save_strategy": "no", "disable_tqdm": True, "use_cpu": True}
    return TrainingArguments(output_dir=str(folder), **{**defaults, **quiet, **options})


def bounded_at(bound: float) -> BoundedLossFunction:
    return BoundedLossFunction(nb.BoundedLoss(nb.CrossEntropy(), bound), average_epochs=0)


def train(kind: str, folder: Path, bounded: BoundedLossFunction, **options: object) -> Trainer:
    trainer = Trainer(
        make_model(kind),
        make_arguments(folder, **options),
        train_dataset=make_data(kind),
        compute_loss_func=bounded,
        callbacks=[bounded],
    )
    trainer.train()
    return trainer


def one_step_of_rank_means(out: Path) -> tuple[float, float]:
    """Return the mean that is compared with the bound, and this rank's mean."""
    bounded, noted = bounded_at(0.0), []

    def noting(outputs: object, labels: Tensor, num_items_in_batch: Tensor) -> Tensor:
        loss = bounded(outputs, labels, num_items_in_batch)
        noted.append(loss.item())
        return loss

    Trainer(
        make_model("tokens"),
        make_arguments(
            out,
            max_steps=1,
            per_device_train_batch_size=BATCH // 4,
            gradient_accumulation_steps=2,
            average_tokens_across_devices=False,
        ),
        train_dataset=make_data("tokens"),
        compute_loss_func=noting,
        callbacks=[bounded],
    ).train()
    return bounded.raw_mean, sum(noted)


def main(out: Path, bounds: list[float]) -> None:
    """Train on two micro-batches per rank, which together are one batch of ``BATCH``."""
    warnings.simplefilter("ignore")
    for kind in ("sequences", "tokens"):
        for bound in bounds:
            bounded = bounded_at(bound)
            trainer = train(
                kind,
                out,
                bounded,
                per_device_train_batch_size=BATCH // 4,
                gradient_accumulation_steps=2,
                ddp_backend="gloo",
            )
            result = (trainer.model.state_dict(), bounded.share_below, bounded.raw_mean)
            torch.save(result, out / f"{kind}-{bound}-rank{dist.get_rank()}.pt")
    torch.save(one_step_of_rank_means(out), out / f"rank-means-{dist.get_rank()}.pt")
    # Not by the interpreter's shutdown, which gloo's threads can abort: see training/devices.py.
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [float(bound) for bound in sys.argv[2:]])
