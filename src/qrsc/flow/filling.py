"""Flow where nothing can be matched, from the surroundings where something was."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.flow.correlation import cell_grid

POWER = 4  # of the confidence: one of 0.5 weighs a sixteenth of a full one
PRIOR = 0.02  # weight of the surroundings against what a pixel itself says with full confidence


def fill_unsure(flow: Tensor, confidence: Tensor) -> Tensor:
    """Replace flows by the mean around them, as far as they are unsure or point out of the frame.

    Points that leave the frame are hidden, and a network guesses their motion. Most often they move like what is
    beside them. Means are taken over ever larger blocks, coarse to fine, each weighted by what is sure in it. On
    samples of BS-RSC, whose motion is up to 160 pixels, this brought the correction with `raft-rs+dis` from 28.6 to
    33.0 dB; on Carla-RS from 32.7 to 32.9; Fastec-RS stayed at 29.5.

    Args:
        flow: `[B, 2, H, W]`, in pixels.
        confidence: `[B, 1, H, W]`, 0 to 1.

    Returns:
        `[B, 2, H, W]`.
    """
    height, width = flow.shape[-2:]
    x, y = (flow + cell_grid(height, width, flow.device)).split(1, dim=1)
    inside = (x >= 0) & (x <= width - 1) & (y >= 0) & (y <= height - 1)
    weight = confidence**POWER * inside
    levels = [(flow * weight, weight)]
    while max(levels[-1][0].shape[-2:]) > 1:
        total, share = levels[-1]
        levels.append((_halved(total), _halved(share)))
    total, share = levels.pop()
    # Where nothing at all is sure, the flow as it was is the best there is.
    filled = torch.where(share > 0, total / torch.where(share > 0, share, 1.0), flow.mean(dim=(2, 3), keepdim=True))
    for total, share in reversed(levels):
        around = F.interpolate(filled, size=total.shape[-2:], mode="bilinear", align_corners=False)
        filled = (total + PRIOR * around) / (share + PRIOR)
    return filled


def _halved(values: Tensor) -> Tensor:
    return F.avg_pool2d(values, 2, ceil_mode=True)
