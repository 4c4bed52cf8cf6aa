import pytest
import torch
from monai.networks.nets import resnet18 as monai_resnet18
from monai.networks.nets import resnet34 as monai_resnet34

from noisebound.models import MODEL_NAMES, MODELS, create_model, default_model
from noisebound.models.heads import ByteDropout

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
    listed = "mlp, small_mlp, small_cnn, strided_cnn, resnet18, resnet34, linear, mlp_head"
    with pytest.raises(ValueError, match=f"one of {listed}, got 'vgg'"):
        create_model("vgg", (1, 8, 8), 2)


class TestByteDropout:
    inputs = torch.ones(200, 1001)

    def dropped(self, p, seed=0):
        torch.manual_seed(seed)
        return ByteDropout(p)(self.inputs)

    def test_the_share_and_the_mean(self):
        out = self.dropped(0.3)
        assert (out == 0).double().mean() == pytest.approx(0.3, abs=0.005)
        assert out.double().mean() == pytest.approx(1.0, abs=0.01)
        assert out.unique().tolist() == pytest.approx([0.0, 256 / (256 - 77)])

    def test_every_byte_of_a_word_is_as_random(self):
        out = (self.dropped(0.3)[:, :1000] == 0).double().view(-1, 8)
        assert out.mean(0).tolist() == pytest.approx([0.3] * 8, abs=0.02)
        correlation = torch.corrcoef(out.T)
        assert correlation.fill_diagonal_(0).abs().max() < 0.03

    def test_it_follows_from_torchs_seed(self):
        assert torch.equal(self.dropped(0.3), self.dropped(0.3))
        assert not torch.equal(self.dropped(0.3), self.dropped(0.3, seed=1))

    @pytest.mark.parametrize("p", [0.0, 1e-4, 1.0])
    def test_probabilities_that_a_byte_cannot_draw(self, p):
        assert (self.dropped(p) == 0).double().mean() == pytest.approx(p, abs=1e-3)

    def test_evaluation_drops_nothing(self):
        assert torch.equal(ByteDropout(0.3).eval()(self.inputs), self.inputs)

    def test_gradients_go_where_the_values_went(self):
        inputs = self.inputs.clone().requires_grad_()
        out = ByteDropout(0.3)(inputs)
        out.sum().backward()
        assert torch.equal(inputs.grad, out.detach())
