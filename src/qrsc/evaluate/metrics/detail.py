"""How much fine detail a picture has: 1 is as much as the truth, 0.5 is mud, 1.2 is noise or ringing.

Convention
    Pictures are `[..., 3, H, W]` in [0, 1] and one figure per picture comes back, `[...]`, in float64. Both are rounded
    to 8 bits before. Detail is luma (ITU-R BT.601) less its Gaussian blur of sigma 1.5, with mirrored edges.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.evaluate.metrics.image_quality import to_eight_bits
from qrsc.image.colour import luma

SIGMA = 1.5
REACH = 6  # pixels: four sigma


def detail(picture: Tensor, truth: Tensor) -> Tensor:
    """The variance of the picture's detail over that of the truth's.

    Args:
        picture: `[..., 3, H, W]`, more than 6 pixels a side.
        truth: the same shape.

    Returns:
        `[...]`, float64; NaN where the truth has no detail at all: there is nothing to compare with then.
    """
    if picture.shape != truth.shape or picture.ndim < 3 or picture.shape[-3] != 3:
        raise ValueError(
            f"two pictures [..., 3, H, W] of one shape were expected; got {list(picture.shape)} and "
            f"{list(truth.shape)}."
        )
    height, width = picture.shape[-2:]
    if min(height, width) <= REACH:
        raise ValueError(f"detail needs pictures of more than {REACH} pixels a side, got {width}x{height}.")
    ours, theirs = (_energy(each) for each in (picture, truth))
    known = theirs > 0
    return torch.where(known, ours / torch.where(known, theirs, 1.0), torch.nan)


def _energy(picture: Tensor) -> Tensor:
    """The variance of the detail of `[..., 3, H, W]`, `[...]`."""
    height, width = picture.shape[-2:]
    brightness = luma(to_eight_bits(picture)).reshape(-1, 1, height, width)
    place = torch.arange(-REACH, REACH + 1, dtype=brightness.dtype, device=brightness.device)
    window = torch.exp(-0.5 * (place / SIGMA).square())
    window = window / window.sum()
    blurred = F.conv2d(F.pad(brightness, [REACH] * 4, mode="reflect"), window.reshape(1, 1, -1, 1))
    fine = brightness - F.conv2d(blurred, window.reshape(1, 1, 1, -1))
    # A plain picture leaves the rounding of float64 here, which is no detail.
    energy = fine.var((-3, -2, -1), correction=0)
    return torch.where(energy > 1e-20, energy, 0.0).reshape(picture.shape[:-3])
