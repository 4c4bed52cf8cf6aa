"""Embeddings that are made once, in whole shards, whatever interrupts them."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from noisebound.data import embeddings, load
from noisebound.data.files import Folder
from noisebound.errors import DataError
from noisebound.features import (
    EmbeddingCacheWarning,
    ImageFiles,
    TensorExamples,
    Texts,
    embed_once,
    parse_backbone,
)
from noisebound.features.embed import refuse_bad
from noisebound.features.examples import done_ahead, load_raw
from noisebound.system.files import load_tensors, save_rows


class Counted(torch.nn.Module):
    """The mean color of images; counts how many it was given, and may fail."""

    def __init__(self, fails_after=10**9):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        # Out of sight of the hash of the module, to which its own attributes are settings.
        self.tally = SimpleNamespace(calls=0, fails_after=fails_after)

    @property
    def calls(self):
        return self.tally.calls

    def forward(self, images):
        self.tally.calls += len(images)
        if self.calls > self.tally.fails_after:
            raise KeyboardInterrupt
        return images.mean((2, 3)) * self.weight


def images(n=20, seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (n, 3, 4, 4), dtype=np.uint8)
    return torch.from_numpy(pixels)


def cache_files(tmp_path):
    return sorted(path.name for path in (tmp_path / "cache" / "embeddings").rglob("*.safetensors"))


@pytest.fixture
def small_shards(monkeypatch):
    monkeypatch.setattr(embeddings, "SHARD_ROWS", 8)


@pytest.mark.usefixtures("small_shards")
def test_nothing_is_embedded_twice(tmp_path):
    module, pixels, said = Counted(), images(), []
    first = embed_once(TensorExamples(pixels), parse_backbone(module), said.append)
    torch.testing.assert_close(first.vectors, pixels.float().mean((2, 3)) / 255)
    assert module.calls == 20
    assert said[0].startswith("embedding 20 images with own:")
    again = embed_once(TensorExamples(pixels.clone()), parse_backbone(module), said.append)
    assert module.calls == 20
    assert torch.equal(first.vectors, again.vectors)
    assert "are in the cache" in said[1]
    assert len(cache_files(tmp_path)) == 1  # the shards have become one file


@pytest.mark.usefixtures("small_shards")
def test_an_interrupted_embedding_goes_on_where_it_was(tmp_path):
    pixels, said = images(), []
    backbone = parse_backbone(Counted(fails_after=16))
    backbone.batch_size = 4
    with pytest.raises(KeyboardInterrupt):
        embed_once(TensorExamples(pixels), backbone)
    assert cache_files(tmp_path) == ["000000.safetensors", "000001.safetensors"]
    shards = next((tmp_path / "cache" / "embeddings").glob("*.shards"))
    (shards / "000001.safetensors").write_bytes(b"cut off")  # as by a full disk
    module = Counted()
    found = embed_once(TensorExamples(pixels), parse_backbone(module), said.append)
    assert module.calls == 12
    assert said[0].endswith("8 were embedded before")
    torch.testing.assert_close(found.vectors, pixels.float().mean((2, 3)) / 255)


def test_other_data_and_other_weights_are_embedded_anew(tmp_path):
    module = Counted()
    embed_once(TensorExamples(images()), parse_backbone(module))
    embed_once(TensorExamples(images(seed=1)), parse_backbone(module))
    assert module.calls == 40
    torch.nn.init.zeros_(module.weight)
    found = embed_once(TensorExamples(images()), parse_backbone(module))
    assert module.calls == 60
    assert not found.vectors.any()
    assert len(cache_files(tmp_path)) == 3


@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_damaged_cache_is_rebuilt_with_a_warning(tmp_path, damage):
    first = embed_once(TensorExamples(images()), parse_backbone(Counted())).vectors.clone()
    path = next((tmp_path / "cache" / "embeddings").glob("*.safetensors"))
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(bytes(content) if damage == "changed" else content[: len(content) // 2])
    module = Counted()
    with pytest.warns(EmbeddingCacheWarning, match="is damaged"):
        again = embed_once(TensorExamples(images()), parse_backbone(module))
    assert module.calls == 20
    assert torch.equal(first, again.vectors)


def test_files_are_known_by_their_content(photos, tmp_path):
    """A copy elsewhere is the same data; a rewritten file is not."""

    def files(path):
        return ImageFiles(Folder(path), Folder(path).names())

    module = Counted()
    backbone = parse_backbone(module, image_size=8)
    embed_once(files(photos), backbone)
    copied = Path(shutil.copytree(photos, tmp_path / "copy"))
    embed_once(files(copied), backbone)
    assert module.calls == 40
    shutil.copy(photos / "blobs" / "03.png", copied / "stripes" / "00.png")
    embed_once(files(copied), backbone)
    assert module.calls == 80


def test_unreadable_images_are_listed_or_left_out(photos):
    (photos / "blobs" / "03.png").write_bytes(b"not an image")
    (photos / "stripes" / "05.png").write_bytes((photos / "stripes" / "06.png").read_bytes()[:300])
    examples = ImageFiles(Folder(photos), Folder(photos).names())
    found = embed_once(examples, parse_backbone(Counted(), image_size=8))
    assert len(found.vectors) == 38
    assert set(found.bad) == {3, 25}
    with pytest.raises(DataError, match=r"2 of 40 images cannot be read:\n.*03\.png \(not an imag"):
        refuse_bad(examples, found, skip_bad=False)
    (note,) = refuse_bad(examples, found, skip_bad=True)
    assert note.startswith("2 images that cannot be read were left out")


def test_files_that_are_not_images_are_listed(photos):
    (photos / "stripes" / "notes.txt").write_text("x")
    note = "1 files in {} were ignored: they are not images, or not in the folder of a class"
    assert load_raw(photos).notes == (note.format(photos),)
    assert load(photos).notes[0] == note.format(photos)
    both = photos.parent / "both"
    for name in ("train", "test"):
        shutil.copytree(photos, both / name)
    assert load_raw(both).notes == tuple(note.format(both / name) for name in ("train", "test"))


def test_empty_texts(minilm):
    texts = Texts(["one", " ", "three", None])
    found = embed_once(texts, parse_backbone(f"hf:{minilm}"))
    assert found.kept.tolist() == [0, 2]
    with pytest.raises(DataError, match=r"2 of 4 texts cannot be read:\n  text 1 \(the text is em"):
        refuse_bad(texts, found, skip_bad=False)


def test_texts_keep_their_order(minilm):
    texts = ["a much longer text, which is embedded later", "short", "a text of middling length"]
    backbone = parse_backbone(f"hf:{minilm}")
    found = embed_once(Texts(texts), backbone)
    one_by_one = torch.cat([backbone.embed([text]) for text in texts])
    torch.testing.assert_close(found.vectors, one_by_one, atol=1e-5, rtol=1e-5)


def test_a_backbone_of_another_modality(minilm, onnx_file):
    with pytest.raises(DataError, match="takes texts, and these examples are images"):
        embed_once(TensorExamples(images()), parse_backbone(f"hf:{minilm}"))
    with pytest.raises(DataError, match="takes images, and these examples are texts"):
        embed_once(Texts(["some text"]), parse_backbone(f"onnx:{onnx_file}"))


def test_numbers_that_are_not_finite_are_refused():
    with pytest.raises(DataError, match="returns NaN or infinite numbers"):
        embed_once(Texts(["a"]), parse_backbone(lambda texts: [[float("nan")] for _ in texts]))


def test_images_must_be_on_a_known_scale():
    with pytest.raises(DataError, match="got values from 0 to 255"):
        TensorExamples(torch.tensor([0.0, 255.0]).view(2, 1, 1, 1))


def test_work_ahead_is_limited():
    done = []
    results = done_ahead(lambda item: done.append(item) or item, range(100), most=5)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    assert len(done) <= 9
    results.close()


def test_rows_written_part_by_part_read_as_one_tensor(tmp_path):
    parts = [torch.rand(3, 2), torch.rand(1, 2)]
    kept = torch.arange(4)
    save_rows(tmp_path / "a", parts, (4, 2), {"rows_kept": kept}, {"key": "k"})
    tensors, about = load_tensors(tmp_path / "a")
    assert torch.equal(tensors["rows"], torch.cat(parts))
    assert torch.equal(tensors["rows_kept"], kept)
    assert about == {"key": "k"}
