"""Runs go to the Hugging Face hub as they are, without private data, and come back from there."""

import json
import shutil

import numpy as np
import polars as pl
import pytest
from huggingface_hub import ModelCard

import noisebound as nb
from hub_on_disk import use_hub_on_disk
from noisebound.data import EmbeddedBy
from noisebound.errors import RunError
from noisebound.runs.hub import _public_name, write_published
from noisebound.runs.saved_model import change_backbone

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
ROWS = pl.DataFrame(X, schema=["a", "b", "c"]).with_columns(
    kind=pl.Series(np.where((X[:, 0] > 0) ^ (RNG.random(200) < 0.1), "up", "down")),
    patient=pl.Series([f"Ms. Secret {i}" for i in range(200)]),
)
PUBLISHED = {
    "README.md", "config.json", "model.json", "model.safetensors", "estimators.skops",
    "data.json", "result.json", "scores.json", "validation.safetensors",
}  # fmt: skip


def table(tmp_path):
    ROWS.write_csv(tmp_path / "table.csv")
    return tmp_path / "table.csv"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub")
    known = {"target": "kind", "id": "patient", "learner": "trees", "quick": True, "show": False}
    run = nb.fit(table(folder), out=folder / "run", logger="csv", **known)
    audit = run.audit()
    for position in audit.next(12):
        audit.decide(position, "right", by="Mx. Reviewer")
    return run


@pytest.fixture(scope="module")
def local(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    write_published(run, folder, "user/flowers")
    return folder


def test_what_goes_to_the_hub(run, local):
    assert {path.name for path in local.iterdir()} == PUBLISHED
    private = [b"Secret", b"Reviewer", str(run.path.parent).encode()]
    for path in local.iterdir():
        assert not any(words in path.read_bytes() for words in private), path


def test_a_local_copy_is_a_run(run, local):
    copy = nb.load_run(local)
    np.testing.assert_array_equal(copy.predict_proba(ROWS), run.predict_proba(ROWS))
    assert copy.predict_sets(ROWS[:5]) == run.predict_sets(ROWS[:5])
    assert copy.scores == run.scores
    assert copy.noise.rate == run.noise.rate
    with pytest.raises(nb.DataError, match="pass the same `data`"):
        copy.suspects()
    assert len(copy.suspects(ROWS)) == 200


def test_the_model_card(run, local):
    card = ModelCard.load(local / "README.md")
    assert card.data.library_name == "noisebound"
    assert card.data.pipeline_tag == "tabular-classification"
    for words in (
        "# flowers",
        f"`{run.result.inputs}`",
        run.noise.estimate.summary,
        run.recipe.label,
        run.recipe.reason,
        run.scores.words,
        run.audit().result().words,
        'nb.load_run("hf:user/flowers")',
    ):
        assert words in card.text


def test_to_the_hub_and_back(run, tmp_path, monkeypatch):
    created = use_hub_on_disk(monkeypatch, tmp_path)
    assert run.push_to_hub("user/flowers").startswith("https://huggingface.co/user/flowers/commit/")
    assert created == [("user/flowers", {"private": True, "exist_ok": True})]
    found = nb.load_run("hf:user/flowers")
    assert {path.name for path in found.path.iterdir()} == PUBLISHED
    np.testing.assert_array_equal(found.predict(ROWS), run.predict(ROWS))
    assert nb.load_run("hf:user/flowers@main").path == found.path
    with pytest.raises(RunError, match=r"the run hf:user/flowers@v2 cannot be fetched"):
        nb.load_run("hf:user/flowers@v2")


def test_neighbors_are_not_published_unasked(tmp_path):
    run = nb.fit(
        ROWS, target="kind", exclude="patient", learner="neighbors", quick=True, show=False
    )
    with pytest.raises(RunError, match="hold the features of all training examples"):
        run.push_to_hub("user/neighbors")
    write_published(run, tmp_path, "user/neighbors", with_examples=True)
    assert nb.load_run(tmp_path).predict(ROWS).shape == (200,)


def test_annotators_have_no_names(tmp_path):
    votes = {who: ROWS["kind"].to_list() for who in ("Ann", "Bob")}
    frame = ROWS.drop("kind", "patient").with_columns(**{k: pl.Series(v) for k, v in votes.items()})
    run = nb.fit(frame, target=["Ann", "Bob"], learner="trees", quick=True, show=False)
    write_published(run, tmp_path, "user/crowd")
    text = (tmp_path / "result.json").read_text()
    assert '"Ann"' not in text
    assert "Ann" not in (tmp_path / "data.json").read_text()
    assert json.loads(text)
    assert nb.load_run(tmp_path).annotators["annotator"].to_list() == ["annotator 1", "annotator 2"]


def test_local_encoders_have_no_path(run, tmp_path):
    copy = shutil.copytree(run.path, tmp_path / "copy")
    name = f"hf:{tmp_path}/Ms. Secret/encoder"
    change_backbone(copy, EmbeddedBy(name, None, "features"))
    origin = json.loads((copy / "data.json").read_text()) | {"backbone": name}
    (copy / "data.json").write_text(json.dumps(origin))
    (tmp_path / "out").mkdir()
    write_published(nb.load_run(copy), tmp_path / "out", "user/flowers")
    for file in ("README.md", "model.json", "data.json"):
        assert "Secret" not in (tmp_path / "out" / file).read_text()
    assert nb.load_run(tmp_path / "out").saved_model.card.backbone.name == "hf:encoder"
    assert _public_name(f"hf:{tmp_path}/Ms. Secret/encoder?pooling=cls") == "hf:encoder?pooling=cls"
    assert _public_name(f"onnx:{tmp_path}/encoder.onnx") == "onnx:encoder.onnx"
    assert _public_name("hf:facebook/dinov2-small") == "hf:facebook/dinov2-small"
