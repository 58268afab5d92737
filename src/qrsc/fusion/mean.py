"""Fusion without a network: a mean of the corrected frames, weighted by validity, closeness in time and agreement."""

from __future__ import annotations

import torch
from torch import Tensor

from qrsc.blurring import box_mean
from qrsc.fusion.aligned import AlignedFrames
from qrsc.warp import Warped

# A frame exposed this much further from the instant (in frame intervals) counts 1/e as much. On true two- and
# three-frame samples with DIS flow, mean PSNR at the middle row for 0.1 | 0.25 | 0.5 | 1.5: Carla-RS 32.7 | 32.8 |
# 32.9 | 33.0, Fastec-RS 29.5 | 29.7 | 29.9 | 29.8, BS-RSC 27.5 | 27.5 | 27.6 | 27.7.
TIME_CONSTANT = 0.5
# A frame that differs from the centre one by this much (root mean square over a small window, in [0, 1]) counts 1/e as
# much: where the motion was found wrong, one surface would be seen twice. Without it there is a ghost beside thin
# poles; on the same samples it costs 0.04, 0.05 and 0.01 dB.
DISAGREEMENT = 0.15
# The same where detail is weighed (see `qrsc.fusion.coherent`): a faint double image is weighed down there.
CALM_DISAGREEMENT = 0.25
WINDOW = 5  # pixels


def mean_fusion(aligned: AlignedFrames) -> Warped:
    """One frame from several.

    A pixel that no frame shows keeps the centre frame's value (its nearest edge pixel) and is not valid.

    Returns:
        `[B, 3, H, W]` and `[B, 1, H, W]` bool.
    """
    return weighted_mean(aligned, mean_weights(aligned))


def mean_weights(aligned: AlignedFrames, disagreement: float = DISAGREEMENT) -> Tensor:
    """How much each frame counts, `[B, T, 1, H, W]`: adds up to 1, or is 0 where no frame shows the pixel."""
    likely = log_weights(aligned.frames, aligned.valid, aligned.time_distance, aligned.centre, disagreement)
    weight = torch.where(aligned.valid, torch.exp(likely), torch.zeros_like(likely))
    total = weight.sum(1, keepdim=True)
    return weight / torch.where(aligned.valid.any(1, keepdim=True), total, torch.ones_like(total))


def weighted_mean(aligned: AlignedFrames, weights: Tensor) -> Warped:
    """The frames added up by weights `[B, T, 1, H, W]`; see `mean_fusion`."""
    seen = aligned.valid.any(1)
    mean = (weights * aligned.frames).sum(1)
    return Warped(torch.where(seen, mean, aligned.frames[:, aligned.centre]), seen)


def log_weights(
    frames: Tensor, valid: Tensor, time_distance: Tensor, centre: int, disagreement: float = DISAGREEMENT
) -> Tensor:
    """Logarithms of the weights of valid pixels, by closeness in time and likeness to the centre frame.

    Args:
        frames: `[B, T, 3, H, W]`.
        valid: `[B, T, 1, H, W]`, bool; a pixel that the centre does not show can be unlike anything.
        time_distance: `[B, T, 1, H, W]`.
        centre: which of the T frames is the centre one.
        disagreement: see `DISAGREEMENT`.

    Returns:
        `[B, T, 1, H, W]`, 0 or less.
    """
    mine = frames[:, centre]
    others = [i for i in range(frames.shape[1]) if i != centre]
    if not others:
        return -time_distance / TIME_CONSTANT
    squared = torch.cat([(frames[:, i] - mine).square().mean(1, keepdim=True) for i in others], 1)  # [B, T - 1, H, W]
    unlike = box_mean(squared, WINDOW) / disagreement**2
    unlike = torch.where(valid[:, centre], unlike, torch.zeros_like(unlike))
    # The centre frame is like itself.
    with_mine = torch.cat([unlike[:, :centre], torch.zeros_like(unlike[:, :1]), unlike[:, centre:]], 1)
    return -time_distance / TIME_CONSTANT - with_mine.unsqueeze(2)
