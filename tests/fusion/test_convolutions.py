from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from qrsc.fusion.rsa2.convolutions import FramesConv, FramesEnlarge, Subnet, each_frame, fast, fast_forms, join_channels
from qrsc.fusion.rsa2.network import Rsa2Network, Rsa2Options
from qrsc.reference import fusion as reference_fusion

from .samples import SMALL, aligned_frames, randomise


def values_and_gradients(layer: nn.Module, features: Tensor, use: bool) -> list[Tensor]:
    features = features.clone().requires_grad_()
    with fast_forms(use):
        made = layer(features)
        weight = torch.linspace(-1.0, 1.0, made.numel(), dtype=made.dtype).reshape(made.shape)
        return [made, *torch.autograd.grad((weight * made).sum(), [features, *layer.parameters()])]


@pytest.mark.parametrize("frames", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "layer",
    [FramesConv(7, 5), FramesConv(8, 16, stride=2), FramesEnlarge(6, 5)],
    ids=["same size", "halved", "doubled"],
)
def test_convolutions_over_frames_side_by_side_are_those_in_three_dimensions(layer: nn.Module, frames: int) -> None:
    layer = layer.double()
    channels = next(layer.parameters()).shape[1 if isinstance(layer, nn.Conv3d) else 0]
    features = torch.randn(2, channels, frames, 6, 8, dtype=torch.float64)
    plain, quick = (values_and_gradients(layer, features, use) for use in (False, True))
    assert plain[0].std() > 0.1
    for expected, found in zip(plain, quick, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-11, rtol=0)


@pytest.mark.parametrize(("width", "outputs", "slope"), [(9, 9, 0.0), (8, 1, 0.2)])
def test_pixels_of_a_cell_at_once_are_a_transposed_convolution(width: int, outputs: int, slope: float) -> None:
    layer = Subnet(6, width, outputs, slope).double()
    features = torch.randn(3, 6, 5, 7, dtype=torch.float64)
    plain, quick = (values_and_gradients(layer, features, use) for use in (False, True))
    assert plain[0].shape == (3, outputs, 10, 14)
    for expected, found in zip(plain, quick, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-11, rtol=0)


@pytest.mark.parametrize(("options", "count"), [(SMALL, 3), (replace(SMALL, validity=False, prior=False), 2)])
def test_the_network_in_the_forms_for_a_gpu_is_its_twin(options: Rsa2Options, count: int) -> None:
    network = Rsa2Network(options).double()
    randomise(network)
    aligned = aligned_frames(count, (16, 32), dtype=torch.float64)
    with torch.no_grad(), fast_forms(True):
        expected = reference_fusion.rsa2(network.state_dict(), network.options, aligned)
        found = network(aligned)
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)


def test_frames_side_by_side_stay_where_they_are() -> None:
    layer = FramesConv(8, 8)
    with fast_forms(True), torch.no_grad():
        made = layer(layer(torch.randn(1, 8, 3, 4, 6)))
        assert made.permute(0, 3, 4, 2, 1).is_contiguous()
        assert join_channels([made, made]).permute(0, 3, 4, 2, 1).is_contiguous()
        assert each_frame(made).is_contiguous(memory_format=torch.channels_last)
        torch.testing.assert_close(each_frame(made)[2], made[0, :, 2])
        torch.testing.assert_close(join_channels([made, 2 * made]), torch.cat([made, 2 * made], 1))


def test_on_a_processor_layers_are_those_of_torch() -> None:
    values = torch.zeros(1)
    assert not fast(values)
    with fast_forms(True):
        assert fast(values)
        assert not fast(values, frames=5)
        with fast_forms(False):
            assert not fast(values)
        assert fast(values)
    assert not fast(values)
