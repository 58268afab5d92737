"""Compression as in JPEG: colours at half resolution, and blocks of 8 x 8 pixels in rounded cosine coefficients."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

BLOCK = 8
# Luma and two colour differences of RGB (full range).
TO_YCC = ((0.299, 0.587, 0.114), (-0.168736, -0.331264, 0.5), (0.5, -0.418688, -0.081312))


def compress(pictures: Tensor, quality: Tensor) -> Tensor:
    """Pictures as they come back from a lossy file.

    Args:
        pictures: `[N, 3, H, W]`, RGB in 0 to 1.
        quality: `[N]`, 1 to 100 on the scale that JPEG encoders use.

    Returns:
        `[N, 3, H, W]`, in 0 to 1.
    """
    height, width = pictures.shape[-2:]
    padding = [0, -width % (2 * BLOCK), 0, -height % (2 * BLOCK)]
    padded = F.pad(pictures, padding, mode="replicate")
    to_ycc = torch.tensor(TO_YCC, dtype=torch.float64)
    ycc = _mixed(padded, to_ycc)
    luma = _rounded_blocks(ycc[:, :1], quality, coarse=10.0, slope=6.0)
    chroma = _rounded_blocks(F.avg_pool2d(ycc[:, 1:], 2), quality, coarse=16.0, slope=10.0)
    chroma = F.interpolate(chroma, scale_factor=2, mode="bilinear", align_corners=False)
    restored = _mixed(torch.cat([luma, chroma], dim=1), torch.linalg.inv(to_ycc))
    return restored[..., :height, :width].clamp(0.0, 1.0)


def _mixed(pictures: Tensor, matrix: Tensor) -> Tensor:
    """Channels `[N, 3, H, W]` under a 3 x 3 matrix."""
    mixed: Tensor = matrix.to(pictures) @ pictures.flatten(2)
    return mixed.reshape(pictures.shape)


def _rounded_blocks(planes: Tensor, quality: Tensor, *, coarse: float, slope: float) -> Tensor:
    """Planes `[N, C, h, w]` with the cosine coefficients of their blocks rounded.

    Args:
        coarse, slope: step of the constant coefficient at quality 50, of 255, and how much it grows with frequency.
    """
    count, channels, height, width = planes.shape
    transform = _cosines(planes)
    blocks = planes.reshape(count, channels, height // BLOCK, BLOCK, width // BLOCK, BLOCK).transpose(3, 4)
    frequency = torch.arange(BLOCK, dtype=planes.dtype, device=planes.device)
    table = coarse + slope * (frequency[:, None] + frequency)  # [8, 8]
    quality = quality.to(planes).clamp(1.0, 100.0)
    scale = torch.where(quality < 50.0, 50.0 / quality, 2.0 - 0.02 * quality).reshape(-1, 1, 1, 1, 1, 1)
    steps = (table * scale).clamp(1.0, 255.0) / 255.0
    coefficients = transform @ (blocks - 0.5) @ transform.t()
    blocks = transform.t() @ ((coefficients / steps).round() * steps) @ transform + 0.5
    return blocks.transpose(3, 4).reshape(planes.shape)


def _cosines(like: Tensor) -> Tensor:
    """The orthonormal cosine transform of 8 values: `[8, 8]`."""
    number = torch.arange(BLOCK, dtype=torch.float64)
    matrix = torch.cos(torch.pi / BLOCK * (number + 0.5) * number[:, None]).mul((2.0 / BLOCK) ** 0.5)
    matrix[0] *= 0.5**0.5
    return matrix.to(like)
