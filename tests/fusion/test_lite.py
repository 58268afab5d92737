from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from qrsc.fusion import load_fusion
from qrsc.fusion.blocks import Pictures, over_frames, shuffled, unshuffled
from qrsc.fusion.denoise import anchored, calmed
from qrsc.fusion.finish import finished
from qrsc.fusion.lite.network import Blocks, LiteNetwork, LiteOptions, filter_pictures
from qrsc.fusion.mean import CALM_DISAGREEMENT, mean_weights, plain_mean, weighted_mean
from qrsc.fusion.networks import NetworkFusion, build_network
from qrsc.image.blur import fine_detail
from qrsc.weights import WeightsError, shipped_weights

from .samples import aligned_frames, randomise

TINY = LiteOptions(widths=(8, 8, 8), depths=(1, 1, 1), calm=False, polish=8, polishes=1)


@pytest.mark.parametrize(("count", "size"), [(1, (16, 32)), (2, (32, 16)), (3, (30, 41))])
def test_untrained_it_is_the_mean(count: int, size: tuple[int, int]) -> None:
    aligned = aligned_frames(count, size)
    expected = plain_mean(aligned)
    fused = NetworkFusion(LiteNetwork(TINY))(aligned)
    assert torch.equal(fused.valid, expected.valid)
    # Frames that do not show a pixel keep e^-12 of their weight.
    assert float((fused.image - expected.image).abs().max()) < 1e-3
    assert not bool(expected.valid.all()) or count > 1


def test_untrained_it_is_the_mean_of_calmed_frames_and_gates_bring_their_detail_back() -> None:
    aligned = aligned_frames(3, (32, 48))
    noise = torch.rand(aligned.frames.shape, generator=torch.Generator().manual_seed(2)) - 0.5
    aligned = replace(aligned, frames=0.5 + 0.2 * noise)  # which frames do not agree on
    calm = calmed(aligned)
    network = LiteNetwork(replace(TINY, calm=True))
    mean = weighted_mean(calm, mean_weights(calm, CALM_DISAGREEMENT)).image
    torch.testing.assert_close(NetworkFusion(network)(aligned).image, mean, atol=1e-3, rtol=0)
    assert network.head.bias is not None
    with torch.no_grad():
        network.head.bias[-2:] = 1.0
    restored = weighted_mean(aligned, mean_weights(calm, CALM_DISAGREEMENT)).image
    torch.testing.assert_close(NetworkFusion(network)(aligned).image, anchored(restored, calm), atol=1e-3, rtol=0)
    assert float((restored - mean).abs().mean()) > 0.01
    with pytest.raises(ValueError, match="no removed detail"):
        network(aligned)


def test_untrained_bands_are_the_mean_and_are_finished_like_any_result() -> None:
    aligned = aligned_frames(3, (30, 41))
    expected = plain_mean(aligned)
    fused = NetworkFusion(LiteNetwork(replace(TINY, bands=True)))(aligned)
    assert float((fused.image - expected.image).abs().max()) < 1e-3
    aligned = replace(aligned, valid=torch.ones_like(aligned.valid))  # no frame ends anywhere
    network = LiteNetwork(replace(TINY, bands=True, anchor=True))
    plain = plain_mean(aligned).image
    torch.testing.assert_close(NetworkFusion(network)(aligned).image, finished(plain, aligned), atol=1e-3, rtol=0)


def test_fine_detail_has_weights_of_its_own() -> None:
    aligned = aligned_frames(3, (48, 64))
    aligned = replace(aligned, valid=torch.ones_like(aligned.valid))
    network = LiteNetwork(replace(TINY, bands=True, polish=0)).eval()
    taps = network.options.kernel**2
    with torch.no_grad():
        # Scores of what is fine by the first feature, and that is made to be 1 in the centre frame alone.
        network.head.weight[(taps + 1) * 16 :, 0] = 30.0
    each = torch.zeros(3, 8, 12, 16)
    each[1, 0] = 1.0
    network._features = lambda *_: each  # type: ignore[method-assign]  # known ones
    torch.nn.init.dirac_(network.finish.weight)
    assert network.finish.bias is not None
    torch.nn.init.zeros_(network.finish.bias)
    with torch.no_grad():
        fused = network(aligned)
    mean, own = plain_mean(aligned).image, aligned.frames[:, 1]
    torch.testing.assert_close(fused, mean - fine_detail(mean) + fine_detail(own), atol=2e-3, rtol=0)
    assert float((own - mean).abs().mean()) > 0.005


@pytest.mark.parametrize("colour", [(0.0, 0.0, 0.0), (1.0, 1.0, 1.0), (0.9, 0.1, 0.3)])
def test_plain_colours_stay_what_they_are(colour: tuple[float, float, float]) -> None:
    aligned = aligned_frames(3, (48, 64))
    plain = torch.tensor(colour).reshape(1, 1, 3, 1, 1).expand_as(aligned.frames)
    fusion = load_fusion("rsa2-lite")
    assert fusion is not None
    fused = fusion(replace(aligned, frames=plain.contiguous()))
    torch.testing.assert_close(fused.image, plain[:, 0], atol=1e-5, rtol=0)


def test_all_of_it_learns() -> None:
    network = LiteNetwork(replace(TINY, calm=True))
    randomise(network)
    network(calmed(aligned_frames(3, (32, 32)))).square().mean().backward()
    assert not [name for name, p in network.named_parameters() if p.grad is None or not bool(p.grad.any())]


def test_it_costs_at_most_40_gflop_for_a_vga_frame() -> None:
    aligned = aligned_frames(3, (96, 128))  # a 25th of its pixels
    with FlopCounterMode(display=False) as counted, torch.no_grad():
        LiteNetwork()(calmed(aligned))
    assert 25 * counted.get_total_flops() < 40e9  # 38.7e9


def test_kernels_keep_plain_colours_and_can_shift() -> None:
    generator = torch.Generator().manual_seed(0)
    plain = torch.full((2, 3, 8, 12), 0.3)
    kernels = torch.randn(2, 9, 8, 12, generator=generator)
    torch.testing.assert_close(filter_pictures(plain, F.pixel_unshuffle(kernels, 4), 3), plain)
    picture = torch.rand(1, 3, 8, 12, generator=generator)
    shift = torch.zeros(1, 9, 8, 12)
    shift[:, 4], shift[:, 5] = -1.0, 1.0  # the pixel to the right in place of this one
    found = filter_pictures(picture, F.pixel_unshuffle(shift, 4), 3)
    torch.testing.assert_close(found[..., :-1], picture[..., 1:])


def test_rearranging_pixels_equals_pytorch() -> None:
    cells, pixels = torch.rand(2, 12, 3, 5), torch.rand(2, 3, 6, 10)
    assert torch.equal(shuffled(cells, 2), F.pixel_shuffle(cells, 2))
    assert torch.equal(unshuffled(pixels, 2), F.pixel_unshuffle(pixels, 2))
    torch.testing.assert_close(over_frames(pixels), pixels.mean(1))


def test_entering_by_cells_equals_a_convolution_of_unshuffled_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    network, aligned = LiteNetwork(TINY), aligned_frames(3, (32, 48))
    randomise(network)
    entered: list[Tensor] = []
    forward = Blocks.forward

    def spy(blocks: Blocks, features: Tensor, centre: int, count: int) -> Tensor:
        entered.append(features)
        return forward(blocks, features, centre, count)

    monkeypatch.setattr(Blocks, "forward", spy)
    with torch.no_grad():
        network(aligned)
        frames, mean = aligned.frames, network.input_mean(aligned)
        prior = Pictures(frames, aligned.valid.float(), aligned.time_distance, aligned.centre).prior()
        unlike = 4.0 * (frames - frames[:, aligned.centre, None])
        detailed = torch.cat([frames - mean, unlike, aligned.valid.float()], 2).flatten(0, 1)
        smooth = [0.05 * aligned.correction_fields, aligned.time_distance, prior.clamp_min(-24.0) / 12.0]
        by_cell = F.avg_pool2d(torch.cat(smooth, 2).flatten(0, 1), 4)
        expected = network.enter(torch.cat([F.pixel_unshuffle(detailed, 4), by_cell], 1))
    torch.testing.assert_close(entered[0], expected, atol=1e-5, rtol=1e-5)


def test_a_look_around_equals_a_convolution_of_all_three() -> None:
    blocks = Blocks(4, 0)
    randomise(blocks)
    features = torch.rand(6, 4, 3, 5)  # of two clips of three frames
    each = features.reshape(2, 3, 4, 3, 5)
    all_three = torch.cat([each, each.mean(1, keepdim=True).expand_as(each), each[:, 1:2].expand_as(each)], 2)
    with torch.no_grad():
        expected = features + blocks.look(all_three.flatten(0, 1))
        torch.testing.assert_close(blocks(features, 1, 3), expected)


def test_tiles_have_no_seams() -> None:
    network = LiteNetwork(TINY)
    randomise(network, 0.3)
    aligned = aligned_frames(2, (48, 448), seed=3)
    whole = NetworkFusion(network, half=False)(aligned).image
    tiled = NetworkFusion(network, half=False, tile=256)(aligned).image
    assert float((whole - plain_mean(aligned).image).abs().max()) > 0.02
    assert float((whole - tiled).abs().max()) < 1e-4


def test_fields_of_a_smaller_size_are_enlarged() -> None:
    network = LiteNetwork(TINY)
    randomise(network, 0.3)
    aligned = aligned_frames(2, (16, 24))
    coarse = aligned.correction_fields[..., ::4, ::4]
    enlarged = F.interpolate(coarse[0], (16, 24), mode="bilinear")[None]
    fusion = NetworkFusion(network)
    found = fusion(replace(aligned, correction_fields=coarse)).image
    torch.testing.assert_close(found, fusion(replace(aligned, correction_fields=enlarged)).image)
    assert float((found - fusion(aligned).image).abs().max()) > 1e-3  # the field does matter


def test_double_precision_frames_come_back_as_such() -> None:
    aligned = aligned_frames(2, (16, 16), dtype=torch.float64)
    assert NetworkFusion(LiteNetwork(TINY))(aligned).image.dtype == torch.float64
    assert NetworkFusion(LiteNetwork(TINY))(replace(aligned, centre=0)).image.shape == (1, 3, 16, 16)


@pytest.mark.parametrize("name", ["rsa2", "rsa2-lite"])
def test_networks_by_name(name: str) -> None:
    assert type(build_network(name)).__name__ == {"rsa2": "Rsa2Network", "rsa2-lite": "LiteNetwork"}[name]
    if name in shipped_weights():
        assert load_fusion(name) is not None
    else:
        with pytest.raises(WeightsError, match=f"weights of the fusion '{name}' do not come with"):
            load_fusion(name)
    with pytest.raises(ValueError, match="choose one of rsa2, rsa2-lite"):
        build_network("rsa3")
