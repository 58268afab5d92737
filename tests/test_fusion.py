from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from qrsc.fusion import FUSIONS, AlignedFrames, load_fusion, mean_fusion
from qrsc.fusion.mean import DISAGREEMENT, TIME_CONSTANT


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


def test_fusions_by_name() -> None:
    assert FUSIONS == ("none", "mean", "rsa2", "rsa2-lite")
    assert load_fusion("none") is None
    assert load_fusion("mean") is mean_fusion
    with pytest.raises(ValueError, match="unknown fusion 'median'; choose one of none, mean"):
        load_fusion("median")  # type: ignore[arg-type]
