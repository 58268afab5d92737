from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.fusion import FUSIONS, AlignedFrames, CoherentFusion, denoise, load_fusion, mean_fusion
from qrsc.fusion.mean import CALM_DISAGREEMENT, DISAGREEMENT, TIME_CONSTANT, mean_weights, weighted_mean
from qrsc.image.colour import luma


def aligned(frames: Tensor, valid: Tensor, distance: Tensor, centre: int = 1) -> AlignedFrames:
    """From `[T, 3, H, W]`, `[T, 1, H, W]` and `[T, 1, H, W]`, as a batch of one."""
    fields = torch.zeros_like(frames[:, :2])
    return AlignedFrames(frames[None], fields[None], valid[None], distance[None], centre)


def rand(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0))


def test_equal_frames_give_the_same_frame() -> None:
    frame = rand(1, 3, 4, 5).expand(3, 3, 4, 5)
    fused = mean_fusion(aligned(frame, torch.ones(3, 1, 4, 5, dtype=torch.bool), rand(3, 1, 4, 5)))
    torch.testing.assert_close(fused.image, frame[:1])
    assert fused.valid.shape == (1, 1, 4, 5)
    assert bool(fused.valid.all())


def test_closer_frames_count_more() -> None:
    frames = torch.tensor([0.5, 0.52]).reshape(2, 1, 1, 1).expand(2, 3, 1, 1)
    distance = torch.tensor([0.3 + TIME_CONSTANT, 0.3]).reshape(2, 1, 1, 1)
    fused = mean_fusion(aligned(frames, torch.ones(2, 1, 1, 1, dtype=torch.bool), distance))
    weight = math.exp(-1.0) * math.exp(-((0.02 / DISAGREEMENT) ** 2))
    expected = (0.5 * weight + 0.52) / (weight + 1.0)
    torch.testing.assert_close(fused.image, torch.full((1, 3, 1, 1), expected))


def test_a_frame_that_shows_something_else_leaves_no_ghost() -> None:
    centre = rand(1, 3, 9, 12).expand(3, 3, 9, 12).clone()
    frames = centre.clone()
    frames[0, :, 2:7, 3:8] = 1.0 - frames[0, :, 2:7, 3:8].round()  # the opposite of what the others show
    everywhere = torch.ones(3, 1, 9, 12, dtype=torch.bool)
    fused = mean_fusion(aligned(frames, everywhere, torch.full((3, 1, 9, 12), 0.2)))
    inside = (fused.image[0, :, 4, 5] - centre[0, :, 4, 5]).abs().max()
    assert float(inside) < 1e-3
    torch.testing.assert_close(fused.image[0, :, :, 11], centre[0, :, :, 11])


def test_frames_that_do_not_show_a_pixel_are_left_out() -> None:
    frames = rand(3, 3, 2, 2)
    valid = torch.ones(3, 1, 2, 2, dtype=torch.bool)
    valid[:2, :, 0, 0] = False  # only the last frame shows this one
    valid[1, :, 0, 1] = False
    valid[:, :, 1, 1] = False  # and none shows this
    fused = mean_fusion(aligned(frames, valid, torch.full((3, 1, 2, 2), 0.2), centre=1))
    torch.testing.assert_close(fused.image[0, :, 0, 0], frames[2, :, 0, 0])
    torch.testing.assert_close(fused.image[0, :, 0, 1], (frames[0, :, 0, 1] + frames[2, :, 0, 1]) / 2)
    assert torch.equal(fused.image[0, :, 1, 1], frames[1, :, 1, 1])
    assert fused.valid[0, 0].tolist() == [[True, True], [True, False]]


def test_gradients_are_finite_where_no_frame_is_valid() -> None:
    frames = rand(3, 3, 2, 2).requires_grad_()
    fused = mean_fusion(aligned(frames, torch.zeros(3, 1, 2, 2, dtype=torch.bool), rand(3, 1, 2, 2)))
    (gradient,) = torch.autograd.grad(fused.image.sum(), frames)
    assert torch.equal(gradient, torch.tensor([0.0, 1.0, 0.0]).reshape(3, 1, 1, 1).expand(3, 3, 2, 2))


@pytest.mark.parametrize("grid", [(12, 16), (24, 32), (11, 13)])
def test_weights_on_the_grid_of_the_fields_are_those_of_pixels(grid: tuple[int, int]) -> None:
    smooth = F.interpolate(rand(3, 3, 6, 8), size=(48, 64), mode="bilinear", align_corners=True)
    valid = torch.ones(3, 1, 48, 64, dtype=torch.bool)
    valid[0, :, :5] = False
    valid[1, ..., -7:] = False
    valid[:, :, -3:, :4] = False
    distance = torch.linspace(0.0, 0.8, 48).reshape(1, 1, 48, 1).expand(3, 1, 48, 64) + torch.arange(3).reshape(
        3, 1, 1, 1
    )
    frames = aligned(smooth[1:2] + 0.05 * smooth, valid, distance)
    exact, coarse = mean_fusion(frames), mean_fusion(replace(frames, correction_fields=torch.zeros(1, 3, 2, *grid)))
    assert torch.equal(coarse.valid, exact.valid)
    torch.testing.assert_close(coarse.image, exact.image, atol=2e-3, rtol=0)
    assert torch.equal(coarse.image[..., -3:, :4], frames.frames[:, 1, :, -3:, :4])


def test_coarse_weights_leave_no_ghost_either() -> None:
    centre = rand(1, 3, 48, 64).expand(3, 3, 48, 64)
    frames = centre.clone()
    frames[0, :, 16:32, 20:40] = 1.0 - frames[0, :, 16:32, 20:40].round()
    everywhere = torch.ones(3, 1, 48, 64, dtype=torch.bool)
    given = replace(
        aligned(frames, everywhere, torch.full((3, 1, 48, 64), 0.2)), correction_fields=torch.zeros(1, 3, 2, 12, 16)
    )
    fused = mean_fusion(given)
    assert float((fused.image - centre[:1])[..., 20:28, 24:36].abs().max()) < 1e-3
    torch.testing.assert_close(fused.image[..., 50:], centre[:1, ..., 50:])


def test_fusions_by_name() -> None:
    assert FUSIONS == ("none", "mean", "coherent", "rsa2", "rsa2-lite")
    assert load_fusion("none") is None
    assert load_fusion("mean") is mean_fusion
    assert isinstance(load_fusion("coherent"), CoherentFusion)
    with pytest.raises(ValueError, match="unknown fusion 'median'; choose one of none, mean"):
        load_fusion("median")


# --- coherent ---


def noisy_frames(noise: float, count: int = 3, size: tuple[int, int] = (64, 96)) -> tuple[Tensor, AlignedFrames]:
    """A picture with fine detail, and frames of it that differ by noise alone."""
    generator = torch.Generator().manual_seed(1)
    scene = 0.3 + 0.4 * torch.rand(1, 3, *size, generator=generator)
    scene[..., : size[1] // 2] = 0.5  # half of it is flat
    frames = scene.expand(count, -1, -1, -1) + noise * torch.randn(count, 3, *size, generator=generator)
    return scene, aligned(frames, torch.ones(count, 1, *size, dtype=torch.bool), torch.full((count, 1, *size), 0.2))


def distance(picture: Tensor, scene: Tensor) -> float:
    return float((picture - scene).square().mean().sqrt())


def test_frames_that_agree_keep_all_of_their_detail() -> None:
    scene, frames = noisy_frames(0.0)
    torch.testing.assert_close(CoherentFusion()(frames).image, scene)


def test_detail_that_frames_do_not_agree_on_is_taken_for_noise() -> None:
    scene, frames = noisy_frames(0.05)
    mean, fused = mean_fusion(frames), CoherentFusion()(frames)
    half = scene.shape[-1] // 2
    before, after = (distance(each.image[..., : half - 8], scene[..., : half - 8]) for each in (mean, fused))
    assert after < 0.7 * before, "noise of the flat half"
    before, after = (distance(each.image[..., half + 8 :], scene[..., half + 8 :]) for each in (mean, fused))
    assert after < 1.05 * before, "detail of the other"
    # Where only the centre frame shows a place, the rest of the picture tells how noisy it is.
    alone = frames.valid.clone()
    alone[:, [0, 2], :, :, :half] = False
    lonely = AlignedFrames(frames.frames, frames.correction_fields, alone, frames.time_distance, 1)
    before = distance(mean_fusion(lonely).image[..., : half - 8], scene[..., : half - 8])
    assert distance(CoherentFusion()(lonely).image[..., : half - 8], scene[..., : half - 8]) < 0.95 * before


def test_an_anchored_picture_has_the_colours_of_the_mean_and_its_own_detail() -> None:
    calm = denoise.calmed(noisy_frames(0.02)[1])
    mean = weighted_mean(calm, mean_weights(calm, CALM_DISAGREEMENT)).image
    height, width = mean.shape[-2:]
    torch.testing.assert_close(denoise.anchored(mean, calm), mean)
    slope = torch.linspace(-0.05, 0.05, width).expand(1, 3, height, width)
    drifted = denoise.anchored(mean + 0.03 + slope, calm)
    assert float((drifted - mean)[..., 16:-16].abs().max()) < 1e-3
    chequers = 0.1 * (torch.arange(height)[:, None] + torch.arange(width)).remainder(2).sub(0.5)
    torch.testing.assert_close(denoise.anchored(mean + chequers, calm), mean + chequers, atol=1e-5, rtol=0)


def test_an_anchored_picture_fades_into_the_mean_where_a_frame_ends_but_not_at_thin_gaps() -> None:
    frames = noisy_frames(0.0)[1]
    valid = frames.valid.clone()
    valid[:, 0, :, :, 48:] = False  # half of a frame
    valid[:, 2, :, 30:33, :40] = False  # a gap of three rows
    calm = denoise.calmed(replace(frames, valid=valid))
    mean = weighted_mean(calm, mean_weights(calm, CALM_DISAGREEMENT)).image
    chequers = 0.1 * (torch.arange(64)[:, None] + torch.arange(96)).remainder(2).sub(0.5)
    kept = ((denoise.anchored(mean + chequers, calm) - mean) / chequers)[0, 0]
    assert float(kept[:, 47:49].max()) < 0.2
    assert float(kept[:, 70:].min()) > 0.99
    assert float(kept[20:44, :24].min()) > 0.99


def test_calmed_frames_keep_what_the_mean_keeps() -> None:
    _, frames = noisy_frames(0.05)
    calm = denoise.calmed(frames)
    # All of them by the same weights: the order of weighing detail and adding up frames does not matter.
    equal = torch.full_like(frames.valid, 1.0 / 3.0, dtype=frames.frames.dtype)
    shares = denoise.band_gains(frames, mean_weights(frames, CALM_DISAGREEMENT))
    fused = denoise.keep_detail((equal * frames.frames).sum(1), shares)
    torch.testing.assert_close((equal * calm.frames).sum(1), fused, atol=2e-3, rtol=0)
    assert float((calm.frames - frames.frames).abs().mean()) > 0.01
    alone = replace(
        frames,
        **{name: getattr(frames, name)[:, 1:2] for name in ("frames", "correction_fields", "valid", "time_distance")},
        centre=0,
    )
    calm = denoise.calmed(alone)
    torch.testing.assert_close(calm.frames, alone.frames)
    assert calm.detail is not None
    assert not calm.detail.any()


def test_detail_that_was_taken_away_comes_back_through_gates() -> None:
    _, frames = noisy_frames(0.05)
    calm = denoise.calmed(frames)
    gates = torch.zeros(1, 3, 2, *frames.frames.shape[-2:])
    torch.testing.assert_close(denoise.restored(calm, gates), calm.frames)
    torch.testing.assert_close(denoise.restored(calm, gates + 1.0), frames.frames)
    gates[:, :, 0] = 1.0  # brightness alone
    half = denoise.restored(calm, gates)
    torch.testing.assert_close(luma(half), luma(frames.frames))
    assert float((half - frames.frames).abs().mean()) > 1e-3
    with pytest.raises(ValueError, match="no removed detail"):
        denoise.restored(frames, gates)


def test_how_much_is_kept_is_wieners_share() -> None:
    ones = torch.ones(1, 3, 64, 64)
    left = torch.full((1, 1, 8, 8), 0.5)
    # Noise that is the same everywhere: S / (S + e N).
    kept = denoise._gain(0.04 * ones, 0.01 * ones, ones[:, :1], left)
    cells = torch.ones(1, 3, 8, 8)
    torch.testing.assert_close(kept, drawn_apart(0.04 / 0.045) * cells)
    # No noise in most of the picture: what differs elsewhere was moved, and is kept.
    moved = torch.zeros_like(ones)
    moved[..., 48:] = 0.01
    kept = denoise._gain(0.04 * ones, moved, ones[:, :1], left)
    torch.testing.assert_close(kept, cells, atol=0.005, rtol=0)
    # Both: the truth's detail is alike to r of what has no noise.
    moved[..., :48] = 0.01
    moved[..., 48:] = 0.03
    kept = denoise._gain(0.04 * ones, moved, ones[:, :1], left)
    signal, unlike = 0.04, 0.015  # of the whole picture
    overall = (signal * (signal + unlike - 0.01)) ** 0.5 / (signal + 0.5 * unlike)
    within = (signal * (signal + 0.03 - 0.01)) ** 0.5 / (signal + 0.5 * 0.03)
    assert float(kept[0, 0, 4, -1]) == pytest.approx(drawn_apart(0.5 * (overall + within)), rel=2e-3)
    # Two frames of nothing but noise keep none of it.
    assert not bool(denoise._gain(0.0 * ones, 0.01 * ones, ones[:, :1], left).any())


def drawn_apart(share: float) -> float:
    return 1.0 - denoise.CONTRAST * (denoise.WHOLE - share)


@pytest.mark.parametrize("count", [1, 2, 8, 9])
@pytest.mark.parametrize("part", [0.0, 0.3, 0.5, 1.0])
def test_the_quantile_is_that_of_torch(count: int, part: float) -> None:
    values = rand(2, 3, count)
    expected = torch.quantile(values, part, dim=2, keepdim=True)
    torch.testing.assert_close(denoise._quantile(values, part), expected)


def test_one_frame_or_none_that_overlaps_is_the_mean() -> None:
    _, frames = noisy_frames(0.05, count=1)
    one = AlignedFrames(frames.frames, frames.correction_fields, frames.valid, frames.time_distance, 0)
    assert torch.equal(CoherentFusion()(one).image, mean_fusion(one).image)
    _, frames = noisy_frames(0.05)
    valid = torch.zeros_like(frames.valid)
    valid[:, 0, :, :20] = valid[:, 1, :, 20:40] = True  # no pixel is seen twice, and some by none
    apart = AlignedFrames(frames.frames, frames.correction_fields, valid, frames.time_distance, 1)
    torch.testing.assert_close(CoherentFusion()(apart).image, mean_fusion(apart).image)
    assert torch.equal(CoherentFusion()(apart).valid, mean_fusion(apart).valid)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_come_back_as_they_came(dtype: torch.dtype) -> None:
    _, frames = noisy_frames(0.05)
    given = (value.to(dtype) for value in (frames.frames, frames.correction_fields, frames.time_distance))
    pictures, fields, distances = given
    fused = CoherentFusion()(AlignedFrames(pictures, fields, frames.valid, distances, 1)).image
    assert fused.dtype == dtype
    torch.testing.assert_close(fused.double(), CoherentFusion()(frames).image.double(), atol=2e-2, rtol=0)
