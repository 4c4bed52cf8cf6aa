"""The transformer of scikit-learn's, on real encoders."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from PIL import Image
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from noisebound.errors import DataError
from noisebound.integrations.sklearn import Embedder, NoiseBoundedClassifier


def test_a_pipeline_of_texts(reviews, minilm):
    texts, labels = reviews
    classifier = NoiseBoundedClassifier(noise_rate=0.0, max_iter=20, random_state=0)
    pipeline = make_pipeline(Embedder(f"hf:{minilm}"), classifier).fit(texts, labels)
    new = np.array(["A wolf howls in the woods.", "Investors sold their stocks."], dtype=object)
    assert pipeline.predict(new).tolist() == ["animals", "money"]
    assert pipeline[0].get_feature_names_out().shape == (384,)


def test_paths_and_arrays_of_images(photos, onnx_file):
    paths = sorted(photos.rglob("*.png"))
    labels = [path.parent.name for path in paths]
    pipeline = make_pipeline(clone(Embedder(f"onnx:{onnx_file}")), LogisticRegression())
    pipeline.fit([str(path) for path in paths], labels)
    assert pipeline.score(paths, labels) == 1
    pixels = np.stack([np.array(Image.open(path)) for path in (paths[3], paths[3])])
    expected = pipeline[0].transform([paths[3]])
    np.testing.assert_allclose(pipeline[0].transform(pixels)[:1], expected, atol=1e-4)


def test_images_of_several_sizes(onnx_file):
    images = [np.zeros((size, 40, 3), dtype=np.uint8) for size in (30, 40)]
    for given in (images, images[:1] * 2 + [images[0].transpose(1, 0, 2)]):
        with pytest.raises(DataError, match=r"these have several: bring images to one size, or gi"):
            Embedder(f"onnx:{onnx_file}").fit(images[:1]).transform(given)


def test_names_of_images_are_images_to_an_encoder_of_both(photos):
    paths = sorted(photos.rglob("*.png"))[:4]
    embedder = Embedder(lambda given: [[isinstance(each, str)] for each in given], image_size=8)
    assert not embedder.fit_transform([str(path) for path in paths]).any()
    assert embedder.fit_transform(["a cat.png", "a dog.png"]).all()


def test_invalid_inputs_are_refused(onnx_file, tmp_path):
    embedder = Embedder(f"onnx:{onnx_file}")
    with pytest.raises(
        DataError, match=r"none of the images can be read:\n.*absent\.png \(No such"
    ):
        embedder.fit([str(tmp_path / "absent.png")])
    with pytest.raises(DataError, match="put it in a list"):
        embedder.fit("photo.png")
    with pytest.raises(DataError, match="takes images, and these examples are rows of numbers"):
        embedder.fit(np.zeros((3, 4)))


def lengths(texts):
    return [[len(text), text.count(" ")] for text in texts]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(["a text", "word"], index=[7, 3]),
        pd.DataFrame({"t": ["a text", "word"]}),
        pl.DataFrame({"t": ["a text", "word"]}),
        np.array([["a text"], ["word"]]),
    ],
)
def test_a_column_of_texts_in_any_form(column):
    assert Embedder(lengths).fit_transform(column).tolist() == [[6, 1], [4, 0]]


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, " "])
def test_a_text_that_is_missing(missing):
    with pytest.raises(
        DataError, match=r"1 of 3 texts .*:\n  text 1 \(the text is empty\)"
    ) as said:
        Embedder(lengths).fit_transform(["a text", missing, "word"])
    assert "skip_bad" not in str(said.value)


def test_examples_that_cannot_be_read_are_refused_by_fit_and_transform():
    embedder = Embedder(lengths).fit(["a"])
    assert embedder.n_features_out_ == 2
    for method in (embedder.fit, embedder.transform):
        with pytest.raises(DataError, match=r"1 of 2 texts .*:\n  text 0 \(the text is empty\)"):
            method(["", "a"])
    with pytest.raises(DataError, match=r"none of the texts .*:\n  text 0 .*\n  text 1 "):
        embedder.fit(["", " "])


def test_nothing_and_generators_are_refused():
    embedder = Embedder(lengths).fit(["a"])
    for method in (embedder.fit, embedder.transform):
        with pytest.raises(DataError, match="there are no examples: give at least one"):
            method([])
        with pytest.raises(DataError, match="got generator of object: make a list"):
            method(text for text in ("a", "b"))


def test_inputs_that_are_not_a_column_of_texts():
    with pytest.raises(DataError, match="expected texts, got 5 at position 1"):
        Embedder(lengths).fit_transform(["a text", 5])
    with pytest.raises(DataError, match=r"one column of texts or paths, got 2: .*ColumnTransf"):
        Embedder(lengths).fit_transform(pd.DataFrame({"t": ["a"], "u": ["b"]}))
