"""Fill pixels of low weight from their neighbourhood, by a pyramid of weighted means (pull-push)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.backend.kernels import by_kernel
from qrsc.image.pooling import block_means

PRIOR = 0.02  # weight of the neighbourhood, beside a pixel's own weight of up to 1


def fill_from_neighbours(values: Tensor, weight: Tensor) -> Tensor:
    """Keep values of large weight, and replace those of small weight by the weighted mean of their neighbours.

    The pull pass averages over blocks of doubling size; the push pass goes back, and blends each level with the
    upsampled next coarser one.

    Args:
        values: `[B, C, H, W]`, finite.
        weight: `[B, 1, H, W]`, 0 to 1.

    Returns:
        `[B, C, H, W]`.
    """
    if values.dtype != torch.float32 or weight.dtype != torch.float32:
        return plainly_filled(values, weight)
    twin = lambda: plainly_filled(values, weight)  # noqa: E731  # in the place of a function
    return by_kernel("filling from neighbours", lambda: _filled_by_kernels(values, weight), twin, values, weight)


def _filled_by_kernels(values: Tensor, weight: Tensor) -> Tensor:
    from qrsc.image import fill_kernels

    levels = [torch.cat([values * weight, weight], 1)]
    while max(levels[-1].shape[-2:]) > 1:
        levels.append(fill_kernels.halved(levels[-1]))
    last = levels.pop()
    filled = _coarsest(last[:, :-1], last[:, -1:], values)
    for level in reversed(levels):
        filled = fill_kernels.filled(level, filled, PRIOR)
    return filled


def plainly_filled(values: Tensor, weight: Tensor) -> Tensor:
    """The slow twin of the kernels."""
    levels = [(values * weight, weight)]
    while max(levels[-1][0].shape[-2:]) > 1:
        total, share = levels[-1]
        levels.append((_halved(total), _halved(share)))
    total, share = levels.pop()
    filled = _coarsest(total, share, values)
    for total, share in reversed(levels):
        coarse = F.interpolate(filled, size=total.shape[-2:], mode="bilinear", align_corners=False)
        filled = (total + PRIOR * coarse) / (share + PRIOR)
    return filled


def _coarsest(total: Tensor, share: Tensor, values: Tensor) -> Tensor:
    """The level of one pixel: an image without any weight is filled with its unweighted mean."""
    mean = values.mean(dim=(2, 3), keepdim=True)
    return torch.where(share > 0, total / torch.where(share > 0, share, 1.0), mean)


def _halved(values: Tensor) -> Tensor:
    height, width = values.shape[-2:]
    return block_means(values, ((height + 1) // 2, (width + 1) // 2))
