"""What is around a pixel, where the pixel itself says little."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

PRIOR = 0.02  # weight of the surroundings against what a pixel itself says with a weight of 1


def fill_from_around(values: Tensor, weight: Tensor) -> Tensor:
    """Values as they are where their weight is large, and the mean of those around them where it is small.

    Means are taken over ever larger blocks, coarse to fine, each by the weights in it.

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
    # Where nothing at all has a weight, the values as they were are the best there is.
    mean = values.mean(dim=(2, 3), keepdim=True)
    filled = torch.where(share > 0, total / torch.where(share > 0, share, 1.0), mean)
    for total, share in reversed(levels):
        around = F.interpolate(filled, size=total.shape[-2:], mode="bilinear", align_corners=False)
        filled = (total + PRIOR * around) / (share + PRIOR)
    return filled


def _halved(values: Tensor) -> Tensor:
    # Adaptive, so that an odd size is divided alike from both ends: a mirrored picture is filled as its mirror image.
    height, width = values.shape[-2:]
    return F.adaptive_avg_pool2d(values, ((height + 1) // 2, (width + 1) // 2))
