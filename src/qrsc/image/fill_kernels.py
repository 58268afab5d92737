"""The passes of `qrsc.image.pyramid_fill` as one Triton kernel for each level, without gradients."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from qrsc.backend.kernel_parts import share_of

BLOCK = 256
SIZES = ["height", "width", "small_height", "small_width", "size"]


@triton.jit(do_not_specialize=SIZES)  # type: ignore[untyped-decorator]  # Triton has no types
def _halve_kernel(  # type: ignore[no-untyped-def]  # Triton's own types
    fine,  # [P, H, W]
    coarse,  # [P, h, w], h = ceil(H / 2)
    height,
    width,
    small_height,
    small_width,
    size,  # P h w
    BLOCK: tl.constexpr,
):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    known = place < size
    x = (place % small_width).to(tl.int32)
    y = (place // small_width % small_height).to(tl.int32)
    plane = place // small_width // small_height
    # The windows of adaptive pooling: an even side has windows of 2, an odd one of 3 that overlap, and 2 at the ends.
    left, right = x * width // small_width, ((x + 1) * width + small_width - 1) // small_width
    top, bottom = y * height // small_height, ((y + 1) * height + small_height - 1) // small_height
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for number in tl.static_range(9):
        at_x, at_y = left + number % 3, top + number // 3
        inside = known & (at_x < right) & (at_y < bottom)
        total += tl.load(fine + (plane * height + at_y) * width + at_x, mask=inside, other=0.0).to(tl.float32)
    tl.store(coarse + place, total / ((right - left) * (bottom - top)).to(tl.float32), mask=known)


@triton.jit(do_not_specialize=SIZES)  # type: ignore[untyped-decorator]  # Triton has no types
def _fill_kernel(  # type: ignore[no-untyped-def]  # Triton's own types
    level,  # [B, C + 1, H, W], totals, then their weight
    filled,  # [B, C, h, w], of the next coarser level
    result,  # [B, C, H, W]
    height,
    width,
    small_height,
    small_width,
    size,  # B H W
    prior,
    C: tl.constexpr,
    BLOCK: tl.constexpr,
):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    known = place < size
    x = (place % width).to(tl.int32)
    y = (place // width % height).to(tl.int32)
    image = place // width // height
    across = tl.maximum((x.to(tl.float32) + 0.5) * (small_width.to(tl.float32) / width.to(tl.float32)) - 0.5, 0.0)
    along = tl.maximum((y.to(tl.float32) + 0.5) * (small_height.to(tl.float32) / height.to(tl.float32)) - 0.5, 0.0)
    left = tl.minimum(across.to(tl.int32), small_width - 1)
    top = tl.minimum(along.to(tl.int32), small_height - 1)
    part_x, part_y = across - left.to(tl.float32), along - top.to(tl.float32)
    own = level + image * (C + 1) * height * width + y * width + x
    share = tl.load(own + C * height * width, mask=known, other=1.0) + prior
    for number in tl.static_range(C):
        source = filled + (image * C + number) * small_height * small_width
        around = tl.zeros([BLOCK], dtype=tl.float32)
        for corner in tl.static_range(4):
            at_x = tl.minimum(left + corner % 2, small_width - 1)
            at_y = tl.minimum(top + corner // 2, small_height - 1)
            part = share_of(corner, part_x, part_y)
            around += part * tl.load(source + at_y * small_width + at_x, mask=known, other=0.0)
        total = tl.load(own + number * height * width, mask=known, other=0.0)
        target = result + (image * C + number) * height * width + y * width + x
        tl.store(target, (total + prior * around) / share, mask=known)


def halved(level: Tensor) -> Tensor:
    """Means `[B, C, ceil(H / 2), ceil(W / 2)]`, as `qrsc.image.pyramid_fill._halved`; float32."""
    height, width = level.shape[-2:]
    small = ((height + 1) // 2, (width + 1) // 2)
    result = torch.empty((*level.shape[:2], *small), device=level.device)
    launch: Any = _halve_kernel[(triton.cdiv(result.numel(), BLOCK),)]
    launch(level.contiguous(), result, height, width, *small, result.numel(), BLOCK=BLOCK)
    return result


def filled(level: Tensor, coarse: Tensor, prior: float) -> Tensor:
    """Blend a level `[B, C + 1, H, W]`, of totals and their weight, with the next coarser result `[B, C, h, w]`."""
    batch, channels, height, width = level.shape
    result = torch.empty((batch, channels - 1, height, width), device=level.device)
    size = batch * height * width
    launch: Any = _fill_kernel[(triton.cdiv(size, BLOCK),)]
    sizes = (height, width, *coarse.shape[-2:], size)
    launch(level.contiguous(), coarse.contiguous(), result, *sizes, prior, C=channels - 1, BLOCK=BLOCK)
    return result
