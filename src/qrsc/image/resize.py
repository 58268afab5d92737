"""Resizing of images and displacement fields.

Convention
    Resizing keeps the outer corners of the frame (`align_corners=False`, as `Readout.resized`), so pixel centres of the
    old and the new grid differ by a fraction of a pixel. Fields are in pixels of the grid they are defined on.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.backend import opencv
from qrsc.image.pooling import antialiased, block_means
from qrsc.image.sampling import enlarged


def reduced_size(size: tuple[int, ...], scale: float) -> tuple[int, int]:
    """The size `(h, w)` of an image of size `(H, W)` at a scale; at least one pixel each."""
    height, width = size
    return max(1, round(height * scale)), max(1, round(width * scale))


def resized_picture(image: Tensor, size: tuple[int, ...]) -> Tensor:
    """Resize an image `[B, C, H, W]` to `(h, w)` without aliasing; returned as it is if that is its size."""
    if tuple(image.shape[-2:]) == tuple(size):
        return image
    height, width = size
    if height >= image.shape[-2] and width >= image.shape[-1]:
        return enlarged(image, (height, width))
    return antialiased(image, (height, width))


def resized_field(field: Tensor, size: tuple[int, ...]) -> Tensor:
    """Resize a field `[B, 2, H, W]` to the grid `(h, w)`, in pixels of that grid."""
    if tuple(field.shape[-2:]) == tuple(size):
        return field
    # Fields are smooth and need no anti-aliasing filter; block means are faster.
    down, across = field.shape[-2] // size[0], field.shape[-1] // size[1]
    if (down * size[0], across * size[1]) == tuple(field.shape[-2:]):
        plain = opencv.supports(field)
        resized = opencv.block_means(field, (size[0], size[1])) if plain else F.avg_pool2d(field, (down, across))
    elif down and across:
        resized = block_means(field, (size[0], size[1]))
    else:
        resized = resized_picture(field, size)
    return in_pixels_of(resized, field.shape[-2:], size)


def in_pixels_of(field: Tensor, size: tuple[int, ...], other: tuple[int, ...]) -> Tensor:
    """Convert the values of a field `[B, 2, h, w]` from pixels of size `(H, W)` to those of another; same grid."""
    if tuple(size) == tuple(other):
        return field
    down, across = (new / old for new, old in zip(other, size, strict=True))
    if down == across:
        return field * down
    # Filled on the device: a copy from the CPU would be waited for.
    return field * torch.stack([field.new_full((1, 1), factor) for factor in (across, down)])
