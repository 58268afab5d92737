from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from qrsc.fusion.mean import gridded_weights, weighted_mean
from qrsc.fusion.networks import NetworkFusion
from qrsc.fusion.tiny import STRIDE, TinyNetwork, TinyOptions

from .samples import aligned_frames, randomise

SMALL = TinyOptions(width=8, pairs=1)


@pytest.mark.parametrize(("count", "size"), [(1, (16, 32)), (2, (32, 16)), (3, (32, 48)), (5, (16, 16))])
def test_untrained_it_is_the_mean_with_weights_of_cells(count: int, size: tuple[int, int]) -> None:
    aligned = aligned_frames(count, size)
    weights = gridded_weights(aligned, (size[0] // STRIDE, size[1] // STRIDE))
    fused = NetworkFusion(TinyNetwork(SMALL))(aligned)
    torch.testing.assert_close(fused.image, weighted_mean(aligned, weights).image.clamp(0.0, 1.0))
    assert torch.equal(fused.valid, aligned.valid.any(1))


def test_any_size_is_padded_and_cut() -> None:
    fused = NetworkFusion(TinyNetwork(SMALL))(aligned_frames(3, (30, 41)))
    assert fused.image.shape == (1, 3, 30, 41)


def test_plain_colours_stay_what_they_are() -> None:
    network = TinyNetwork(SMALL)
    randomise(network, 0.3)
    aligned = aligned_frames(3, (48, 64))
    plain = torch.tensor((0.9, 0.1, 0.3)).reshape(1, 1, 3, 1, 1).expand_as(aligned.frames).contiguous()
    fused = NetworkFusion(network)(replace(aligned, frames=plain)).image
    torch.testing.assert_close(fused, plain[:, 0], atol=1e-6, rtol=0)


def test_gates_take_a_frame_where_it_shows_the_pixel() -> None:
    network = TinyNetwork(SMALL).eval()
    aligned = aligned_frames(3, (32, 48))
    assert network.leave.bias is not None
    with torch.no_grad():
        network.leave.bias[1] = 1.0  # the gate of the centre frame; nothing is missing
        fused = network(aligned)
    own, shown = aligned.frames[:, 1], aligned.valid[:, 1].expand(-1, 3, -1, -1)
    torch.testing.assert_close(fused[shown], own[shown], atol=1e-5, rtol=0)
    assert not bool(shown.all())


def test_tiles_have_no_seams() -> None:
    network = TinyNetwork(SMALL)
    randomise(network, 0.3)
    aligned = aligned_frames(2, (48, 448), seed=3)
    whole = NetworkFusion(network, half=False)(aligned).image
    tiled = NetworkFusion(network, half=False, tile=256)(aligned).image
    assert float((whole - tiled).abs().max()) < 1e-5


def test_all_of_it_learns() -> None:
    network = TinyNetwork(SMALL)
    randomise(network)
    network(aligned_frames(3, (32, 32))).square().mean().backward()
    assert not [name for name, p in network.named_parameters() if p.grad is None or not bool(p.grad.any())]


def test_it_costs_at_most_17_gflop_for_a_vga_frame() -> None:
    aligned = aligned_frames(3, (96, 128))  # a 25th of its pixels
    with FlopCounterMode(display=False) as counted, torch.no_grad():
        TinyNetwork()(aligned)
    assert 25 * counted.get_total_flops() < 17e9  # 16.5e9; rsa2-lite 38.7e9
