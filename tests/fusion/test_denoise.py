from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from qrsc.fusion import denoise
from qrsc.fusion.mean import CALM_DISAGREEMENT, mean_weights, weighted_mean
from qrsc.image.colour import luma

from .samples import noisy_frames


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
    # With equal weights, denoising and averaging commute.
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
    gates[:, :, 0] = 1.0  # luma only
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
    # No noise in most of the image: differences elsewhere are motion, and their detail is kept.
    moved = torch.zeros_like(ones)
    moved[..., 48:] = 0.01
    kept = denoise._gain(0.04 * ones, moved, ones[:, :1], left)
    torch.testing.assert_close(kept, cells, atol=0.005, rtol=0)
    # Both: the noise-free detail has a correlation of r with the truth.
    moved[..., :48] = 0.01
    moved[..., 48:] = 0.03
    kept = denoise._gain(0.04 * ones, moved, ones[:, :1], left)
    signal, unlike = 0.04, 0.015  # of the whole image
    overall = (signal * (signal + unlike - 0.01)) ** 0.5 / (signal + 0.5 * unlike)
    within = (signal * (signal + 0.03 - 0.01)) ** 0.5 / (signal + 0.5 * 0.03)
    assert float(kept[0, 0, 4, -1]) == pytest.approx(drawn_apart(0.5 * (overall + within)), rel=2e-3)
    # Nothing is kept of frames of pure noise.
    assert not bool(denoise._gain(0.0 * ones, 0.01 * ones, ones[:, :1], left).any())


def drawn_apart(share: float) -> float:
    return 1.0 - denoise.CONTRAST * (denoise.WHOLE - share)


@pytest.mark.parametrize("count", [1, 2, 8, 9])
@pytest.mark.parametrize("part", [0.0, 0.3, 0.5, 1.0])
def test_the_quantile_is_that_of_torch(count: int, part: float) -> None:
    values = torch.rand(2, 3, count, generator=torch.Generator().manual_seed(0))
    expected = torch.quantile(values, part, dim=2, keepdim=True)
    torch.testing.assert_close(denoise._quantile(values, part), expected)
