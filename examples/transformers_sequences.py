"""Train on sequences with 40% wrong labels with Hugging Face's Trainer and a bounded loss function.

In a checkout, run ``pip install -c constraints.txt '.[transformers]'`` and then
``python examples/transformers_sequences.py``. A small BERT, created here instead of downloaded,
classifies the first word of a sentence. The script trains twice: with a bound of zero, which has no
effect, and with the noise-bound. The loss function averages the weights; ``average_epochs=0``
would keep the last ones.
"""

import argparse
import tempfile
from typing import Any

import torch
from torch import Tensor
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)

import noisebound as nb
from noisebound.integrations.transformers import BoundedLossFunction

NOISE_RATE, NUM_CLASSES, WORDS, LENGTH = 0.4, 4, 40, 6


def make_sentences(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return sentences of random words, and the quarter of the vocabulary of each first word."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(WORDS, (n, LENGTH), generator=generator)
    return words, words[:, 0] * NUM_CLASSES // WORDS


def train(
    model: torch.nn.Module, data: list[dict[str, Any]], level: float, epochs: int, **options: Any
) -> BoundedLossFunction:
    """Train the model with the mean loss held at a level, and return the loss function."""
    rate = options.pop("learning_rate", 3e-3)
    bounded = BoundedLossFunction(nb.BoundedLoss(nb.CrossEntropy(), level))
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, num_train_epochs=epochs, per_device_train_batch_size=50,
            gradient_accumulation_steps=2, learning_rate=rate, lr_scheduler_type="constant",
            logging_strategy="no", save_strategy="no", report_to="none", disable_tqdm=True,
            use_cpu=True,
        )  # fmt: skip
        Trainer(
            model,
            arguments,
            train_dataset=data,
            compute_loss_func=bounded,
            callbacks=[bounded],
            **options,
        ).train()
    return bounded


def main(epochs: int) -> None:
    """Print the accuracy on clean test labels, plain and bounded."""
    (words, truth), (test_words, test_truth) = make_sentences(600, 1), make_sentences(600, 2)
    noisy = nb.corrupt(
        truth, "symmetric", NOISE_RATE, NUM_CLASSES, generator=torch.Generator().manual_seed(0)
    )
    data = [{"input_ids": x, "labels": y} for x, y in zip(words, noisy.labels, strict=True)]
    bound = nb.noise_bound(nb.CrossEntropy(), NOISE_RATE, NUM_CLASSES)
    for name, level in {"plain": 0.0, "bounded": bound}.items():
        set_seed(0)
        config = BertConfig(
            vocab_size=WORDS, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
            intermediate_size=64, max_position_embeddings=LENGTH, num_labels=NUM_CLASSES,
        )  # fmt: skip
        model = BertForSequenceClassification(config)
        bounded = train(model, data, level, epochs)
        hits = model.eval()(test_words).logits.argmax(1) == test_truth
        print(
            f"{name} at {level:.3f}: {bounded.share_below:.0%} of the steps uphill, accuracy on "
            f"clean test labels {hits.float().mean():.1%}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=40)
    main(parser.parse_args().epochs)
