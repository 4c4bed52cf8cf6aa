"""``noisebound suspects FILE --tokens`` ranks tokens and spans, and shows them in context."""

import numpy as np
import polars as pl
import pytest

from noisebound.cli import main

TAGS = ["O", "B-PER", "I-PER"]


@pytest.fixture
def corpus(tmp_path):
    """A CoNLL file in which the first sentence has lost its span, and probabilities."""
    random = np.random.default_rng(0)
    lines, rows = [], []
    for number in range(60):
        true = [0, 1, 2, 0, 0] if number % 2 else [0, 0, 1, 0, 0]
        given = [0] * 5 if number in (0, 7, 20) else true
        words = [f"w{number}", "=met", "<b>Ann", "Lee", "."]
        lines += [*(f"{word}\t{TAGS[tag]}" for word, tag in zip(words, given, strict=True)), ""]
        rows.append(np.eye(3)[true] * 0.9 + random.dirichlet([1, 1, 1], 5) * 0.1)
    (tmp_path / "train.conll").write_text("\n".join(lines), encoding="utf-8")
    np.savez(tmp_path / "probs.npz", *rows, classes=TAGS)
    return tmp_path


def run(*arguments):
    with pytest.raises(SystemExit) as end:
        main([str(each) for each in arguments])
    return end.value.code


def test_tables_and_page(corpus, capsys):
    out = corpus / "s.csv"
    command = ["suspects", corpus / "train.conll", "--tokens", "--probs", corpus / "probs.npz"]
    assert run(*command, "--out", out) == 0
    printed = capsys.readouterr()
    assert (
        "300 labels of tokens in 60 sentences, of which about 4 are probably wrong" in printed.out
    )
    assert "estimated noise rate of the tokens" in printed.out
    tokens = pl.read_csv(out)
    assert tokens.columns == ["line", "sentence", "position", "word", "label",
                              "probability_wrong", "score", "suggested"]  # fmt: skip
    assert len(tokens) == 300
    assert {*tokens["sentence"].head(4)} == {0, 7, 20}
    spans = pl.read_csv(corpus / "s-spans.csv")
    assert len(spans) == 60
    top = spans.filter(pl.col("sentence") == 7).to_dicts()[0]
    assert (top["label"], top["suggested"], top["suggested_words"]) == (None, "PER", "'=met <b>Ann")
    assert top["line"] == 7 * 6 + 2
    page = (corpus / "s.html").read_text(encoding="utf-8")
    assert "w7 <mark>=met &lt;b&gt;Ann</mark> Lee ." in page
    assert "PER: =met &lt;b&gt;Ann" in page
    assert "<mark>&lt;b&gt;Ann</mark>" in page
    assert page.count("<mark>") == 3 + 64


def test_parts_of_speech_have_no_spans(corpus):
    text = (corpus / "train.conll").read_text(encoding="utf-8")
    words = text.replace("B-PER", "VERB").replace("I-PER", "NOUN").replace("\tO", "\tX")
    (corpus / "pos.conll").write_text(words, encoding="utf-8")
    classes = ["--classes", "X", "VERB", "NOUN"]
    run("suspects", corpus / "pos.conll", "--tokens", "--probs", corpus / "probs.npz",
        "--out", corpus / "p.csv", "--page", corpus / "q.html", *classes)  # fmt: skip
    assert not (corpus / "p-spans.csv").exists()
    assert "The most suspect spans" not in (corpus / "q.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--probs", "p.npz"], "--probs and --classes need --tokens"),
        (["--tokens", "--target", "y"], "--target does not apply to --tokens"),
        (["--tokens", "data"], "--tokens takes one file"),
        (["--tokens"], "pass a file of them as --probs"),
    ],
)
def test_options_that_do_not_fit(corpus, arguments, message, capsys):
    assert run("suspects", corpus / "train.conll", *arguments, "--out", corpus / "s.csv") == 2
    assert message in capsys.readouterr().err
