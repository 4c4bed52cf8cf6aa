import pytest
import torch

from noisebound.data import Normalization
from published_files import some_images

IMAGES = torch.from_numpy(some_images(50, 3, 8, 8))


def test_constants_of_bytes_are_exact():
    normalization = Normalization.of(IMAGES)
    values = IMAGES.double().transpose(0, 1).flatten(1)
    torch.testing.assert_close(torch.tensor(normalization.mean).double(), values.mean(1))
    torch.testing.assert_close(
        torch.tensor(normalization.std).double(), values.std(1, correction=0)
    )


def test_result_has_mean_zero_and_deviation_one():
    for inputs in (IMAGES, torch.randn(200, 5) * 7 + 3):
        result = Normalization.of(inputs)(inputs)
        assert result.dtype == torch.float32
        channels = result.transpose(0, 1).flatten(1)
        torch.testing.assert_close(channels.mean(1), torch.zeros(len(channels)), atol=1e-5, rtol=0)
        torch.testing.assert_close(channels.std(1, correction=0), torch.ones(len(channels)))


def test_what_never_varies_is_only_shifted():
    constant = torch.full((4, 1, 2, 2), 7, dtype=torch.uint8)
    assert (Normalization.of(constant)(constant) == 0).all()


def test_dead_features_are_only_shifted_where_all_have_one_unit():
    features = torch.randn(100, 6, generator=torch.Generator().manual_seed(0))
    features[:, 1] *= 1e-9
    features[:, 2:4] = 7.0
    assert Normalization.of(features).std[1] < 1e-8
    std = Normalization.of(1e-6 * features, least_deviation=1e-4).std
    assert std[1:4] == (1.0, 1.0, 1.0)
    assert all(0 < deviation < 1e-5 for deviation in (std[0], *std[4:]))


def test_other_number_of_channels():
    with pytest.raises(ValueError, match="for 3 channels or features"):
        Normalization.of(IMAGES)(IMAGES[:, :1])


def test_first_used_without_gradients():
    normalization = Normalization.of(IMAGES)
    with torch.inference_mode():
        normalization(IMAGES)
    inputs = IMAGES.float().requires_grad_()
    normalization(inputs).sum().backward()
    assert inputs.grad is not None


def test_inputs_are_left_as_they_were():
    features = torch.randn(10, 3)
    before = features.clone()
    Normalization.of(features)(features)
    assert torch.equal(features, before)
