from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.fusion import FUSIONS, CoherentFusion, load_fusion, mean_fusion
from qrsc.fusion.mean import DISAGREEMENT, TIME_CONSTANT, plain_mean
from qrsc.image.colour import luma

from .samples import aligned


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
    # The gain of the detail is one for the whole picture: 4e-5 measured.
    torch.testing.assert_close(fused.image[..., 50:], centre[:1, ..., 50:], atol=2e-4, rtol=0)


def detail_by_hand(picture: Tensor) -> Tensor:
    """Luma of `[3, H, W]` less its mean over a triangle of 7 x 7 pixels, pixel by pixel, `[H, W]`."""
    brightness = luma(picture)[0]
    height, width = brightness.shape
    shares = [(step, (4 - abs(step)) / 16) for step in range(-3, 4)]
    fine = brightness.clone()
    for y in range(height):
        for x in range(width):
            for down, share in shares:
                for across, other in shares:
                    at = min(max(y + down, 0), height - 1), min(max(x + across, 0), width - 1)
                    fine[y, x] -= share * other * brightness[at]
    return fine


def test_the_mean_keeps_the_detail_of_the_centre_frame() -> None:
    """Frames of one scene with noise of their own: averaging removes detail, and the mean gets it back."""
    generator = torch.Generator().manual_seed(1)
    scene, noise = (torch.rand(count, 3, 14, 17, generator=generator, dtype=torch.float64) for count in (1, 3))
    everywhere = torch.ones(3, 1, 14, 17, dtype=torch.bool)
    given = aligned(0.3 + 0.2 * scene + 0.1 * noise, everywhere, torch.full((3, 1, 14, 17), 0.2, dtype=torch.float64))
    plain, kept = plain_mean(given).image[0], mean_fusion(given).image[0]
    wanted, before = (float(detail_by_hand(each).square().sum()) for each in (given.frames[0, 1], plain))
    assert before < 0.9 * wanted
    gain = math.sqrt(wanted / before)
    assert 1.0 < gain < 1.25
    torch.testing.assert_close(detail_by_hand(kept), _amplified(plain, gain), atol=1e-9, rtol=0)
    # By OpenCV in float32 as by PyTorch in float64.
    quick = replace(given, frames=given.frames.float(), time_distance=given.time_distance.float())
    torch.testing.assert_close(mean_fusion(quick).image[0], kept.float(), atol=1e-5, rtol=0)


def _amplified(plain: Tensor, gain: float) -> Tensor:
    """The detail of the plain mean once its own detail, channel by channel, has been amplified."""
    channels = [detail_by_hand(plain[channel].expand(3, -1, -1)) for channel in range(3)]
    return detail_by_hand(plain + (gain - 1.0) * torch.stack(channels))


def test_a_single_frame_is_left_as_it_is() -> None:
    frame = rand(1, 3, 8, 9)
    fused = mean_fusion(aligned(frame, torch.ones(1, 1, 8, 9, dtype=torch.bool), torch.zeros(1, 1, 8, 9), centre=0))
    assert torch.equal(fused.image, frame)


def test_fusions_by_name() -> None:
    assert FUSIONS == ("none", "mean", "coherent", "rsa2", "rsa2-lite")
    assert load_fusion("none") is None
    assert load_fusion("mean") is mean_fusion
    assert isinstance(load_fusion("coherent"), CoherentFusion)
    with pytest.raises(ValueError, match="unknown fusion 'median'; choose one of none, mean"):
        load_fusion("median")
