from __future__ import annotations

from dataclasses import replace

import torch

from qrsc.fusion.coherent import CoherentFusion
from qrsc.fusion.denoise import anchored
from qrsc.fusion.finish import NOISY_OWN, OWN, finished
from qrsc.fusion.mean import agreement
from qrsc.image.blur import binomial_blur, fine_detail
from qrsc.image.colour import luma

from .samples import noisy_frames

INSIDE = (..., slice(16, -16), slice(16, -16))  # away from the edges, where blurs replicate


def chequers(height: int, width: int) -> torch.Tensor:
    return 0.02 * (torch.arange(height)[:, None] + torch.arange(width)).remainder(2).mul(2.0).sub(1.0)


def coarse_structure(image: torch.Tensor) -> torch.Tensor:
    return image - fine_detail(image)


def test_what_all_frames_agree_on_stays() -> None:
    scene, frames = noisy_frames(0.0)
    torch.testing.assert_close(finished(scene, frames)[INSIDE], scene[INSIDE], atol=1e-5, rtol=0)


def test_coarse_structure_is_that_of_the_denoised_mean_and_fine_detail_that_of_the_network() -> None:
    scene, frames = noisy_frames(0.01)
    height, width = scene.shape[-2:]
    wave = 0.02 * torch.sin(torch.arange(width) * (2.0 * torch.pi / 24.0)).expand(1, 3, height, width)
    fine = chequers(height, width)
    given = scene + wave + fine
    result, before = finished(given, frames), anchored(given, frames)
    coarse = coarse_structure(CoherentFusion()(frames).image)
    strayed, had = ((coarse_structure(each) - coarse)[INSIDE].square().mean().sqrt() for each in (result, before))
    assert float(strayed) < 0.4 * float(had)
    kept = (fine_detail(result) * fine)[INSIDE].mean() / fine.square().mean()
    assert abs(float(kept) - (1.0 - OWN)) < 0.05  # the frames do not have it


def test_a_share_of_the_frames_own_detail_is_added_where_it_is_shown_and_agrees() -> None:
    scene, frames = noisy_frames(0.0)
    height, width = scene.shape[-2:]
    fine = chequers(height, width)
    own = frames.frames.clone()
    own[:, frames.centre] += fine  # as grain: the other frames have another one
    own[:, frames.centre, :, :, 64:] = 1.0  # something white hides the scene there
    valid = frames.valid.clone()
    valid[:, frames.centre, :, :, :32] = False
    given = replace(frames, frames=own, valid=valid)
    added = (finished(scene, given) - scene)[0, 0] / fine
    middle = added[16:-16]
    assert float(middle[:, 4:24].abs().mean()) < 0.02, "not shown"
    assert abs(float(middle[:, 44:52].mean()) - OWN) < 0.05
    lost = fine_detail(finished(scene, given) - anchored(scene, given))[0, 0, 16:-16, 80:]
    assert float(lost.abs().max()) < 0.002, "hidden by something else"


def test_noise_is_the_centre_frames_own_in_luma_and_leaves_the_finest_chroma() -> None:
    scene, frames = noisy_frames(0.04)
    noise = frames.frames - scene[:, None]
    frames = replace(frames, frames=0.5 + noise)
    grain = _finest(noise[:, frames.centre])[INSIDE]
    added = _finest(finished(torch.full_like(scene, 0.5), frames))[INSIDE]
    share = (luma(added) * luma(grain)).mean() / luma(grain).square().mean()
    assert 0.5 * NOISY_OWN < float(share) < NOISY_OWN + 0.15
    own = frames.frames[:, frames.centre]
    ours, given = (_finest(each - luma(each))[INSIDE].square().mean() for each in (finished(own, frames), own))
    assert float(ours) < 0.3 * float(given)


def test_a_picture_without_noise_keeps_its_chroma() -> None:
    scene, frames = noisy_frames(0.001)
    ours, given = (_finest(each - luma(each))[INSIDE] for each in (finished(scene, frames), scene))
    torch.testing.assert_close(ours, given, atol=2e-3, rtol=0)


def test_a_single_frame_is_its_own_denoised_mean() -> None:
    _, frames = noisy_frames(0.04)
    alone = replace(
        frames,
        frames=frames.frames[:, :1],
        correction_fields=frames.correction_fields[:, :1],
        valid=frames.valid[:, :1],
        time_distance=frames.time_distance[:, :1],
        centre=0,
    )
    own = alone.frames[:, 0]
    torch.testing.assert_close(finished(own, alone), own, atol=1e-5, rtol=0)


def _finest(images: torch.Tensor) -> torch.Tensor:
    return images - binomial_blur(images)


def test_agreement_is_whole_for_equal_pictures_and_none_for_others() -> None:
    picture = torch.rand(1, 3, 20, 20, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(agreement(picture, picture), torch.ones(1, 1, 20, 20))
    assert float(agreement(picture, picture + 0.6).max()) < 1e-6


def test_gradients_flow_to_the_result_and_the_frames() -> None:
    scene, frames = noisy_frames(0.02, size=(32, 32))
    image, given = scene.clone().requires_grad_(), frames.frames.clone().requires_grad_()
    total = finished(image, replace(frames, frames=given)).square().sum()
    for gradient in torch.autograd.grad(total, (image, given)):
        assert bool(gradient.isfinite().all())
        assert float(gradient.abs().sum()) > 0.0
