"""Binomial, triangle and box blurs in a few passes, and the median, on any device."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.backend import opencv
from qrsc.backend.kernels import by_kernel

TRIANGLE = tuple(count / 16 for count in (1, 2, 3, 4, 3, 2, 1))
COARSE_STEPS = (1, 2, 4)  # of the binomial blurs that separate coarse structure from fine detail: together sigma 3.2


def binomial_blur(values: Tensor, step: int = 1) -> Tensor:
    """Filter `[B, C, H, W]` with (1, 2, 1) / 4 along rows and columns, taps `step` pixels apart, edges replicated."""
    twin = lambda: _plain_binomial(values, step)  # noqa: E731  # in the place of a function
    return by_kernel("blurs", lambda: _by_kernel(values, 1, step), twin, values)


def _plain_binomial(values: Tensor, step: int) -> Tensor:
    padded = F.pad(values, (step, step, step, step), mode="replicate")
    rows = (padded[..., : -2 * step, :] + padded[..., 2 * step :, :]).mul_(0.25)
    rows.add_(padded[..., step:-step, :], alpha=0.5)
    columns = (rows[..., : -2 * step] + rows[..., 2 * step :]).mul_(0.25)
    return columns.add_(rows[..., step:-step], alpha=0.5)


def fine_detail(values: Tensor) -> Tensor:
    """What a blur of about 3 pixels removes from `[B, C, H, W]`."""
    smooth = values
    for step in COARSE_STEPS:
        smooth = binomial_blur(smooth, step)
    return values - smooth


def triangle_blur(values: Tensor) -> Tensor:
    """Filter `[B, C, H, W]` with (1, 2, 3, 4, 3, 2, 1) / 16 along rows and columns, edges replicated: sigma 1.6."""
    if opencv.supports(values):
        return opencv.separable_filter(values, TRIANGLE)
    return by_kernel("blurs", lambda: _by_kernel(values, len(TRIANGLE) // 2), lambda: _plain_triangle(values), values)


def _plain_triangle(values: Tensor) -> Tensor:
    reach = len(TRIANGLE) // 2
    padded = F.pad(values, (reach, reach, reach, reach), mode="replicate")
    height, width = values.shape[-2:]
    rows = torch.stack([share * padded[..., tap : tap + height, :] for tap, share in enumerate(TRIANGLE)]).sum(0)
    return torch.stack([share * rows[..., tap : tap + width] for tap, share in enumerate(TRIANGLE)]).sum(0)


def box_mean(values: Tensor, side: int) -> Tensor:
    """Average `[B, C, H, W]` over square windows of an odd side; at the edges, over the part inside the image.

    The same as `avg_pool2d` with `count_include_pad=False`, in a third of its time on a CPU, and by OpenCV in a tenth.
    """
    twin = lambda: _plain_box(values, side)  # noqa: E731  # in the place of a function
    return by_kernel("blurs", lambda: _box_by_kernel(values, side), twin, values)


def _plain_box(values: Tensor, side: int) -> Tensor:
    height, width = values.shape[-2:]
    reach = side // 2
    down, across = (_inside(length, reach, values) for length in (height, width))
    sums = opencv.box_sums(values, side) if opencv.supports(values) else _box_sums(values, side)
    return sums / (down[:, None] * across)


def median_filter(values: Tensor, side: int) -> Tensor:
    """The median of `[B, C, H, W]` over square windows of side 3 or 5, edges replicated."""
    if opencv.supports(values):
        return opencv.median(values, side)
    reach, (batch, channels, height, width) = side // 2, values.shape
    padded = F.pad(values, (reach, reach, reach, reach), mode="replicate")
    windows = F.unfold(padded.reshape(batch * channels, 1, *padded.shape[-2:]), side)  # [B C, side^2, H W]
    return windows.median(1).values.reshape(batch, channels, height, width)


def _by_kernel(values: Tensor, reach: int, step: int = 1) -> Tensor:
    from qrsc.image import blur_kernels

    return blur_kernels.triangle_blur(values, reach, step)


def _box_by_kernel(values: Tensor, side: int) -> Tensor:
    from qrsc.image import blur_kernels

    return blur_kernels.box_mean(values, side)


def _box_sums(values: Tensor, side: int) -> Tensor:
    height, width = values.shape[-2:]
    reach = side // 2
    padded = F.pad(values, (reach, reach, reach, reach))
    rows = padded[..., :height, :].clone()
    for offset in range(1, side):
        rows.add_(padded[..., offset : offset + height, :])
    columns = rows[..., :width].clone()
    for offset in range(1, side):
        columns.add_(rows[..., offset : offset + width])
    return columns


def _inside(length: int, reach: int, like: Tensor) -> Tensor:
    """Number of window positions inside a dimension of this length, `[length]`."""
    place = torch.arange(length, device=like.device)  # integers: half precision cannot count far enough
    return (1 + place.clamp(max=reach) + (length - 1 - place).clamp(max=reach)).to(like.dtype)
