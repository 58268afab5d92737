"""Loops over the pixels of images, for the twins."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import torch
from torch import Tensor

from qrsc.warp import Interpolation


def as_pictures(tensor: Tensor) -> Tensor:
    """`[..., C, H, W]` as `[B, C, H, W]`."""
    return tensor.reshape(-1, *tensor.shape[-3:])


def pixels_of(pictures: Tensor) -> Iterator[tuple[int, int, int]]:
    """Iterate over (image, y, x) of every pixel of `[B, C, H, W]`."""
    count, _, height, width = pictures.shape
    return itertools.product(range(count), range(height), range(width))


def assembled(pixels: Tensor, shape: torch.Size) -> Tensor:
    """Pixels `[B * H * W, C]` as images `[..., C, H, W]` with the leading dimensions and the size of `shape`."""
    height, width = shape[-2:]
    pictures = pixels.reshape(-1, height, width, pixels.shape[-1]).permute(0, 3, 1, 2)
    return pictures.reshape(*shape[:-3], pixels.shape[-1], height, width)


def grid(field: Tensor) -> Tensor:
    """The coordinates of every pixel of a field: `[2, H, W]`, x first."""
    height, width = field.shape[-2:]
    rows = [[[float(x) for x in range(width)] for _ in range(height)], [[float(y)] * width for y in range(height)]]
    return torch.tensor(rows, dtype=field.dtype)


def read(image: Tensor, position: Tensor, interpolation: Interpolation) -> tuple[Tensor, bool]:
    """The value `[C]` of an image `[C, H, W]` at one position `[2]`, and whether that lies inside."""
    height, width = image.shape[-2:]
    x, y = position
    inside = -0.5 <= float(x.detach()) <= width - 0.5 and -0.5 <= float(y.detach()) <= height - 0.5
    x = torch.zeros_like(x) if x.isnan() else x.clamp(0, width - 1)
    y = torch.zeros_like(y) if y.isnan() else y.clamp(0, height - 1)
    left, top = math.floor(float(x.detach())), math.floor(float(y.detach()))
    taps = (0, 1) if interpolation == "bilinear" else (-1, 0, 1, 2)
    value = torch.zeros_like(image[:, 0, 0])
    for row, column in itertools.product([top + tap for tap in taps], [left + tap for tap in taps]):
        weight = _kernel((x - column).abs(), interpolation) * _kernel((y - row).abs(), interpolation)
        value = value + weight * image[:, min(max(row, 0), height - 1), min(max(column, 0), width - 1)]
    return value, inside


def _kernel(distance: Tensor, interpolation: Interpolation, a: float = -0.75) -> Tensor:
    """Weight of a tap at a distance: linear, or Keys' cubic."""
    s = distance
    if interpolation == "bilinear":
        return 1 - s
    if float(s.detach()) <= 1:
        return (a + 2) * s**3 - (a + 3) * s**2 + 1
    return a * s**3 - 5 * a * s**2 + 8 * a * s - 4 * a
