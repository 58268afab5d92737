"""The inversion of displacement fields as Triton kernels, without gradients: all iterations of a point in registers.

One by one the operators of `qrsc.warp.invert` are some three hundred launches. Here they are four: where the pixels
land, the iterations, which points are valid, and the cleaning of single pixels. Convention as there; float32.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from qrsc.backend.kernel_parts import around, nearest, own_pixels, pixels_at, shown

BLOCK = 256  # points per program


@triton.jit
def _rounded(value):  # type: ignore[no-untyped-def]  # Triton's own types
    """The nearest whole number; of two the even one, as PyTorch rounds."""
    up = tl.floor(value + 0.5)
    odd = up - 2.0 * tl.floor(0.5 * up)
    return tl.where(up - value == 0.5, up - odd, up)


@triton.jit  # type: ignore[untyped-decorator]  # Triton has no types
def _landing_kernel(  # type: ignore[no-untyped-def]  # Triton's own types
    field,  # [B, 2, H, W]
    best,  # [B, H W], int64, negative: the rank of the best pixel that lands there
    cover,  # [B, H W], zeros: how many pixels land there
    height,
    width,
    BLOCK: tl.constexpr,
):
    size = height * width
    number, there, index, row, column = own_pixels(height, width, BLOCK)
    across = tl.load(field + number * 2 * size + index, mask=there, other=0.0)
    down = tl.load(field + (number * 2 + 1) * size + index, mask=there, other=0.0)
    x = _rounded(across + column)
    y = _rounded(down + row)
    lands = there & (x >= 0) & (x <= width - 1) & (y >= 0) & (y <= height - 1)  # false for NaN
    target = tl.where(lands, y, 0.0).to(tl.int32) * width + tl.where(lands, x, 0.0).to(tl.int32)
    # The bits of non-negative float32 numbers, read as integers, have the same order.
    length = tl.where(lands, across * across + down * down, 0.0)
    rank = (length.to(tl.int32, bitcast=True).to(tl.int64) << 32) + index
    tl.atomic_max(best + number * size + target, rank, mask=lands, sem="relaxed")

    x = across + column
    y = down + row
    near = there & (x > -1.0) & (x < width) & (y > -1.0) & (y < height)
    left = tl.floor(tl.where(near, x, 0.0))
    top = tl.floor(tl.where(near, y, 0.0))
    right_part = tl.where(near, x, 0.0) - left
    lower_part = tl.where(near, y, 0.0) - top
    corner = top.to(tl.int32) * width + left.to(tl.int32)
    counts = cover + number * size + corner
    on_left = near & (left >= 0.0)
    on_right = near & (left < width - 1)
    above = top >= 0.0
    below = top < height - 1
    tl.atomic_add(counts, (1.0 - right_part) * (1.0 - lower_part), mask=on_left & above, sem="relaxed")
    tl.atomic_add(counts + 1, right_part * (1.0 - lower_part), mask=on_right & above, sem="relaxed")
    tl.atomic_add(counts + width, (1.0 - right_part) * lower_part, mask=on_left & below, sem="relaxed")
    tl.atomic_add(counts + width + 1, right_part * lower_part, mask=on_right & below, sem="relaxed")


@triton.jit
def _between(plane, a, b, c, d, right_part, lower_part):  # type: ignore[no-untyped-def]  # Triton's own types
    """Interpolate four pixels of a plane."""
    left_top, right_top, left_bottom, right_bottom = pixels_at(plane, a, b, c, d)
    above = left_top + (right_top - left_top) * right_part
    below = left_bottom + (right_bottom - left_bottom) * right_part
    return above + (below - above) * lower_part


@triton.jit  # type: ignore[untyped-decorator]  # Triton has no types
def _iteration_kernel(  # type: ignore[no-untyped-def]  # Triton's own types
    field,  # [B, 2, H, W]
    best,  # [B, H W]
    inverse,  # [B, 2, H, W]
    residual,  # [B, H W]
    height,
    width,
    steps,
    jump,
    BLOCK: tl.constexpr,
):
    size = height * width
    number, there, index, row, column = own_pixels(height, width, BLOCK)
    across = field + number * 2 * size
    down = across + size
    found = tl.load(best + number * size + index, mask=there, other=-1)
    landed = found >= 0
    source = tl.where(landed, (found & 0xFFFFFFFF).to(tl.int32), index)
    right = -tl.load(across + source, mask=there, other=0.0)
    low = -tl.load(down + source, mask=there, other=0.0)
    moved = tl.zeros((BLOCK,), dtype=tl.float32)
    for _ in range(steps):
        x = column + right
        y = row + low
        x = tl.where(x == x, x, 0.0)
        y = tl.where(y == y, y, 0.0)
        a, b, c, d, right_part, lower_part = around(x, y, height, width)
        next_right = -_between(across, a, b, c, d, right_part, lower_part)
        next_low = -_between(down, a, b, c, d, right_part, lower_part)
        by_right = tl.abs(next_right - right)
        by_low = tl.abs(next_low - low)
        moved = tl.where((by_right >= by_low) | (by_right != by_right), by_right, by_low)  # NaN if one of them is
        keep = landed & (moved > jump)
        right = tl.where(keep, right, next_right)
        low = tl.where(keep, low, next_low)
    tl.store(inverse + number * 2 * size + index, right, mask=there)
    tl.store(inverse + (number * 2 + 1) * size + index, low, mask=there)
    tl.store(residual + number * size + index, moved, mask=there)


@triton.jit  # type: ignore[untyped-decorator]  # Triton has no types
def _slope(plane, row, column, height, width, ALONG_X: tl.constexpr, there):  # type: ignore[no-untyped-def]  # Triton's
    """The difference of neighbours: central inside, one-sided at the edges."""
    if ALONG_X:
        before = tl.maximum(column - 1, 0)
        after = tl.minimum(column + 1, width - 1)
        first = tl.load(plane + row * width + before, mask=there, other=0.0)
        last = tl.load(plane + row * width + after, mask=there, other=0.0)
    else:
        before = tl.maximum(row - 1, 0)
        after = tl.minimum(row + 1, height - 1)
        first = tl.load(plane + before * width + column, mask=there, other=0.0)
        last = tl.load(plane + after * width + column, mask=there, other=0.0)
    return tl.where(after - before == 2, 0.5, 1.0) * (last - first)


@triton.jit  # type: ignore[untyped-decorator]  # Triton has no types
def _validity_kernel(  # type: ignore[no-untyped-def]  # Triton's own types
    inverse,  # [B, 2, H, W]
    residual,  # [B, H W]
    cover,  # [B, H W]
    valid,  # [B, H W], bool
    height,
    width,
    most_residual,
    most_cover,
    BLOCK: tl.constexpr,
):
    size = height * width
    number, there, index, row, column = own_pixels(height, width, BLOCK)
    across = inverse + number * 2 * size
    down = across + size
    x = column + tl.load(across + index, mask=there, other=0.0)
    y = row + tl.load(down + index, mask=there, other=0.0)
    shown = (x >= -0.5) & (x <= width - 0.5) & (y >= -0.5) & (y <= height - 0.5)
    xx = _slope(across, row, column, height, width, True, there)
    yx = _slope(down, row, column, height, width, True, there)
    xy = _slope(across, row, column, height, width, False, there)
    yy = _slope(down, row, column, height, width, False, there)
    unfolded = (1.0 + xx) * (1.0 + yy) - xy * yx > 0.0
    settled = tl.load(residual + number * size + index, mask=there, other=0.0) < most_residual
    single = tl.load(cover + number * size + index, mask=there, other=0.0) < most_cover
    tl.store(valid + number * size + index, shown & unfolded & settled & single, mask=there)


@triton.jit  # type: ignore[untyped-decorator]  # Triton has no types
def _median(plane, row, column, height, width, there, SIDE: tl.constexpr):  # type: ignore[no-untyped-def]  # Triton's
    """The value of the middle rank in the window around each pixel, edges replicated; equal ones rank by position."""
    middle = tl.zeros_like(row).to(tl.float32)
    for i in range(SIDE * SIDE):
        y = nearest(row + i // SIDE - SIDE // 2, height)
        x = nearest(column + i % SIDE - SIDE // 2, width)
        value = tl.load(plane + y * width + x, mask=there, other=0.0)
        rank = tl.zeros_like(row)
        for j in range(SIDE * SIDE):
            v = nearest(row + j // SIDE - SIDE // 2, height)
            u = nearest(column + j % SIDE - SIDE // 2, width)
            other = tl.load(plane + v * width + u, mask=there, other=0.0)
            rank += ((other < value) | ((other == value) & (j < i))).to(tl.int32)
        middle = tl.where(rank == SIDE * SIDE // 2, value, middle)
    return middle


@triton.jit  # type: ignore[untyped-decorator]  # Triton has no types
def _cleaning_kernel(  # type: ignore[no-untyped-def]  # Triton's own types
    inverse,  # [B, 2, H, W]
    valid,  # [B, H W], bool
    cleaned,  # [B, 2, H, W]
    voted,  # [B, H W], bool
    height,
    width,
    outlier,
    SIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    size = height * width
    number, there, index, row, column = own_pixels(height, width, BLOCK)
    across = inverse + number * 2 * size
    down = across + size
    right = tl.load(across + index, mask=there, other=0.0)
    low = tl.load(down + index, mask=there, other=0.0)
    around_right = _median(across, row, column, height, width, there, SIDE)
    around_low = _median(down, row, column, height, width, there, SIDE)
    own = tl.load(valid + number * size + index, mask=there, other=0) != 0
    apart = (right - around_right) * (right - around_right) + (low - around_low) * (low - around_low)
    off = (own == 0) | (apart > outlier * outlier)
    tl.store(cleaned + number * 2 * size + index, tl.where(off, around_right, right), mask=there)
    tl.store(cleaned + (number * 2 + 1) * size + index, tl.where(off, around_low, low), mask=there)
    votes = tl.zeros_like(row)
    voters = tl.zeros_like(row)
    for i in range(SIDE * SIDE):
        y = row + i // SIDE - SIDE // 2
        x = column + i % SIDE - SIDE // 2
        inside = shown(there, x, y, height, width)
        voters += inside.to(tl.int32)
        votes += (tl.load(valid + number * size + y * width + x, mask=inside, other=0) != 0).to(tl.int32)
    tl.store(voted + number * size + index, 2 * votes > voters, mask=there)


def inverted(field: Tensor, steps: int, jump: float, most_residual: float, most_cover: float) -> tuple[Tensor, Tensor]:
    """As `qrsc.warp.invert.invert_field`, for fields `[B, 2, H, W]`: the inverse, and where it exists."""
    field = field.contiguous()
    batch, _, height, width = field.shape
    best = torch.full((batch, height * width), -1, dtype=torch.int64, device=field.device)
    cover, residual = torch.zeros_like(best, dtype=torch.float32), torch.empty_like(best, dtype=torch.float32)
    inverse = torch.empty_like(field)
    valid = torch.empty((batch, 1, height, width), dtype=torch.bool, device=field.device)
    grid = (triton.cdiv(height * width, BLOCK), batch)
    launch: Any = _landing_kernel[grid]
    launch(field, best, cover, height, width, BLOCK=BLOCK)
    launch = _iteration_kernel[grid]
    launch(field, best, inverse, residual, height, width, steps, jump, BLOCK=BLOCK)
    launch = _validity_kernel[grid]
    launch(inverse, residual, cover, valid, height, width, most_residual, most_cover, BLOCK=BLOCK)
    return inverse, valid


def cleaned(inverse: Tensor, valid: Tensor, side: int, outlier: float) -> tuple[Tensor, Tensor]:
    """As `qrsc.pipeline.warping` cleans fields `[B, 2, H, W]` and `[B, 1, H, W]` bool by medians and by votes."""
    inverse, valid = inverse.contiguous(), valid.contiguous()
    batch, _, height, width = inverse.shape
    field, voted = torch.empty_like(inverse), torch.empty_like(valid)
    launch: Any = _cleaning_kernel[triton.cdiv(height * width, BLOCK), batch]
    launch(inverse, valid, field, voted, height, width, outlier, SIDE=side, BLOCK=BLOCK)
    return field, voted
