"""Smaller images: means over blocks, and bilinear resizing without aliasing.

Apple's MPS does neither for all sizes in every version of PyTorch that the package supports. Both are products with a
matrix for the rows and one for the columns, and there they are computed as such.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def block_means(values: Tensor, size: tuple[int, int]) -> Tensor:
    """Means of `[B, C, H, W]` over `(h, w)` blocks of about the same size: `[B, C, h, w]`.

    An odd size is divided symmetrically: those of a mirrored image are mirrored.
    """
    if values.device.type != "mps":
        return F.adaptive_avg_pool2d(values, size)
    return _separably(values, *(_blocks(old, new, values) for old, new in zip(values.shape[-2:], size, strict=True)))


def antialiased(values: Tensor, size: tuple[int, int]) -> Tensor:
    """Resize `[B, C, H, W]` to `(h, w)` bilinearly, without aliasing; the corners of the frame stay in place."""
    if values.device.type != "mps":
        return F.interpolate(values, size=size, mode="bilinear", align_corners=False, antialias=True)
    return _separably(values, *(_triangles(old, new, values) for old, new in zip(values.shape[-2:], size, strict=True)))


def _separably(values: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Rows and columns of `[B, C, H, W]` mixed by `[h, H]` and `[w, W]`."""
    return rows @ values @ columns.mT


def _blocks(old: int, new: int, like: Tensor) -> Tensor:
    """The weights `[new, old]` of pixels in means over blocks."""
    place, block = (torch.arange(count, device=like.device)[None] for count in (old, new))
    first, end = block.mT * old // new, -(-(block.mT + 1) * old // new)
    within = ((place >= first) & (place < end)).to(like.dtype)
    return within / within.sum(1, keepdim=True)


def _triangles(old: int, new: int, like: Tensor) -> Tensor:
    """The weights `[new, old]` of pixels under triangles that are as wide as two of the larger pixels."""
    place, centre = (torch.arange(count, device=like.device, dtype=like.dtype)[None] + 0.5 for count in (old, new))
    scale = old / new
    under = (1.0 - (place - scale * centre.mT).abs() / max(scale, 1.0)).clamp_min(0.0)
    return under / under.sum(1, keepdim=True)
