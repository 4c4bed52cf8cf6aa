"""Encoders of each kind, with real weights where there are any."""

import json
import pickle
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel, ViTConfig, ViTModel

from noisebound.errors import DataError, InvalidTypeError, InvalidValueError, MissingExtraError
from noisebound.features import Texts, parse_backbone
from noisebound.features.embed import text_notes
from noisebound.features.image_backbones import ImagePreparation
from processes import environment


def noise_image(side=64, seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3))
    return Image.fromarray(pixels.astype(np.uint8))


def test_onnx_computes_what_torch_does(onnx_file, efficientnet):
    backbone = parse_backbone(f"onnx:{onnx_file}")
    images = [noise_image(seed=seed) for seed in range(3)]
    vectors = backbone.embed([backbone.prepare(image) for image in images])
    pixels = torch.stack([torch.from_numpy(np.array(image)) for image in images]) / 255
    scaled = (pixels - torch.tensor([0.485, 0.456, 0.406])) / torch.tensor([0.229, 0.224, 0.225])
    with torch.no_grad():
        expected = efficientnet(scaled.permute(0, 3, 1, 2))
    torch.testing.assert_close(vectors, expected, atol=1e-4, rtol=1e-4)
    assert "64×64" in backbone.describe("image")
    assert "'vectors'" in backbone.describe("image")


def test_options_of_onnx(onnx_file, tmp_path):
    copied = shutil.copy(onnx_file, tmp_path / "net.onnx")
    plain = parse_backbone(f"onnx:{copied}")
    named = parse_backbone(f"onnx:{copied}?mean=0.5,0.5,0.5&std=0.5,0.5,0.5&resize=squash")
    assert plain.fingerprint == parse_backbone(f"onnx:{onnx_file}").fingerprint
    assert named.fingerprint != plain.fingerprint
    assert named.preparation.mean == (0.5, 0.5, 0.5)
    assert parse_backbone(named.name).fingerprint == named.fingerprint


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("size=none", "size"),
        ("colour=red", "known options are size, resize"),
        ("output=logits", "has no output 'logits'; it has vectors"),
        ("std=1,0,1", "greater than 0"),
        ("size", "options are written as"),
    ],
)
def test_wrong_options_of_onnx(onnx_file, query, complaint):
    with pytest.raises(InvalidValueError, match=complaint):
        parse_backbone(f"onnx:{onnx_file}?{query}").describe("image")


def test_a_damaged_graph_and_a_wrong_size(onnx_file, tmp_path):
    (tmp_path / "half.onnx").write_bytes(onnx_file.read_bytes()[:1000])
    with pytest.raises(DataError, match="is damaged, or not an ONNX graph"):
        parse_backbone(f"onnx:{tmp_path / 'half.onnx'}").describe("image")
    wrong = parse_backbone(f"onnx:{onnx_file}?size=32")
    with pytest.raises(DataError, match=r"cannot embed images of shape \[3, 32, 32\]"):
        wrong.embed([wrong.prepare(noise_image())])


def test_sentence_transformers_are_pooled_as_their_config_says(minilm):
    texts = ["A short text.", "A longer text, of more words than the first one has."]
    backbone = parse_backbone(f"hf:{minilm}")
    tokens = AutoTokenizer.from_pretrained(minilm)(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = AutoModel.from_pretrained(minilm).eval()(**tokens).last_hidden_state
    mask = tokens["attention_mask"][..., None]
    expected = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1))
    torch.testing.assert_close(backbone.embed(texts), expected, atol=1e-5, rtol=1e-5)
    said = backbone.describe("text")
    assert "mean of its token vectors, scaled to length one" in said
    assert "256 tokens" in said
    assert backbone.modalities == {"text"}


def test_long_texts_and_unknown_scripts_are_counted(minilm):
    backbone = parse_backbone(f"hf:{minilm}")
    just_fits = "word " * 254  # and a token before and after them
    texts = ["word " * 255, "ᚠᚢᚦᚨᚱ ᚲᚷᚹ ᚺᚾᛁ", "plain words", just_fits]
    cut, unknown = text_notes(backbone, Texts(texts))
    assert cut == "1 of 4 texts exceed the limit of the encoder, and were cut"
    assert unknown.startswith("1 of 4 texts consist mostly of words that the encoder does not know")


@pytest.fixture
def vit(tmp_path):
    """A small ViT with random weights, in a folder as transformers writes it."""
    config = ViTConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        image_size=32,
        patch_size=8,
    )
    ViTModel(config, add_pooling_layer=False).save_pretrained(tmp_path / "vit")
    processor = {"image_processor_type": "ViTImageProcessor", "size": {"height": 32, "width": 32}}
    (tmp_path / "vit" / "preprocessor_config.json").write_text(json.dumps(processor))
    return tmp_path / "vit"


def test_images_of_a_vit_are_pooled_by_the_class_token(vit):
    backbone = parse_backbone(f"hf:{vit}")
    vectors = backbone.embed([backbone.prepare(noise_image(50))])
    assert vectors.shape == (1, 16)
    assert "first token" in backbone.describe("image")
    mean = parse_backbone(f"hf:{vit}?pooling=mean")
    assert mean.fingerprint != backbone.fingerprint
    assert not torch.allclose(mean.embed([mean.prepare(noise_image(50))]), vectors)


class Payload:
    """Unpickled, it creates a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_weights_that_the_folder_lacks_are_not_drawn_at_random(vit):
    config = json.loads((vit / "config.json").read_text())
    (vit / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 2}))
    with pytest.raises(DataError, match=r"lacks 16 of the weights .* such as .*layer"):
        parse_backbone(f"hf:{vit}").embed([torch.zeros(3, 32, 32)])


def test_a_pooling_that_the_folder_lacks_is_refused(vit):
    with pytest.raises(DataError, match=r"lacks 2 of the weights .* such as pooler"):
        parse_backbone(f"hf:{vit}?pooling=pooler").embed([torch.zeros(3, 32, 32)])


def small_bert(folder, minilm):
    """Write a BERT with random weights and the real tokenizer."""
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        folder.mkdir(exist_ok=True)
        shutil.copy(minilm / name, folder / name)
    config = BertConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    model = BertModel(config)
    config.save_pretrained(folder)
    return model


def test_pickled_weights_are_read_without_running_what_they_hold(minilm, tmp_path):
    model = small_bert(tmp_path / "bert", minilm)
    torch.save(model.state_dict(), tmp_path / "bert" / "pytorch_model.bin")
    backbone = parse_backbone(f"hf:{tmp_path / 'bert'}")
    assert backbone.embed(["some text"]).shape == (1, 16)
    assert "the mean of its token vectors" in backbone.describe("text")
    trap = tmp_path / "executed"
    with (tmp_path / "bert" / "pytorch_model.bin").open("wb") as file:
        pickle.dump({"weight": Payload(trap)}, file)
    with pytest.raises(DataError, match="cannot be read"):
        parse_backbone(f"hf:{tmp_path / 'bert'}").embed(["some text"])
    assert not trap.exists()


def test_code_in_a_model_folder_is_never_executed(minilm, tmp_path):
    folder, trap = tmp_path / "bert", tmp_path / "executed"
    small_bert(folder, minilm).save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "odd", "auto_map": {"AutoModel": "odd.Odd", "AutoConfig": "odd.Odd"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "odd.py").write_text(f"open({str(trap)!r}, 'w')\n")
    with pytest.raises(DataError, match="cannot be read"):
        parse_backbone(f"hf:{folder}").embed(["some text"])
    assert not trap.exists()


def test_missing_models_name_the_folder_to_point_to(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(DataError, match=r"is not on this machine.*as hf:FOLDER"):
        parse_backbone("hf:nobody/no-such-model")
    with pytest.raises(DataError, match="there is no folder"):
        parse_backbone(f"hf:{tmp_path / 'absent'}")
    with pytest.raises(DataError, match=r"it has no config\.json"):
        parse_backbone(f"hf:{tmp_path}")
    with pytest.raises(DataError, match="there is no file"):
        parse_backbone(f"onnx:{tmp_path / 'absent.onnx'}")


def test_a_missing_model_without_a_network_fails_at_once(tmp_path):
    closed = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_OFFLINE": "0", "HF_HOME": str(tmp_path)}
    words = ("embed", "digits", "--backbone", "hf:nobody/no-such-model", "--out", tmp_path / "out")
    result = subprocess.run(
        [sys.executable, "-m", "noisebound", *words],
        capture_output=True,
        text=True,
        env=environment() | closed,
        timeout=300,
    )
    assert result.returncode == 2
    assert result.stderr.startswith("error: hf:nobody/no-such-model is not on this machine")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("ending", ["safetensors", "bin"])
def test_pickles_are_fetched_only_if_need_be(ending, monkeypatch):
    files = [SimpleNamespace(rfilename=f"pytorch_model.{ending}", size=1)]
    info = SimpleNamespace(siblings=files)
    monkeypatch.setattr("huggingface_hub.model_info", lambda name, **options: info)
    patterns = []
    monkeypatch.setattr(
        "huggingface_hub.snapshot_download",
        lambda name, allow_patterns=(), local_files_only=False: patterns.extend(allow_patterns),
    )
    with pytest.raises(DataError):  # nothing was fetched
        parse_backbone("hf:nobody/no-such-model")
    assert ("pytorch_model*.bin" in patterns) == (ending == "bin")


def test_a_folder_without_weights_or_tokenizer(minilm, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(DataError, match="neither an image processor"):
        parse_backbone(f"hf:{tmp_path}")
    shutil.copy(minilm / "tokenizer.json", tmp_path)
    with pytest.raises(DataError, match="has no weights"):
        _ = parse_backbone(f"hf:{tmp_path}").fingerprint


def test_timm_that_cannot_be_imported():
    """It needs torchvision, which has no build for this torch."""
    with pytest.raises(MissingExtraError, match=r"timm:resnet18 needs timm.*\[timm\]"):
        _ = parse_backbone("timm:resnet18").fingerprint


def test_a_module_of_the_users_own():
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Dropout(), torch.nn.Linear(12, 5))
    backbone = parse_backbone(module, image_size=2)
    image = noise_image(2)
    vectors = backbone.embed([backbone.prepare(image)] * 2)
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None] / 255
    torch.testing.assert_close(vectors, module.eval()(pixels).detach().expand(2, 5))
    before = backbone.fingerprint
    torch.nn.init.ones_(module[2].weight)
    assert parse_backbone(module, image_size=2).fingerprint != before


class Layered(torch.nn.Module):
    """Doubles its input several times."""

    def __init__(self, times, weights=(1.0,)):
        super().__init__()
        self.times, self.hidden = times, [torch.tensor(weights)]

    def forward(self, rows):
        return self._doubled(rows) * self.hidden[0]

    def _doubled(self, rows):
        return rows * 2**self.times


def test_another_setting_of_a_module_is_another_encoder():
    before = parse_backbone(Layered(1)).fingerprint
    assert parse_backbone(Layered(1)).fingerprint == before
    assert parse_backbone(Layered(3)).fingerprint != before
    assert parse_backbone(Layered(1, weights=(2.0,))).fingerprint != before


@pytest.mark.parametrize("is_training", [True, False])
def test_a_module_stays_in_its_mode(is_training):
    module = Layered(1).train(is_training)
    module.forward = lambda texts: torch.ones(len(texts), 1)
    parse_backbone(module).embed(["some text"])
    assert module.training == is_training


class Redoubled(Layered):
    """The same weights and settings under another name."""


def test_a_module_of_another_class_is_another_encoder():
    assert parse_backbone(Layered(1)).fingerprint != parse_backbone(Redoubled(1)).fingerprint


def test_a_function_must_return_one_vector_per_example():
    with pytest.raises(DataError, match=r"of shape \[2, dimension\]; got \[2\]"):
        parse_backbone(lambda texts: [len(text) for text in texts]).embed(["a", "b"])


@pytest.mark.parametrize("name", ["resnet18", "hf:", "torch:hub"])
def test_names_that_are_not_backbones(name):
    with pytest.raises(InvalidValueError, match="must be hf:NAME_OR_FOLDER, onnx:FILE, timm:NAME"):
        parse_backbone(name)
    with pytest.raises(InvalidTypeError, match="must be a name"):
        parse_backbone(3)


def test_images_are_cropped_or_squashed():
    wide = Image.fromarray(np.repeat([[0, 255]], 4, axis=0).repeat([6, 2], axis=1).astype("uint8"))
    unscaled = {"size": 4, "mean": (0, 0, 0), "std": (1, 1, 1)}
    crop = ImagePreparation(**unscaled)(wide)
    squashed = ImagePreparation(**unscaled, resize="squash")(wide)
    assert crop.shape == squashed.shape == (3, 4, 4)
    assert crop.mean() == 0  # the light stripe is outside the center
    assert squashed.mean() > 0
