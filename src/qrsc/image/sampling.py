"""Sampling images between their pixels.

Convention
    Pixel centres lie at integer coordinates, x to the right, y down. A frame extends half a pixel beyond its outermost
    centres; positions further out are not valid, and take the nearest edge pixel. Coordinates are clamped for that:
    some devices have no `padding_mode="border"`.
"""

from __future__ import annotations

from typing import NamedTuple, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.backend import opencv
from qrsc.names import Interpolation

INTERPOLATIONS: tuple[Interpolation, ...] = get_args(Interpolation)


class Warped(NamedTuple):
    """A warped image `[..., C, H, W]` and its validity mask `[..., 1, H, W]`, bool."""

    image: Tensor
    valid: Tensor


def pixel_grid(
    height: int, width: int, *, dtype: torch.dtype = torch.float32, device: torch.device | str | None = None
) -> Tensor:
    """The coordinates of every pixel: `[2, H, W]`, x first."""
    y = torch.arange(height, dtype=dtype, device=device).reshape(1, -1, 1).expand(1, height, width)
    x = torch.arange(width, dtype=dtype, device=device).reshape(1, 1, -1).expand(1, height, width)
    return torch.cat([x, y])


def sample(image: Tensor, position: Tensor, interpolation: Interpolation = "bilinear") -> Warped:
    """Sample an image at given positions.

    Convention
        `position[..., :, y, x]` is the position in `image`, in pixels, that output pixel (x, y) is taken from.

    Args:
        image: `[..., C, H, W]`.
        position: `[..., 2, h, w]`, the same leading dimensions; h, w may differ from H, W.
        interpolation: `bilinear`, or `bicubic` (Keys' cubic, a = -0.75; sharper, may overshoot).

    Returns:
        `[..., C, h, w]`, and `[..., 1, h, w]` bool: finite and inside the frame.
    """
    if interpolation not in INTERPOLATIONS:
        raise ValueError(f"unknown interpolation {interpolation!r}; choose one of {', '.join(INTERPOLATIONS)}.")
    check_field(position, "position")
    if image.ndim != position.ndim or image.shape[:-3] != position.shape[:-3]:
        raise ValueError(
            "image [..., C, H, W] and position [..., 2, h, w] must have the same leading dimensions; got "
            f"{tuple(image.shape)} and {tuple(position.shape)}."
        )
    height, width = image.shape[-2:]
    x, y = position.unbind(-3)  # [..., h, w]
    return Warped(read_anywhere(image, x, y, interpolation), inside(x, y, height, width).unsqueeze(-3))


def inside(x: Tensor, y: Tensor, height: int, width: int) -> Tensor:
    """Whether coordinates lie in a frame, bool of their shape; false for NaN."""
    x, y = x.detach(), y.detach()
    if opencv.supports(x, y):  # numpy compares in a fifth of the time
        across, down = x.numpy(), y.numpy()
        return torch.from_numpy((across >= -0.5) & (across <= width - 0.5) & (down >= -0.5) & (down <= height - 0.5))
    return (x >= -0.5) & (x <= width - 0.5) & (y >= -0.5) & (y <= height - 0.5)


def enlarged(image: Tensor, size: tuple[int, int]) -> Tensor:
    """Upsample an image `[B, C, H, W]` bilinearly to `(h, w)`; the corners of the frame stay in place."""
    if opencv.supports(image):
        return opencv.upsample(image, size)
    return F.interpolate(image, size=size, mode="bilinear", align_corners=False)


def read_anywhere(image: Tensor, x: Tensor, y: Tensor, interpolation: Interpolation = "bilinear") -> Tensor:
    """Sample `[..., C, H, W]` at any coordinates `[..., h, w]`: `[..., C, h, w]`; outside, the nearest edge pixel."""
    height, width = image.shape[-2:]
    x = torch.nan_to_num(x, nan=0.0).clamp_(0, width - 1)
    y = torch.nan_to_num(y, nan=0.0).clamp_(0, height - 1)
    return read_inside(image, x, y, interpolation)


def read_inside(image: Tensor, x: Tensor, y: Tensor, interpolation: Interpolation) -> Tensor:
    """Sample `[..., C, H, W]` at coordinates `[..., h, w]` inside it: `[..., C, h, w]`."""
    if opencv.supports_remap(image, x, y, interpolation=interpolation):
        return opencv.remap(image, x, y, interpolation)
    if image.device.type == "mps" and interpolation == "bicubic":
        return _by_taps(image, x, y)
    # Padded with its edge pixels, the image contains every tap: the zero padding of `grid_sample` is never read.
    pad = 1 if interpolation == "bilinear" else 2
    height, width = image.shape[-2:]
    flat = F.pad(image.reshape(-1, *image.shape[-3:]), (pad, pad, pad, pad), mode="replicate")
    grid_x = (2.0 * (x + pad) + 1.0) / (width + 2 * pad) - 1.0
    grid_y = (2.0 * (y + pad) + 1.0) / (height + 2 * pad) - 1.0
    grid = torch.stack([grid_x, grid_y], dim=-1).reshape(-1, *x.shape[-2:], 2)
    sampled = F.grid_sample(flat, grid, mode=interpolation, padding_mode="zeros", align_corners=False)
    return sampled.reshape(*image.shape[:-2], *x.shape[-2:])


def _by_taps(image: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Bicubic `read_inside`, tap by tap: MPS has no such sampling in every version of PyTorch that is supported."""
    height, width = image.shape[-2:]
    flat = image.reshape(-1, image.shape[-3], height * width)
    left, top = x.floor(), y.floor()
    across, down = (_cubic(part - first).reshape(4, -1, 1, *x.shape[-2:]) for part, first in ((x, left), (y, top)))
    total = torch.zeros((), dtype=image.dtype, device=image.device)
    for row in range(4):
        line = (top + (row - 1)).clamp(0, height - 1) * width
        for column in range(4):
            place = (line + (left + (column - 1)).clamp(0, width - 1)).long().reshape(-1, 1, x.shape[-2] * x.shape[-1])
            tap = torch.gather(flat, 2, place.expand(-1, flat.shape[1], -1))
            total = total + down[row] * across[column] * tap.reshape(*flat.shape[:2], *x.shape[-2:])
    return total.reshape(*image.shape[:-2], *x.shape[-2:])


def _cubic(part: Tensor) -> Tensor:
    """Keys' weights, a = -0.75, of the four pixels around a point that is so far beyond the second: `[4, ...]`."""
    outer = [(-0.75 * d**3 + 3.75 * d**2 - 6.0 * d + 3.0) for d in (1.0 + part, 2.0 - part)]
    inner = [(1.25 * d**3 - 2.25 * d**2 + 1.0) for d in (part, 1.0 - part)]
    return torch.stack([outer[0], inner[0], inner[1], outer[1]])


def check_field(field: Tensor, name: str) -> None:
    """Raise unless this has the shape of displacement fields."""
    if field.ndim < 3 or field.shape[-3] != 2:
        raise ValueError(f"{name} must be [..., 2, H, W] holding (dx, dy) in pixels; got {tuple(field.shape)}.")
