from __future__ import annotations

import pytest
import torch
from torch import Tensor

from qrsc.fusion import AlignedFrames, CoherentFusion
from qrsc.fusion.mean import plain_mean

from .samples import noisy_frames


def distance(picture: Tensor, scene: Tensor) -> float:
    return float((picture - scene).square().mean().sqrt())


def test_frames_that_agree_keep_all_of_their_detail() -> None:
    scene, frames = noisy_frames(0.0)
    torch.testing.assert_close(CoherentFusion()(frames).image, scene)


def test_detail_that_frames_do_not_agree_on_is_taken_for_noise() -> None:
    scene, frames = noisy_frames(0.05)
    mean, fused = plain_mean(frames), CoherentFusion()(frames)
    half = scene.shape[-1] // 2
    before, after = (distance(each.image[..., : half - 8], scene[..., : half - 8]) for each in (mean, fused))
    assert after < 0.7 * before, "noise of the flat half"
    before, after = (distance(each.image[..., half + 8 :], scene[..., half + 8 :]) for each in (mean, fused))
    assert after < 1.05 * before, "detail of the other"
    # Where only the centre frame shows a pixel, the noise level comes from the rest of the image.
    alone = frames.valid.clone()
    alone[:, [0, 2], :, :, :half] = False
    lonely = AlignedFrames(frames.frames, frames.correction_fields, alone, frames.time_distance, 1)
    before = distance(plain_mean(lonely).image[..., : half - 8], scene[..., : half - 8])
    assert distance(CoherentFusion()(lonely).image[..., : half - 8], scene[..., : half - 8]) < 0.95 * before


def test_one_frame_or_none_that_overlaps_is_the_mean() -> None:
    _, frames = noisy_frames(0.05, count=1)
    one = AlignedFrames(frames.frames, frames.correction_fields, frames.valid, frames.time_distance, 0)
    assert torch.equal(CoherentFusion()(one).image, plain_mean(one).image)
    _, frames = noisy_frames(0.05)
    valid = torch.zeros_like(frames.valid)
    valid[:, 0, :, :20] = valid[:, 1, :, 20:40] = True  # no pixel is seen twice, and some by none
    apart = AlignedFrames(frames.frames, frames.correction_fields, valid, frames.time_distance, 1)
    torch.testing.assert_close(CoherentFusion()(apart).image, plain_mean(apart).image)
    assert torch.equal(CoherentFusion()(apart).valid, plain_mean(apart).valid)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_come_back_as_they_came(dtype: torch.dtype) -> None:
    _, frames = noisy_frames(0.05)
    given = (value.to(dtype) for value in (frames.frames, frames.correction_fields, frames.time_distance))
    pictures, fields, distances = given
    fused = CoherentFusion()(AlignedFrames(pictures, fields, frames.valid, distances, 1)).image
    assert fused.dtype == dtype
    torch.testing.assert_close(fused.double(), CoherentFusion()(frames).image.double(), atol=2e-2, rtol=0)
