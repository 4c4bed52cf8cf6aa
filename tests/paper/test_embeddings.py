"""The paper's tables on embeddings: digits by an encoder that passes on pixels."""

import onnx
import pytest
from onnx import TensorProto, helper

from noisebound.errors import InvalidValueError
from noisebound.paper.page import report_on
from noisebound.paper.presets import FEATURES
from noisebound.paper.protocol import COLUMNS
from noisebound.paper.reproduce import Request, reproduce
from noisebound.paper.run import DataSources, Plan

COLUMN = COLUMNS["digits-0.4"]
SMALL = FEATURES.override(["epochs=2", "train_examples=300", "batch_size=50", "measure_every=2"])


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


def plan_of(encoder, seeds=(0,)):
    return Plan(SMALL, seeds, DataSources(backbones=(f"onnx:{encoder}",)))


def test_none_takes_texts(encoder):
    sources = DataSources(backbones=(f"onnx:{encoder}",))
    with pytest.raises(InvalidValueError, match=r"no `backbone` takes .* text"):
        sources.backbone_for("text")


def test_a_run_knows_its_backbone_by_its_content(encoder, tmp_path):
    copy = tmp_path / "copy.onnx"
    copy.write_bytes(encoder.read_bytes())
    (run,) = plan_of(encoder).runs(COLUMN, "ce")
    (same,) = plan_of(copy).runs(COLUMN, "ce")
    assert run.key == same.key
    (other,) = Plan(SMALL, (0,), DataSources()).runs(COLUMN, "ce")
    assert other.key != run.key
    with pytest.raises(InvalidValueError, match="no `backbone` here has the hash"):
        DataSources().load("digits", run.backbone)


def test_the_papers_tables_take_embeddings_too(encoder, tmp_path):
    plan = plan_of(encoder)
    request = Request("own", plan, ["digits-0.4"], ["ce", "ce+b"])
    done = reproduce(request, tmp_path, jobs=1)
    assert done.failures == {}
    assert [row.label for row in done.tables[0].rows] == ["CE", "CE+B"]


def test_a_row_with_fewer_seeds_shows_their_number(encoder, tmp_path):
    rows = ("own", plan_of(encoder), ["digits-0.4"])
    reproduce(Request(*rows, ["ce", "mae"]), tmp_path, jobs=1)
    more = plan_of(encoder, seeds=(0, 1))
    reproduce(Request("own", more, ["digits-0.4"], ["mae"]), tmp_path, jobs=1)
    (table,) = (each for each in report_on(tmp_path).sections[0].tables)
    texts = {row.label: row.cells[0].text for row in table.rows}
    assert "±" in texts["MAE"]
    assert texts["CE"].endswith("[n = 1]")


def test_the_notes_name_the_backbone(encoder, tmp_path):
    request = Request("own", plan_of(encoder), ["digits-0.4"], ["ce"])
    (table,) = reproduce(request, tmp_path, jobs=1).tables
    assert any("pixels.onnx, hash" in note for note in table.notes)
