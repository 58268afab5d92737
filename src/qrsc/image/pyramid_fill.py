"""Fill pixels of low weight from their neighbourhood, by a pyramid of weighted means (pull-push)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

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
    levels = [(values * weight, weight)]
    while max(levels[-1][0].shape[-2:]) > 1:
        total, share = levels[-1]
        levels.append((_halved(total), _halved(share)))
    total, share = levels.pop()
    # An image without any weight is filled with its unweighted mean.
    mean = values.mean(dim=(2, 3), keepdim=True)
    filled = torch.where(share > 0, total / torch.where(share > 0, share, 1.0), mean)
    for total, share in reversed(levels):
        coarse = F.interpolate(filled, size=total.shape[-2:], mode="bilinear", align_corners=False)
        filled = (total + PRIOR * coarse) / (share + PRIOR)
    return filled


def _halved(values: Tensor) -> Tensor:
    # Adaptive pooling divides an odd size symmetrically: a mirrored image is filled as the mirror image.
    height, width = values.shape[-2:]
    return F.adaptive_avg_pool2d(values, ((height + 1) // 2, (width + 1) // 2))
