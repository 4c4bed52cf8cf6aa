import hashlib
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from noisebound.data import load
from noisebound.data.table_encoder import UnseenCategoryWarning
from noisebound.errors import DataError, RunError
from noisebound.runs import SavedModel, train_run
from noisebound.runs.folder import RunFolder
from noisebound.runs.predict import write_frame
from noisebound.runs.saved_model import ModelCard
from noisebound.system.files import load_tensors, save_tensors
from noisebound.training import TrainingConfig
from published_files import plain_image
from training_data import noisy_clouds, noisy_images

QUICK = TrainingConfig(loss="ce", epochs=40, batch_size=50, model="mlp")


@pytest.fixture(scope="module")
def table_run(tmp_path_factory):
    """Trained on a table: the class is the sign of x, unless the city is Rome."""
    folder = tmp_path_factory.mktemp("table")
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "x": rng.normal(size=400),
            "city": rng.choice(["Rome", "Oslo"], 400),
            "noise": rng.normal(size=400),
        }
    ).with_columns(
        kind=pl.when(pl.col("city") == "Rome")
        .then(pl.lit("roman"))
        .otherwise(pl.when(pl.col("x") > 0).then(pl.lit("plus")).otherwise(pl.lit("minus")))
    )
    frame.write_csv(folder / "train.csv")
    return train_run(load(folder / "train.csv", target="kind"), QUICK, folder / "run")


def test_new_rows_of_a_table(table_run, tmp_path):
    new = pl.DataFrame(
        {"city": ["Rome", "Oslo", "Oslo"], "noise": [0.0, 0.0, 0.0], "x": [0.1, 2.0, -2.0]}
    )
    new.write_parquet(tmp_path / "new.parquet")
    predictions = table_run.predictions(tmp_path / "new.parquet")
    assert predictions["label"].to_list() == ["roman", "plus", "minus"]
    assert predictions.columns == ["example", "label", "p(minus)", "p(plus)", "p(roman)"]
    sums = predictions.select(pl.sum_horizontal("^p.*$")).to_series()
    assert sums.to_list() == pytest.approx([1, 1, 1])


def test_a_table_that_was_loaded_is_encoded_as_the_model_was_trained(table_run):
    """The encoder of the loaded table knows the rows that validation kept, too."""
    path = table_run.path.parent / "train.csv"
    loaded = load(path, target="kind")
    assert table_run.predictions(loaded).equals(table_run.predictions(path))


def test_categories_that_training_did_not_see(table_run, tmp_path):
    (tmp_path / "new.csv").write_text("x,city,noise\n2,Oslo,0\n1,Bern,0\n1,Bern,0\n1,Lyon,0\n")
    note = "column 'city': 3 of 4 rows have categories that the training data lacks: 'Bern', 'Lyon'"
    with pytest.warns(UnseenCategoryWarning, match=note):
        assert len(table_run.predictions(tmp_path / "new.csv")) == 4


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x,city\n1,Rome\n", "lacks the columns noise"),
        ("x,city,noise\na,Rome,0\n", "'x' must hold numbers, got String"),
    ],
)
def test_rows_of_another_shape(table_run, tmp_path, text, complaint):
    (tmp_path / "new.csv").write_text(text)
    with pytest.raises(DataError, match=complaint):
        table_run.predictions(tmp_path / "new.csv")


def test_data_of_another_kind(table_run, tmp_path):
    (tmp_path / "photos").mkdir()
    with pytest.raises(DataError, match="photos has no images"):
        table_run.predictions(tmp_path / "photos")
    (tmp_path / "photos" / "one.png").write_bytes(plain_image(9, 8, "PNG"))
    for images in (tmp_path / "photos", tmp_path / "photos" / "one.png"):
        with pytest.raises(DataError, match=r"takes features, and .* holds images"):
            table_run.predictions(images)
    np.save(tmp_path / "x.npy", np.zeros((3, 9)))
    with pytest.raises(DataError, match=r"inputs of shape \[4\], got \[9\]"):
        table_run.predictions(tmp_path / "x.npy")
    with pytest.raises(DataError, match="neither a file or folder"):
        table_run.predictions(tmp_path / "nowhere.csv")


def test_arrays(tmp_path):
    splits = noisy_clouds()
    run = train_run(splits, QUICK, tmp_path / "run")
    np.savez(tmp_path / "new.npz", X=splits.test.inputs.numpy())
    np.save(tmp_path / "new.npy", splits.test.inputs.numpy())
    expected = run.saved_model.probabilities(splits.test.inputs)
    for name in ("new.npz", "new.npy"):
        predictions = run.predictions(tmp_path / name)
        got = torch.tensor(predictions.select("^p.*$").to_numpy())
        torch.testing.assert_close(got, expected)
    (tmp_path / "t.csv").write_text("a\n1\n")
    with pytest.raises(
        DataError, match=r"trained on arrays, and \S+t.csv is a table: give an? npz"
    ):
        run.predictions(tmp_path / "t.csv")


def test_folder_of_images(tmp_path):
    for shade, name in ((20, "dark"), (220, "light")):
        (tmp_path / "train" / name).mkdir(parents=True)
        for i in range(20):
            content = plain_image(shade + i, 16, "PNG")
            (tmp_path / "train" / name / f"{i}.png").write_bytes(content)
    run = train_run(load(tmp_path / "train"), QUICK, tmp_path / "run")
    (tmp_path / "new" / "deep").mkdir(parents=True)
    (tmp_path / "new" / "one.jpg").write_bytes(plain_image((10, 10, 10), 50))
    (tmp_path / "new" / "deep" / "two.png").write_bytes(plain_image(230, 9, "PNG"))
    (tmp_path / "new" / "deep" / "._two.png").write_bytes(b"what macOS leaves beside a file")
    assert len(run.predictions(tmp_path / "new")) == 2
    one = tmp_path / "new" / "one.jpg"
    assert run.predictions(one).select("example", "label").rows() == [("one.jpg", "dark")]
    (tmp_path / "new" / "sound.wav").write_bytes(b"")
    with pytest.raises(DataError, match=r"expected an image or .*\.jsonl, .*\.xlsx"):
        run.predict(tmp_path / "new" / "sound.wav")
    with pytest.raises(DataError, match="takes images, got the list of texts: give the folder"):
        run.predict([str(one)])
    with pytest.raises(DataError, match="give images by the path of their folder"):
        run.predict([one])
    with pytest.raises(DataError, match="there are no examples: give at least one"):
        run.predict([])
    (tmp_path / "new" / "bad.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"bad\.png \(not an image\)"):
        run.predictions(tmp_path / "new")
    predictions = run.predictions(tmp_path / "new", skip_bad=True)
    assert dict(predictions.select("example", "label").iter_rows()) == {
        "deep/two.png": "light",
        "one.jpg": "dark",
    }


def test_images_on_another_scale(tmp_path):
    run = train_run(noisy_images(), QUICK.model_copy(update={"epochs": 1}), tmp_path / "run")
    np.save(tmp_path / "new.npy", noisy_images().test.inputs.numpy() / 255)
    with pytest.raises(DataError, match="trained on uint8 inputs, got float32"):
        run.predictions(tmp_path / "new.npy")


def test_predictions_as_files(table_run, tmp_path):
    (tmp_path / "new.csv").write_text("x,city,noise\n1,Rome,0\n")
    predictions = table_run.predictions(tmp_path / "new.csv")
    write_frame(predictions, tmp_path / "out.csv")
    write_frame(predictions, tmp_path / "out.parquet")
    assert pl.read_parquet(tmp_path / "out.parquet").equals(predictions)
    assert pl.read_csv(tmp_path / "out.csv")["label"].to_list() == predictions["label"].to_list()
    with pytest.raises(DataError, match=r"\.csv or \.parquet, got out\.xlsx"):
        write_frame(predictions, tmp_path / "out.xlsx")


def test_folder_without_a_model(tmp_path):
    with pytest.raises(RunError, match=r"holds no trained model: model\.json is missing"):
        SavedModel.load(tmp_path)


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_damaged_model(tmp_path, name):
    train_run(noisy_clouds(), QUICK.model_copy(update={"epochs": 1}), tmp_path / "run")
    path = tmp_path / "run" / name
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(DataError, match="is damaged"):
        SavedModel.load(tmp_path / "run")


@pytest.mark.parametrize(
    "changes",
    [
        {"std": [0.0] * 6},
        {"std": [float("nan")] * 6},
        {"std": [1e-60] * 6},
        {"mean": [0.0]},
        {"mean": [0.5] * 6},
        {"mean": [1e300] * 6},
        {"input_shape": [-6]},
        {"input_shape": [2**40]},
        {"input_shape": [2**30], "mean": [], "std": []},
        {"input_shape": [2**30] * 9, "mean": [], "std": []},
        {"class_names": ["a", "a", "b", "c"]},
        {"class_names": ["a", "b", "c", "d", "e"]},
    ],
)
def test_a_changed_card_is_refused(tmp_path, changes):
    train_run(noisy_clouds(), QUICK.model_copy(update={"epochs": 1}), tmp_path / "run")
    path = tmp_path / "run" / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(DataError, match="does not match the checksum"):
        SavedModel.load(tmp_path / "run")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"format": 99}, "of another version of noisebound: format"),
        ({"class_names": ["a", "b", "c", "d", "e"]}, "are not this model's"),
    ],
)
def test_a_card_of_another_version_or_model(tmp_path, changes, complaint):
    train_run(noisy_clouds(), QUICK.model_copy(update={"epochs": 1}), tmp_path / "run")
    files = RunFolder(tmp_path / "run")
    files.card.write_text(json.dumps(json.loads(files.card.read_text()) | changes))
    weights, _ = load_tensors(files.weights)
    digest = hashlib.sha256(files.card.read_bytes()).hexdigest()
    save_tensors(files.weights, weights, {"card": digest})
    with pytest.raises(DataError, match=complaint):
        SavedModel.load(tmp_path / "run")


def test_a_flipped_bit_in_the_weights_is_noticed(tmp_path):
    train_run(noisy_clouds(), QUICK.model_copy(update={"epochs": 1}), tmp_path / "run")
    path = tmp_path / "run" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-9] ^= 4
    path.write_bytes(content)
    with pytest.raises(DataError, match="does not match its checksum"):
        SavedModel.load(tmp_path / "run")


def test_a_folder_may_be_a_string(tmp_path):
    train_run(noisy_clouds(), QUICK.model_copy(update={"epochs": 1}), tmp_path / "run")
    assert SavedModel.load(str(tmp_path / "run")).card.class_names == ("a", "b", "c", "d")


def test_arrays_and_frames_in_memory(table_run, tmp_path):
    splits = noisy_clouds()
    run = train_run(splits, QUICK.model_copy(update={"epochs": 1}), tmp_path / "run")
    array = splits.test.inputs.numpy()
    np.testing.assert_array_equal(
        run.predict_proba(array), run.saved_model.probabilities(array).numpy()
    )
    rows = {"city": ["Rome", "Oslo"], "noise": [0.0, None], "x": [0.1, 2.0]}
    for frame in (pl.DataFrame(rows), pd.DataFrame(rows)):
        assert table_run.predict(frame).tolist() == ["roman", "plus"]
        encoder = table_run.saved_model.card.encoder
        torch.testing.assert_close(encoder.transform(frame), encoder.transform(pl.DataFrame(rows)))


def test_labels_come_back_in_the_type_they_had():
    card = {"model": None, "input_shape": (1,), "input_dtype": "float32", "mean": (), "std": ()}
    for names, expected in (
        (("3", "7"), np.array([7, 3])),
        (("False", "True"), np.array([True, False])),
        (("01", "1"), np.array(["1", "01"])),
    ):
        model = SavedModel(torch.nn.Identity(), ModelCard(class_names=names, **card))
        classes = model.classes(torch.tensor([1, 0]))
        assert classes.dtype == expected.dtype
        assert classes.tolist() == expected.tolist()
