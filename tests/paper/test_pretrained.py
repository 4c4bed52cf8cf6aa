"""The experiment on embeddings, at a small scale: digits by an encoder that passes on pixels."""

import json

import onnx
import pytest
from onnx import TensorProto, helper

from noisebound.errors import InvalidValueError
from noisebound.paper.outcome.run_report import report_on
from noisebound.paper.protocol.columns import COLUMNS, PRETRAINED, find_columns
from noisebound.paper.protocol.contenders import PRETRAINED_CONTENDERS
from noisebound.paper.protocol.methods import BOUNDED
from noisebound.paper.protocol.plan import Plan
from noisebound.paper.protocol.presets import FEATURES
from noisebound.paper.protocol.sources import DataSources, noisy_splits
from noisebound.paper.reproduce import Request, reproduce
from noisebound.paper.runner.run_store import RunStore
from noisebound.paper.runner.workers import Workers
from noisebound.report.page import to_html

COLUMN = COLUMNS["digits-0.4"]
SMALL = FEATURES.override(["epochs=2", "train_examples=300", "batch_size=50", "measure_every=2"])
SIMPLE = ("plain", "early", "logistic", "neighbors", "cleanlab", "mae", "gce", "nce-mae", "elr")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """Return an ONNX file whose vectors are the pixels of images of 8×8."""
    images = helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 3, 8, 8])
    vectors = helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["batch", 192])
    graph = helper.make_graph(
        [helper.make_node("Flatten", ["images"], ["vectors"])], "pixels", [images], [vectors]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    path = tmp_path_factory.mktemp("encoder") / "pixels.onnx"
    onnx.save(model, path)
    return path


def request_of(encoder, only=None, seeds=(0,)):
    plan = Plan(SMALL, seeds, DataSources(backbones=(f"onnx:{encoder}",)))
    return Request("pretrained", plan, ["digits-0.4"], weights="averaged", only=only)


@pytest.fixture(scope="module")
def outcome(encoder, tmp_path_factory):
    """Return the folder of an experiment with all contenders, and what came of it."""
    out = tmp_path_factory.mktemp("pretrained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NOISEBOUND_CACHE", str(out / "cache"))
        return out, reproduce(request_of(encoder), out, Workers(jobs=1, threads=1))


def test_all_contenders_come_to_a_table(outcome):
    out, done = outcome
    assert done.failures == {}
    accuracies, standing = done.tables
    texts = {row.label: row.cells[0].text for row in accuracies.rows}
    assert set(texts) == {each.label for each in PRETRAINED_CONTENDERS.values()}
    assert "–" not in texts.values()
    assert standing.rows[0].cells[0].text == texts["auto: a recipe by trials, nothing given"]
    assert any("pixels.onnx, hash" in note for note in accuracies.notes)
    names = {path.name for path in out.iterdir()}
    assert {"pretrained-averaged.md", "pretrained-averaged-standing.csv"} <= names


def test_what_was_chosen_by_noisy_labels_is_kept(outcome, encoder):
    out, _ = outcome
    store = RunStore(out / "runs")
    chosen = {
        run.learner: json.loads(store.folder(run).learner.read_text())
        for run in request_of(encoder).runs()
        if run.learner != "network"
    }
    assert chosen["logistic"].keys() == {"C", "accuracy"}
    assert chosen["neighbors"].keys() == {"k", "accuracy"}
    assert chosen["cleanlab"]["C"] == chosen["logistic"]["C"]


def test_the_ceiling_is_not_the_best(outcome):
    """It knows which labels are right, so that it is no contender."""
    (table, _) = outcome[1].tables
    best = [row.label for row in table.rows if row.cells[0].is_best]
    assert best
    assert PRETRAINED_CONTENDERS["ceiling"].label not in best


def test_a_page_shows_this_table_alone(outcome):
    page = to_html(report_on(outcome[0]))
    assert "Heads on pretrained embeddings" in page
    assert "Where auto stands" in page
    assert "Nothing given: the noise is estimated" not in page


def test_only_some_rows_are_run_and_all_are_shown(outcome, encoder):
    out, _ = outcome
    request = request_of(encoder, only=["gce"], seeds=(0, 1))
    done = reproduce(request, out, Workers(jobs=1, threads=1))
    texts = {row.label: row.cells[0].text for row in done.tables[0].rows}
    assert "±" in texts["GCE"]
    assert texts["MAE"].endswith("[n = 1]")


def test_the_right_labels_alone(encoder):
    plan = request_of(encoder).plan
    (ceiling,) = plan.contender_runs(COLUMN, PRETRAINED_CONTENDERS["ceiling"])
    (plain,) = plan.contender_runs(COLUMN, PRETRAINED_CONTENDERS["plain"])
    right = noisy_splits(ceiling, plan.sources).train
    noisy = noisy_splits(plain, plan.sources).train
    assert right.inputs.shape[1:] == (192,)
    assert (right.labels == right.true_labels).all()
    assert len(right) == (noisy.labels == noisy.true_labels).sum()


def test_plain_and_early_share_a_run(encoder):
    plan = request_of(encoder).plan
    runs = {
        name: plan.contender_runs(COLUMN, each)[0] for name, each in PRETRAINED_CONTENDERS.items()
    }
    assert runs["plain"] == runs["early"]
    assert runs["plain"].training.measure_every == 1
    assert len({run.key for run in runs.values()}) == len(runs) - 1
    for name, run in runs.items():
        assert run.is_by(PRETRAINED_CONTENDERS[name])
        assert not run.judges_labels  # the next experiment judges estimates and suspects


def test_the_settings_and_the_rows_that_were_asked_for():
    assert [column.name for column in PRETRAINED] == [
        "cifar10n-aggregate",
        "cifar10n-random1",
        "cifar10n-worst",
        "cifar10-0.4",
        "cifar10-pairwise-0.4",
        "cifar100-0.4",
        "asym-cifar100-0.4",
        "cifar100-clean",
        "noisy-ag-news",
    ]
    simple = [name for name, each in PRETRAINED_CONTENDERS.items() if each.is_simple]
    assert sorted(simple) == sorted(SIMPLE)
    assert all(f"{loss}+rate" in PRETRAINED_CONTENDERS for loss in BOUNDED)


def test_a_data_set_stands_for_its_columns_of_the_experiment():
    names = [column.name for column in find_columns(["cifar100"], PRETRAINED)]
    assert names == ["cifar100-0.4", "asym-cifar100-0.4", "cifar100-clean"]
    paper = [column.name for column in find_columns(["cifar100"])]
    assert "cifar100-clean" not in paper


class TestBackbones:
    def test_the_experiment_needs_one(self):
        with pytest.raises(InvalidValueError, match="needs a pretrained encoder"):
            Request("pretrained", Plan(SMALL, (0,), DataSources())).check()

    def test_none_takes_texts(self, encoder):
        sources = DataSources(backbones=(f"onnx:{encoder}",))
        with pytest.raises(InvalidValueError, match=r"no `backbone` takes .* text"):
            sources.backbone_for("text")

    def test_a_run_knows_its_backbone_by_its_content(self, encoder, tmp_path):
        copy = tmp_path / "copy.onnx"
        copy.write_bytes(encoder.read_bytes())
        (run,) = request_of(encoder).plan.method_runs(COLUMN, "ce")
        (same,) = request_of(copy).plan.method_runs(COLUMN, "ce")
        assert run.key == same.key
        (other,) = Plan(SMALL, (0,), DataSources()).method_runs(COLUMN, "ce")
        assert other.key != run.key
        with pytest.raises(InvalidValueError, match="no `backbone` here has the hash"):
            DataSources().embedded("digits", run.backbone)

    def test_the_papers_tables_take_embeddings_too(self, encoder, tmp_path):
        plan = request_of(encoder).plan
        request = Request("own", plan, ["digits-0.4"], ["ce", "ce+b"])
        done = reproduce(request, tmp_path, Workers(jobs=1, threads=1))
        assert done.failures == {}
        assert [row.label for row in done.tables[0].rows] == ["CE", "CE+B"]
