"""Lossy compression: chroma at half resolution, and quantised cosine coefficients of 8 x 8 blocks.

As in JPEG, each picture is coded on its own. As in H.264, only the residual of a prediction is coded, small
coefficients are dropped, and block edges are smoothed: static areas stay constant, and faint detail sticks to moving
objects.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from qrsc.image.colour import from_ycbcr, to_ycbcr
from qrsc.simulate.camera.prediction import predicted

BLOCK = 8
# Fraction of a step by which H.264 encoders round towards 0, in key frames and in residuals.
KEY_DEAD_ZONE, DEAD_ZONE = 1.0 / 6.0, 1.0 / 3.0


def compress(pictures: Tensor, quality: Tensor) -> Tensor:
    """Compress pictures as JPEG does, and decode them.

    Args:
        pictures: `[N, 3, H, W]`, RGB in 0 to 1.
        quality: `[N]`, 1 to 100 on the scale that JPEG encoders use.

    Returns:
        `[N, 3, H, W]`, in 0 to 1.
    """
    height, width = pictures.shape[-2:]
    coded = _coded(_padded(pictures), None, quality, dead=0.0)
    return coded[..., :height, :width]


def compress_video(pictures: Tensor, before: Tensor | None, quality: Tensor) -> Tensor:
    """Compress a frame of a video as H.264 does, and decode it.

    Args:
        pictures: `[N, 3, H, W]`, RGB in 0 to 1.
        before: `[N, 3, H, W]`, the previous decoded frame; None for a key frame.
        quality: `[N]`, 1 to 100, as for `compress`.

    Returns:
        `[N, 3, H, W]`, in 0 to 1.
    """
    height, width = pictures.shape[-2:]
    padded = _padded(pictures)
    prediction = None if before is None else predicted(padded, _padded(before))
    coded = _coded(padded, prediction, quality, dead=KEY_DEAD_ZONE if prediction is None else DEAD_ZONE)
    # Only the residual has new block edges: smoothing everything would erode what is copied from frame to frame.
    known = torch.zeros_like(coded) if prediction is None else prediction
    return (known + _smoothed_edges(coded - known, quality)).clamp(0.0, 1.0)[..., :height, :width]


def _padded(pictures: Tensor) -> Tensor:
    height, width = pictures.shape[-2:]
    return F.pad(pictures, [0, -width % (2 * BLOCK), 0, -height % (2 * BLOCK)], mode="replicate")


def _coded(pictures: Tensor, prediction: Tensor | None, quality: Tensor, *, dead: float) -> Tensor:
    """Pictures whose residual to a prediction (mid grey if None) is quantised; see `_quantised_blocks`."""
    ycc = to_ycbcr(pictures)
    known = torch.zeros_like(ycc) if prediction is None else to_ycbcr(prediction)
    if prediction is None:
        known[:, :1] = 0.5
    residual = ycc - known
    luma = _quantised_blocks(residual[:, :1], quality, coarse=10.0, slope=6.0, dead=dead)
    chroma = _quantised_blocks(F.avg_pool2d(residual[:, 1:], 2), quality, coarse=16.0, slope=10.0, dead=dead)
    chroma = F.interpolate(chroma, scale_factor=2, mode="bilinear", align_corners=False)
    return from_ycbcr(known + torch.cat([luma, chroma], dim=1)).clamp(0.0, 1.0)


def _smoothed_edges(pictures: Tensor, quality: Tensor) -> Tensor:
    """Halve the steps across block edges that are small enough to come from quantisation."""
    limit = 2.0 * _scale(quality, pictures).reshape(-1, 1, 1, 1) * 10.0 / 255.0
    for dim in (2, 3):
        length = pictures.shape[dim]
        last = torch.arange(BLOCK - 1, length - 1, BLOCK, device=pictures.device)
        left, right = pictures.index_select(dim, last), pictures.index_select(dim, last + 1)
        step = right - left
        change = torch.where(step.abs() < limit, 0.25 * step, 0.0)
        pictures = pictures.index_copy(dim, last, left + change).index_copy(dim, last + 1, right - change)
    return pictures


def _quantised_blocks(planes: Tensor, quality: Tensor, *, coarse: float, slope: float, dead: float) -> Tensor:
    """Quantise the cosine coefficients of the blocks of planes `[N, C, h, w]`.

    Args:
        coarse, slope: step of the constant coefficient at quality 50, out of 255, and its growth with frequency.
        dead: dead zone: fraction of a step by which coefficients shrink before rounding.
    """
    count, channels, height, width = planes.shape
    transform = _cosines(planes)
    blocks = planes.reshape(count, channels, height // BLOCK, BLOCK, width // BLOCK, BLOCK).transpose(3, 4)
    frequency = torch.arange(BLOCK, dtype=planes.dtype, device=planes.device)
    table = coarse + slope * (frequency[:, None] + frequency)  # [8, 8]
    steps = (table * _scale(quality, planes).reshape(-1, 1, 1, 1, 1, 1)).clamp(1.0, 255.0) / 255.0
    levels = transform @ blocks @ transform.t() / steps
    levels = levels.sign() * (levels.abs() - dead).clamp_min(0.0).round() if dead else levels.round()
    blocks = transform.t() @ (levels * steps) @ transform
    return blocks.transpose(3, 4).reshape(planes.shape)


def _scale(quality: Tensor, like: Tensor) -> Tensor:
    """Scale of the quantisation steps: 1 at quality 50, `[N]`."""
    quality = quality.to(like).clamp(1.0, 100.0)
    return torch.where(quality < 50.0, 50.0 / quality, 2.0 - 0.02 * quality)


def _cosines(like: Tensor) -> Tensor:
    """The orthonormal cosine transform of 8 values: `[8, 8]`."""
    number = torch.arange(BLOCK, dtype=torch.float64)
    matrix = torch.cos(torch.pi / BLOCK * (number + 0.5) * number[:, None]).mul((2.0 / BLOCK) ** 0.5)
    matrix[0] *= 0.5**0.5
    return matrix.to(like)
