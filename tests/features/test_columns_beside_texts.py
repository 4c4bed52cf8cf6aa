"""The other columns of a table beside the embeddings of its texts."""

import json

import numpy as np
import polars as pl
import pytest
import torch
from commands import command

import noisebound as nb
from noisebound.data import ReadingOptions, load
from noisebound.data.text_columns import Terms
from noisebound.errors import DataError
from noisebound.features import load_embedded, parse_backbone

QUICK = {"loss": "ce", "epochs": 60, "learning_rate": 1e-2, "batch_size": 20, "show": False}
QUICK |= {"measure_every": 60}  # no test looks at the accuracies before the end


class Lengths(torch.nn.Module):
    """The length of each text, which says little about it."""

    def __init__(self):
        super().__init__()
        self.factor = torch.nn.Parameter(torch.tensor(1.0))

    def forward(self, texts):
        return self.factor * torch.tensor([[float(len(text)), 1.0] for text in texts])


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Texts that do not predict the label, and numbers that determine it."""
    rng = np.random.default_rng(0)
    labels = rng.permutation(["good", "bad"] * 40)
    frame = pl.DataFrame(
        {
            "review": [f"text of {'some ' * rng.integers(9)}words {k}" for k in range(80)],
            "stars": np.where(labels == "good", 4.0, 2.0) + rng.normal(0, 0.3, 80),
            "shop": rng.choice(["north", "south"], 80),
            "label": labels,
        }
    )
    folder = tmp_path_factory.mktemp("table")
    frame[:60].write_csv(folder / "train.csv")
    frame[60:].write_csv(folder / "test.csv")
    return folder / "train.csv"


@pytest.fixture(scope="module")
def run(table):
    """A run on the table, trained once for the tests that only use it."""
    settings = {"target": "label", "text": "review", "test": table.with_name("test.csv")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NOISEBOUND_CACHE", str(table.with_name("cache")))
        return nb.fit(table, out=table.with_name("run"), backbone=Lengths(), **settings, **QUICK)


def test_a_loaded_table_is_embedded_and_encoded_as_the_model_was_trained(run, table):
    test = table.with_name("test.csv")
    loaded = load(table, target="label", text="review", test=test)
    assert run.predictions(loaded).equals(run.predictions(test))


def test_the_other_columns_are_learned_from(run, table):
    card = run.saved_model.card
    assert card.input_shape == (2 + 1 + 2,)  # the vector, the stars, the two shops
    assert card.encoder.types == {"review": "text", "stars": "number", "shop": "category"}
    assert card.mean[2:] == (0.0,) * 3  # the table's encoder has scaled them
    assert run.final("test_top1") == 1.0
    new = pl.read_csv(table.with_name("test.csv"))
    again = nb.load_run(run.path, backbone=Lengths())
    assert (again.predict(new) == new["label"].to_numpy()).all()
    assert (again.predict(table.with_name("test.csv")) == new["label"].to_numpy()).all()
    assert again.suspects().height == 60


def test_numbers_are_scaled_by_the_rows_that_are_trained_on(run, table):
    stars = run.saved_model.card.encoder.columns[1]
    train = pl.read_csv(table)["stars"]
    assert stars.mean != pytest.approx(train.mean(), rel=1e-6)
    assert stars.mean == pytest.approx(train.mean(), rel=0.1)


def test_texts_without_the_other_columns_are_refused(run):
    with pytest.raises(DataError, match="a table of the columns review, stars, shop"):
        run.predict(["a text"])
    with pytest.raises(DataError, match="lacks the columns stars, shop"):
        run.predict(pl.DataFrame({"review": ["a text"]}))


def test_rows_whose_text_is_empty_lose_their_columns_too(table, tmp_path):
    frame = pl.read_csv(table).with_columns(
        pl.when(pl.arange(pl.len()) == 3).then(pl.lit(" ")).otherwise("review").alias("review")
    )
    settings = {"target": "label", "text": "review", "skip_bad": True}
    splits = load_embedded(frame, parse_backbone(Lengths()), ReadingOptions(**settings))
    (note,) = [note for note in splits.notes if "empty" in note]  # and none that it was kept
    assert note == "1 texts that cannot be read were left out:\n  text 3 (the text is empty)"
    run = nb.fit(frame, out=tmp_path / "other", backbone=Lengths(), **settings, **QUICK)
    suspects = run.suspects(frame)
    assert sorted(suspects["example"].cast(int)) == [place for place in range(60) if place != 3]
    texts = frame["review"].gather(suspects["example"].cast(int))
    assert suspects["text"].to_list() == texts.to_list()
    said = run.predictions(frame, skip_bad=True)
    assert said["example"].to_list() == [place for place in range(60) if place != 3]
    labels = frame["label"].to_numpy()[said["example"].to_numpy()]
    assert (said["label"].to_numpy() == labels).all()


def test_a_column_called_row(table, tmp_path):
    frame = pl.read_csv(table).rename({"stars": "row"})
    settings = {"target": "label", "text": "review"} | QUICK | {"epochs": 1}
    run = nb.fit(frame, out=tmp_path / "run", backbone=Lengths(), **settings)
    assert run.saved_model.card.encoder.types["row"] == "number"


def test_the_noise_is_estimated_with_them(minilm, tmp_path, capsys):
    rng = np.random.default_rng(0)
    labels = ["good", "bad"] * 60
    stars = [4.0 if label == "good" else 2.0 for label in labels] + rng.normal(0, 0.1, 120)
    frame = pl.DataFrame({"review": [f"A text {k}" for k in range(120)], "stars": stars})
    frame.with_columns(label=pl.Series(labels)).write_csv(tmp_path / "all.csv")
    words = ["estimate", tmp_path / "all.csv", "--target", "label", "--text", "review"]
    words += ["--backbone", f"hf:{minilm}", "--epochs", 120, "--learning-rate", 0.01, "--json"]
    assert command(*words) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record.get("rejected") or record)["noise_rate"] < 0.1


def test_a_folder_of_embeddings_says_that_it_lacks_them(table, minilm, tmp_path, capsys):
    words = ["embed", table, "--target", "label", "--text", "review", "--backbone", f"hf:{minilm}"]
    assert command(*words, "--out", tmp_path / "vectors") == 0
    assert "the embeddings of the texts alone, without the columns stars, shop" in " ".join(
        capsys.readouterr().err.split()
    )


@pytest.mark.parametrize(("backbone", "fitted"), [(Lengths(), 0), (None, 1)])
def test_a_vocabulary_is_made_once_and_only_where_it_is_used(
    table, tmp_path, monkeypatch, backbone, fitted
):
    counts = []
    fit = Terms.fit.__func__
    monkeypatch.setattr(
        Terms,
        "fit",
        classmethod(lambda cls, kind, texts: counts.append(kind) or fit(cls, kind, texts)),
    )
    settings = {"target": "label", "text": "review"} | QUICK | {"epochs": 1}
    run = nb.fit(table, out=tmp_path / "run", backbone=backbone, **settings)
    assert counts == ["words", "letters"] * fitted
    assert run.suspects().height == 60
    assert nb.load_run(run.path, backbone=backbone).suspects().height == 60
    assert len(counts) == 2 * fitted


def churn(words_help, count=700):
    """A table with a free-text note: 14 % of its labels are wrong, and the columns carry signal."""
    rng = np.random.default_rng(0)
    usage, region = rng.normal(size=count), rng.choice(["north", "south"], count)
    mood = rng.choice([-1, 0, 1], count)
    logit = 4 * usage + (region == "south") + 6 * mood * words_help
    leaves = logit > np.quantile(logit, 0.8)
    filler = [f"{first}{second}" for first in "abcdefgh" for second in ("ling", "tion", "ment")]
    notes = [
        " ".join([*rng.choice(filler, 12), {-1: "thanks", 0: "hello", 1: "cancel"}[each]])
        for each in mood
    ]
    is_wrong = rng.random(count) < 0.14
    labels = np.where(leaves ^ is_wrong, "leave", "stay")
    frame = pl.DataFrame({"usage": usage, "region": region, "note": notes, "label": labels})
    return frame, np.where(leaves, "leave", "stay")


def accuracies(frame, truth, tmp_path, **settings):
    """Train on the first rows with and without the text; return both runs and their accuracies."""
    runs, found = [], []
    for name, data in (("with", frame), ("without", frame.drop("note"))):
        text = {"text": "note"} if name == "with" else {}
        own = settings if name == "with" else {}
        plain = {"loss": "ce", "epochs": 30, "learning_rate": 1e-2, "batch_size": 100}
        plain |= {"measure_every": 30, "target": "label", "show": name == "with", "report": False}
        run = nb.fit(data[:500], out=tmp_path / name, **plain, **text, **own)
        runs.append(run)
        found.append((run.predict(data[500:].drop("label")) == truth[500:]).mean())
    return runs, found


def test_words_that_do_not_help_are_left_out(tmp_path, capsys):
    frame, truth = churn(words_help=False)
    (run, without), (accuracy, expected) = accuracies(frame, truth, tmp_path)
    assert accuracy == expected > 0.8  # 0.675 with the words at full scale
    said = " ".join(capsys.readouterr().err.split())
    assert "text 'note': not used: it does not help (held-out log loss 0." in said
    again = nb.load_run(run.path)
    assert again.saved_model.card.encoder.text_columns == ()
    new = frame[500:].drop("label")
    assert again.predictions(new).equals(without.predictions(new.drop("note")))
    assert "text" in again.suspects(frame[:500]).columns  # people still see it


def test_words_that_help_are_scaled_beside_the_columns(tmp_path):
    frame, truth = churn(words_help=True)
    (run, _), (accuracy, without) = accuracies(frame, truth, tmp_path)
    assert accuracy > without + 0.03
    (column,) = run.saved_model.card.encoder.texts
    assert 0 < column.scale < 1
    new = frame[500:].drop("label")
    assert nb.load_run(run.path).predictions(new).equals(run.predictions(new))


def test_embeddings_that_do_not_help_have_no_weight(tmp_path):
    frame, truth = churn(words_help=False)
    (run, _), (accuracy, without) = accuracies(frame, truth, tmp_path, backbone=Lengths())
    assert run.saved_model.card.encoder.text_scale == 0
    assert accuracy > without - 0.03
    other = frame[500:].with_columns(note=pl.lit("a note of some other length"))
    probs = run.predict_proba(frame[500:])
    np.testing.assert_allclose(run.predict_proba(other), probs, atol=1e-4)
