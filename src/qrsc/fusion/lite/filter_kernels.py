"""Filtering with a kernel for each pixel, straight from the layer that predicts the kernels; Triton, no gradients."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from qrsc.backend.kernel_parts import nearest

BLOCK = 128


@triton.jit(do_not_specialize=["height", "width"])  # type: ignore[untyped-decorator]  # Triton has no types
def _filter_kernel(  # type: ignore[no-untyped-def]  # Triton's own types
    pictures,  # [N, 3, H, W]
    found,  # [N, H / STRIDE, W / STRIDE, CHANNELS], of which SIDE^2 STRIDE^2 are kernels
    result,  # [N, 3, H, W]
    height,  # H
    width,  # W
    SIDE: tl.constexpr,
    STRIDE: tl.constexpr,
    CHANNELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    x = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.program_id(1)
    image = tl.program_id(2).to(tl.int64)
    known = x < width
    cell = (image * (height // STRIDE) + y // STRIDE) * (width // STRIDE) + x // STRIDE
    own = found + cell * CHANNELS + (y % STRIDE) * STRIDE + x % STRIDE
    mean = tl.zeros([BLOCK], dtype=tl.float32)
    for tap in tl.static_range(SIDE * SIDE):
        mean += tl.load(own + tap * STRIDE * STRIDE, mask=known, other=0.0).to(tl.float32)
    mean = mean / (SIDE * SIDE)
    for colour in tl.static_range(3):
        plane = (image * 3 + colour) * height
        total = tl.load(pictures + (plane + y) * width + x, mask=known, other=0.0).to(tl.float32)
        for tap in tl.static_range(SIDE * SIDE):
            share = tl.load(own + tap * STRIDE * STRIDE, mask=known, other=0.0).to(tl.float32) - mean
            at_x = nearest(x + tap % SIDE - SIDE // 2, width)
            at_y = nearest(y + tap // SIDE - SIDE // 2, height)
            value = tl.load(pictures + (plane + at_y) * width + at_x, mask=known, other=0.0)
            total += share * value.to(tl.float32)
        tl.store(result + (plane + y) * width + x, total.to(result.dtype.element_ty), mask=known)


def filtered(pictures: Tensor, found: Tensor, side: int, stride: int) -> Tensor:
    """As `qrsc.fusion.lite.network.plainly_filtered`."""
    pictures, found = pictures.contiguous(), found.permute(0, 2, 3, 1).contiguous()
    count, _, height, width = pictures.shape
    result = torch.empty_like(pictures)
    launch: Any = _filter_kernel[(triton.cdiv(width, BLOCK), height, count)]
    launch(pictures, found, result, height, width, SIDE=side, STRIDE=stride, CHANNELS=found.shape[-1], BLOCK=BLOCK)
    return result
