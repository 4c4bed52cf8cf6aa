import pytest
import torch
from monai.networks.nets import resnet18 as monai_resnet18, resnet34 as monai_resnet34

from noisebound.models import MODEL_NAMES, MODELS, create_model, default_model
from noisebound.models.regularized import QuickDropout

MONAI = {"resnet18": monai_resnet18, "resnet34": monai_resnet34}


@pytest.mark.parametrize("name", MONAI)
@pytest.mark.parametrize("size", [28, 32, 64])
@pytest.mark.parametrize("channels", [1, 3])
def test_resnets_are_monais(name, size, channels):
    """Our parameters have MONAI's names, and the same weights give the same logits."""
    ours = create_model(name, (channels, size, size), 10).eval()
    is_small = size <= 32
    theirs = MONAI[name](
        spatial_dims=2,
        n_input_channels=channels,
        num_classes=10,
        conv1_t_size=3 if is_small else 7,
        conv1_t_stride=1 if is_small else 2,
        no_max_pool=is_small,
        bias_downsample=False,
    ).eval()
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(2, channels, size, size, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x))


@pytest.mark.parametrize("name", MODEL_NAMES)
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (1, 3, 5)])
def test_logits_for_every_shape(name, shape):
    model = create_model(name, shape, 7)
    assert model(torch.randn(4, *shape)).shape == (4, 7)


def test_channels_lie_side_by_side():
    weights = list(create_model("small_cnn", (3, 8, 8), 2).parameters())
    images = [each for each in weights if each.ndim == 4]
    assert len(images) == 3
    assert all(each.is_contiguous(memory_format=torch.channels_last) for each in images)


def test_names_are_those_of_the_table():
    assert tuple(MODELS) == MODEL_NAMES


@pytest.mark.parametrize(
    ("shape", "name"), [((1, 8, 8), "small_cnn"), ((3, 64, 48), "small_cnn"), ((13,), "mlp")]
)
def test_the_default_model_takes_the_data(shape, name):
    assert default_model(shape) == name
    assert create_model(default_model(shape), shape, 2)(torch.randn(4, *shape)).shape == (4, 2)


def test_tables():
    assert create_model("mlp", (13,), 3)(torch.randn(5, 13)).shape == (5, 3)
    with pytest.raises(ValueError, match=r"resnet18 takes images, .* \(13,\): use 'mlp'"):
        create_model("resnet18", (13,), 3)


def test_weights_follow_from_the_seed():
    before = torch.get_rng_state()
    one, same, other = (
        torch.cat([p.flatten() for p in create_model("mlp", (4,), 2, seed).parameters()])
        for seed in (1, 1, 2)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(before, torch.get_rng_state())


def test_unknown_model():
    listed = (
        "mlp, small_mlp, small_cnn, strided_cnn, resnet18, resnet34, linear, mlp_head, wide_head"
    )
    with pytest.raises(ValueError, match=f"one of {listed}, got 'vgg'"):
        create_model("vgg", (1, 8, 8), 2)


def test_quick_dropout_is_dropout():
    layer = QuickDropout(0.3)
    torch.manual_seed(0)
    ones = layer(torch.ones(500, 401, requires_grad=True))
    assert (ones == 0).double().mean().item() == pytest.approx(0.3, abs=0.005)
    assert ones.mean().item() == pytest.approx(1, abs=0.01)
    assert ones.unique().tolist() == pytest.approx([0.0, 1 / 0.7], rel=1e-4)
    rows, columns = (ones == 0).double().mean(1), (ones == 0).double().mean(0)
    assert rows.std().item() == pytest.approx((0.21 / 401) ** 0.5, rel=0.2)  # independent
    assert columns.std().item() == pytest.approx((0.21 / 500) ** 0.5, rel=0.2)
    torch.manual_seed(0)
    again = layer(torch.ones(500, 401))
    assert torch.equal(again, ones)
    assert torch.equal(layer.eval()(ones), ones)
    assert QuickDropout(0.3)(torch.ones(3, dtype=torch.float64)).dtype == torch.float64
    assert torch.equal(QuickDropout(0.0)(ones), ones)
