from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from qrsc.flow.raft_rs.network import parameter_count
from qrsc.fusion import AlignedFrames
from qrsc.fusion.denoise import calmed
from qrsc.fusion.mean import plain_mean
from qrsc.fusion.networks import NetworkFusion, tile_starts
from qrsc.fusion.rsa2.attention import Norm
from qrsc.fusion.rsa2.heads import AdaCofHead, time_weights
from qrsc.fusion.rsa2.network import Rsa2Network, Rsa2Options, unit_time_distance
from qrsc.reference import fusion as reference_fusion

from .samples import SMALL, aligned_frames, randomise


@pytest.mark.parametrize(
    ("options", "count", "size"),
    [
        (replace(SMALL, validity=False, prior=False), 3, (16, 16)),
        (SMALL, 2, (32, 16)),
        (replace(SMALL, calm=True), 2, (16, 16)),
        (replace(SMALL, fields=False, time_grid="none"), 1, (16, 16)),
    ],
    ids=["published", "ours, frames as they are", "ours", "one frame"],
)
def test_the_network_is_its_twin(options: Rsa2Options, count: int, size: tuple[int, int]) -> None:
    network = Rsa2Network(options).double()
    randomise(network)
    aligned = calmed(aligned_frames(count, size, dtype=torch.float64))
    with torch.no_grad():
        expected = reference_fusion.rsa2(network.state_dict(), options, aligned)
        found = network(aligned)
    assert float(expected.std()) > 0.05
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)


def test_the_published_network_has_its_published_size() -> None:
    assert parameter_count(Rsa2Network(Rsa2Options.published())) == 7_518_564  # the paper says 7.52 million
    simple = parameter_count(Rsa2Network(Rsa2Options(encoder="unet")))
    assert simple == pytest.approx(7.5e6, rel=0.05)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("mask_width", [1, 9])
def test_what_kernels_and_masks_are_made_from_is_neither_small_nor_silent(seed: int, mask_width: int) -> None:
    torch.manual_seed(seed)
    network = Rsa2Network(replace(SMALL, mask_width=mask_width))
    sizes: list[float] = []
    for head in network.heads:
        assert isinstance(head, AdaCofHead)
        for part in (head.weights, head.alpha, head.beta, head.mask):
            part[3].register_forward_hook(lambda layer, given, made: sizes.append(float(made.detach().abs().mean())))
    network(aligned_frames(3, (32, 32)))
    assert len(sizes) == 12
    assert 0.03 < min(sizes) < max(sizes) < 10.0  # 0.0000 to 0.04 with PyTorch's default initialisation


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_untrained_it_is_a_weighted_mean_of_valid_frames(count: int) -> None:
    aligned = aligned_frames(count, (32, 48))
    fused = NetworkFusion(Rsa2Network(SMALL))(aligned)
    seen = aligned.valid.any(1)
    assert torch.equal(fused.valid, seen)
    low = torch.where(aligned.valid, aligned.frames, torch.inf).amin(1)
    high = torch.where(aligned.valid, aligned.frames, -torch.inf).amax(1)
    outside = torch.where(seen, torch.maximum(low - fused.image, fused.image - high), torch.zeros_like(low))
    assert float(outside.max()) < 1e-3
    assert float((fused.image - plain_mean(aligned).image).abs().mean()) < 0.02


def test_any_size_goes_through() -> None:
    network = Rsa2Network(SMALL)
    randomise(network, 0.5)
    aligned = aligned_frames(3, (37, 50))
    fused = NetworkFusion(network)(aligned)
    assert fused.image.shape == (1, 3, 37, 50)
    assert bool(fused.image.isfinite().all())


def test_tiles_have_no_seams() -> None:
    network = Rsa2Network(replace(SMALL, depths=(1, 1, 1, 1)))
    randomise(network, 0.5)
    aligned = aligned_frames(1, (64, 448), seed=3)
    whole = NetworkFusion(network, half=False)(aligned).image
    tiled = NetworkFusion(network, half=False, tile=256)(aligned).image
    assert list(tile_starts(448, 256)) == [0, 128, 256]
    assert float((whole - tiled).abs().max()) < 1e-3  # 1e-6 in most places, see below
    apart = NetworkFusion(network, half=False, tile=None)(replace(aligned, frames=aligned.frames.flip(-1))).image
    assert float((whole - apart).abs().max()) > 0.05  # the frame does matter
    with pytest.raises(ValueError, match="multiple of 128"):
        NetworkFusion(network, tile=200)


def test_the_switches_change_what_is_built_and_all_can_be_trained() -> None:
    aligned = aligned_frames(3, (16, 32), batch=2)
    for options in (
        replace(SMALL, encoder="unet"),
        replace(SMALL, adacof=False),
        replace(SMALL, fields=False),
        replace(SMALL, time_grid="unit"),
    ):
        network = Rsa2Network(options)
        randomise(network)
        network(aligned).square().mean().backward()
        without = [name for name, parameter in network.named_parameters() if parameter.grad is None]
        assert not without
        assert all(bool(p.grad.isfinite().all()) for p in network.parameters() if p.grad is not None)
    with pytest.raises(ValueError, match="choose one of transformer, unet"):
        Rsa2Options(encoder="resnet")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ValueError, match="choose one of true, unit, none"):
        Rsa2Options(time_grid="false")  # type: ignore[arg-type]  # wrong on purpose


def test_time_weights_prefer_the_nearest_frame() -> None:
    distance = torch.tensor([0.9, 0.1, 1.1]).reshape(1, 3, 1, 1, 1)
    weights = time_weights(distance).flatten().tolist()
    assert weights == pytest.approx([1 - 0.9 / 2.1, 1 - 0.1 / 2.1, 1 - 1.1 / 2.1])
    assert bool(time_weights(torch.zeros(1, 1, 1, 2, 2)).isfinite().all())


def test_a_unit_readout_stretches_the_rows_of_the_centre_frame() -> None:
    aligned = aligned_frames(3, (16, 16))
    rows = torch.arange(16) / 16
    for i, found in enumerate(unit_time_distance(aligned)[0, :, 0, :, 0]):
        torch.testing.assert_close(found, (1 - i + 0.5 - rows).abs())
    with pytest.raises(ValueError, match="needs the gamma"):
        unit_time_distance(replace(aligned, gamma=None))


def test_gradients_stay_finite_where_nothing_is_valid() -> None:
    aligned = aligned_frames(3, (16, 16))
    nothing = AlignedFrames(
        aligned.frames,
        aligned.correction_fields,
        torch.zeros_like(aligned.valid),
        torch.zeros_like(aligned.time_distance),
        1,
    )
    network = Rsa2Network(SMALL)
    network(nothing).sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in network.parameters() if p.grad is not None)


def test_norms_stay_in_the_precision_of_their_tokens() -> None:
    norm = Norm(8)
    randomise(norm)
    tokens = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
    exact = torch.nn.LayerNorm.forward(norm, tokens)
    torch.testing.assert_close(norm(tokens), exact)
    with torch.autocast("cpu", torch.bfloat16):
        half = norm(tokens.bfloat16())
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), exact, atol=0.03, rtol=0.02)
