"""Lossy compression: colours at half resolution, and blocks of 8 x 8 pixels in rounded cosine coefficients.

As in JPEG each picture is on its own. As in H.264 only what differs from a prediction is kept, small differences are
dropped altogether, and block edges are smoothed: what is still looks still, and faint detail sticks to what moves.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from qrsc.image.colour import from_ycbcr, to_ycbcr
from qrsc.simulate.camera.prediction import predicted

BLOCK = 8
# By how much of a step H.264 encoders round towards 0, in key frames and in what differs from a prediction.
KEY_DEAD_ZONE, DEAD_ZONE = 1.0 / 6.0, 1.0 / 3.0


def compress(pictures: Tensor, quality: Tensor) -> Tensor:
    """Pictures as they come back from a JPEG file.

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
    """A frame as it comes back from a video file.

    Args:
        pictures: `[N, 3, H, W]`, RGB in 0 to 1.
        before: `[N, 3, H, W]`, the frame before as it came back; None for a key frame.
        quality: `[N]`, 1 to 100, as for `compress`.

    Returns:
        `[N, 3, H, W]`, in 0 to 1.
    """
    height, width = pictures.shape[-2:]
    padded = _padded(pictures)
    prediction = None if before is None else predicted(padded, _padded(before))
    coded = _coded(padded, prediction, quality, dead=KEY_DEAD_ZONE if prediction is None else DEAD_ZONE)
    # Only what is new has new edges: smoothing all of it would wear away what is copied from frame to frame.
    known = torch.zeros_like(coded) if prediction is None else prediction
    return (known + _smoothed_edges(coded - known, quality)).clamp(0.0, 1.0)[..., :height, :width]


def _padded(pictures: Tensor) -> Tensor:
    height, width = pictures.shape[-2:]
    return F.pad(pictures, [0, -width % (2 * BLOCK), 0, -height % (2 * BLOCK)], mode="replicate")


def _coded(pictures: Tensor, prediction: Tensor | None, quality: Tensor, *, dead: float) -> Tensor:
    """Pictures with what differs from a prediction (mid grey if None) rounded; see `_rounded_blocks`."""
    ycc = to_ycbcr(pictures)
    known = torch.zeros_like(ycc) if prediction is None else to_ycbcr(prediction)
    if prediction is None:
        known[:, :1] = 0.5
    rest = ycc - known
    luma = _rounded_blocks(rest[:, :1], quality, coarse=10.0, slope=6.0, dead=dead)
    chroma = _rounded_blocks(F.avg_pool2d(rest[:, 1:], 2), quality, coarse=16.0, slope=10.0, dead=dead)
    chroma = F.interpolate(chroma, scale_factor=2, mode="bilinear", align_corners=False)
    return from_ycbcr(known + torch.cat([luma, chroma], dim=1)).clamp(0.0, 1.0)


def _smoothed_edges(pictures: Tensor, quality: Tensor) -> Tensor:
    """Steps across block edges that are no larger than rounding makes them, flattened by half."""
    limit = 2.0 * _scale(quality, pictures).reshape(-1, 1, 1, 1) * 10.0 / 255.0
    for dim in (2, 3):
        length = pictures.shape[dim]
        last = torch.arange(BLOCK - 1, length - 1, BLOCK, device=pictures.device)
        left, right = pictures.index_select(dim, last), pictures.index_select(dim, last + 1)
        step = right - left
        change = torch.where(step.abs() < limit, 0.25 * step, 0.0)
        pictures = pictures.index_copy(dim, last, left + change).index_copy(dim, last + 1, right - change)
    return pictures


def _rounded_blocks(planes: Tensor, quality: Tensor, *, coarse: float, slope: float, dead: float) -> Tensor:
    """Planes `[N, C, h, w]` with the cosine coefficients of their blocks rounded.

    Args:
        coarse, slope: step of the constant coefficient at quality 50, of 255, and how much it grows with frequency.
        dead: part of a step by which coefficients are drawn towards 0 before they are rounded.
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
    """How coarse the steps are: 1 at quality 50, `[N]`."""
    quality = quality.to(like).clamp(1.0, 100.0)
    return torch.where(quality < 50.0, 50.0 / quality, 2.0 - 0.02 * quality)


def _cosines(like: Tensor) -> Tensor:
    """The orthonormal cosine transform of 8 values: `[8, 8]`."""
    number = torch.arange(BLOCK, dtype=torch.float64)
    matrix = torch.cos(torch.pi / BLOCK * (number + 0.5) * number[:, None]).mul((2.0 / BLOCK) ** 0.5)
    matrix[0] *= 0.5**0.5
    return matrix.to(like)
