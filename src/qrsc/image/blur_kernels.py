"""Windowed means as one Triton kernel each, without gradients: with PyTorch's operators each tap is one, and a copy."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from qrsc.backend.kernel_parts import nearest, shown

ROWS, COLUMNS = 4, 128  # pixels of a program


@triton.jit(do_not_specialize=["height", "width", "step"])  # type: ignore[untyped-decorator]  # Triton has no types
def _window_kernel(  # type: ignore[no-untyped-def]  # Triton's own types
    values,  # [P, H, W]
    result,  # [P, H, W]
    height,
    width,
    step,
    REACH: tl.constexpr,
    TRIANGLE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    x = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    y = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    plane = tl.program_id(2).to(tl.int64) * height * width
    there = (x < width) & (y < height)
    total = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    for down in tl.static_range(2 * REACH + 1):
        row = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
        at_y = y + (down - REACH) * step
        for across in tl.static_range(2 * REACH + 1):
            at_x = x + (across - REACH) * step
            if TRIANGLE:
                near_x = nearest(at_x, width)
                near_y = nearest(at_y, height)
                share = REACH + 1 - (REACH - across if across < REACH else across - REACH)
                value = tl.load(values + plane + near_y * width + near_x, mask=there, other=0.0)
                row += share * value.to(tl.float32)
            else:
                inside = shown(there, at_x, at_y, height, width)
                row += tl.load(values + plane + at_y * width + at_x, mask=inside, other=0.0).to(tl.float32)
        if TRIANGLE:
            total += (REACH + 1 - (REACH - down if down < REACH else down - REACH)) * row
        else:
            total += row
    if TRIANGLE:
        total = total / ((REACH + 1) * (REACH + 1) * (REACH + 1) * (REACH + 1))
    else:
        inside_x = 1 + tl.minimum(x, REACH) + tl.minimum(width - 1 - x, REACH)
        inside_y = 1 + tl.minimum(y, REACH) + tl.minimum(height - 1 - y, REACH)
        total = total / (inside_x * inside_y).to(tl.float32)
    tl.store(result + plane + y * width + x, total.to(result.dtype.element_ty), mask=there)


def _windowed(values: Tensor, step: int, reach: int, triangle: bool) -> Tensor:
    values = values.contiguous()
    result = torch.empty_like(values)
    height, width = values.shape[-2:]
    launch: Any = _window_kernel[(triton.cdiv(width, COLUMNS), triton.cdiv(height, ROWS), values[..., 0, 0].numel())]
    launch(values, result, height, width, step, REACH=reach, TRIANGLE=triangle, ROWS=ROWS, COLUMNS=COLUMNS)
    return result


def triangle_blur(values: Tensor, reach: int, step: int = 1) -> Tensor:
    """Filter `[..., H, W]` with (1, .., reach + 1, .., 1) along rows and columns, edges replicated."""
    return _windowed(values, step, reach, True)


def box_mean(values: Tensor, side: int) -> Tensor:
    """As `qrsc.image.blur.box_mean`."""
    return _windowed(values, 1, side // 2, False)
