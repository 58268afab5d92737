"""`adacof` as Triton kernels: one launch for all taps and frames, forward and backward.

A program takes a run of pixels of one frame and loops over the taps; samples are read where they are needed and summed
in float32. Weights and offsets are 6 bytes (bfloat16) per pixel and tap, and reading them is the bottleneck: the
samples themselves lie close together and come from the cache. Gradients of the frames, which the gates need, are
scattered by atomic additions.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from qrsc.backend.kernel_parts import around, own_pixels, pixels_at

BLOCK = 128  # pixels per program


@triton.jit  # type: ignore[untyped-decorator]  # Triton has no types
def _tap(  # type: ignore[no-untyped-def]  # Triton's own types
    weights,
    alpha,
    beta,
    place,
    inside,
    row,
    column,
    tap,
    dilation,
    K: tl.constexpr,
):
    """Weight and position of a tap of each pixel, as they are given: the position may lie outside of the frame."""
    weight = tl.load(weights + place, mask=inside, other=0.0).to(tl.float32)
    x = column + dilation * (tap % K - K // 2) + tl.load(alpha + place, mask=inside, other=0.0).to(tl.float32)
    y = row + dilation * (tap // K - K // 2) + tl.load(beta + place, mask=inside, other=0.0).to(tl.float32)
    return weight, x, y


@triton.jit
def _sample(plane, a, b, c, d, right_part, upper, lower):  # type: ignore[no-untyped-def]  # Triton's own types
    """Interpolate the four pixels around a position, with weights of the two rows."""
    left_top, right_top, left_bottom, right_bottom = pixels_at(plane, a, b, c, d)
    above = left_top + (right_top - left_top) * right_part
    below = left_bottom + (right_bottom - left_bottom) * right_part
    return upper * above + lower * below


@triton.jit  # type: ignore[untyped-decorator]  # Triton has no types
def _forward_kernel(  # type: ignore[no-untyped-def]  # Triton's own types
    frames,  # [N, C, H, W]
    weights,  # [N, K * K, H, W]
    alpha,
    beta,
    result,  # [N, C, H, W]
    height,
    width,
    dilation,
    C: tl.constexpr,
    K: tl.constexpr,
    BLOCK: tl.constexpr,
):
    size = height * width
    number, inside, pixel, row, column = own_pixels(height, width, BLOCK)
    picture = frames + number * C * size
    taps = number * K * K * size + pixel
    # One sum per channel, so that a thread is a pixel and computes its positions once: 1.0 ms for three frames of
    # 1920 x 1088 on an H200, 2.8 ms with channels as a second dimension of the block.
    first = tl.zeros((BLOCK,), dtype=tl.float32)
    second = tl.zeros((BLOCK,), dtype=tl.float32)
    third = tl.zeros((BLOCK,), dtype=tl.float32)
    fourth = tl.zeros((BLOCK,), dtype=tl.float32)
    for tap in range(K * K):
        place = taps + tap * size
        weight, x, y = _tap(weights, alpha, beta, place, inside, row, column, tap, dilation, K)
        a, b, c, d, right_part, lower_part = around(x, y, height, width)
        lower = weight * lower_part
        upper = weight - lower
        first += _sample(picture, a, b, c, d, right_part, upper, lower)
        if C > 1:
            second += _sample(picture + size, a, b, c, d, right_part, upper, lower)
        if C > 2:
            third += _sample(picture + 2 * size, a, b, c, d, right_part, upper, lower)
        if C > 3:
            fourth += _sample(picture + 3 * size, a, b, c, d, right_part, upper, lower)
    target = result + number * C * size + pixel
    kind = result.dtype.element_ty
    tl.store(target, first.to(kind), mask=inside)
    if C > 1:
        tl.store(target + size, second.to(kind), mask=inside)
    if C > 2:
        tl.store(target + 2 * size, third.to(kind), mask=inside)
    if C > 3:
        tl.store(target + 3 * size, fourth.to(kind), mask=inside)


@triton.jit
def _slopes(plane, a, b, c, d, across, down, coming):  # type: ignore[no-untyped-def]  # Triton's own types
    """A sample and its derivatives along x and y, times the incoming gradient."""
    left_top, right_top, left_bottom, right_bottom = pixels_at(plane, a, b, c, d)
    upper_slope = right_top - left_top
    lower_slope = right_bottom - left_bottom
    above = left_top + upper_slope * across
    below = left_bottom + lower_slope * across
    slope = upper_slope + (lower_slope - upper_slope) * down
    return coming * (above + (below - above) * down), coming * slope, coming * (below - above)


@triton.jit
def _scatter(plane, a, b, c, d, across, upper, lower, coming, inside):  # type: ignore[no-untyped-def]  # Triton's own
    """Add the gradient to the four pixels around a position, with weights of the two rows."""
    above = upper * coming
    below = lower * coming
    above_right = above * across
    below_right = below * across
    # The sums are read only after the kernel, so the additions need no order.
    tl.atomic_add(plane + a, above - above_right, mask=inside, sem="relaxed")
    tl.atomic_add(plane + b, above_right, mask=inside, sem="relaxed")
    tl.atomic_add(plane + c, below - below_right, mask=inside, sem="relaxed")
    tl.atomic_add(plane + d, below_right, mask=inside, sem="relaxed")


@triton.jit  # type: ignore[untyped-decorator]  # Triton has no types
def _backward_kernel(  # type: ignore[no-untyped-def]  # Triton's own types
    gradient,  # [N, C, H, W]
    frames,
    weights,
    alpha,
    beta,
    to_frames,  # [N, C, H, W], float32, zeros
    to_weights,  # [N, K * K, H, W]
    to_alpha,
    to_beta,
    height,
    width,
    dilation,
    C: tl.constexpr,
    K: tl.constexpr,
    BLOCK: tl.constexpr,
    SCATTER: tl.constexpr,
):
    size = height * width
    number, inside, pixel, row, column = own_pixels(height, width, BLOCK)
    picture = frames + number * C * size
    scattered = to_frames + number * C * size
    source = gradient + number * C * size + pixel
    first = tl.load(source, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(source + size, mask=inside & (C > 1), other=0.0).to(tl.float32)
    third = tl.load(source + 2 * size, mask=inside & (C > 2), other=0.0).to(tl.float32)
    fourth = tl.load(source + 3 * size, mask=inside & (C > 3), other=0.0).to(tl.float32)
    taps = number * K * K * size + pixel
    kind = to_weights.dtype.element_ty
    for tap in range(K * K):
        place = taps + tap * size
        weight, free_x, free_y = _tap(weights, alpha, beta, place, inside, row, column, tap, dilation, K)
        a, b, c, d, across, down = around(free_x, free_y, height, width)
        value, slope_x, slope_y = _slopes(picture, a, b, c, d, across, down, first)
        if C > 1:
            more, more_x, more_y = _slopes(picture + size, a, b, c, d, across, down, second)
            value, slope_x, slope_y = value + more, slope_x + more_x, slope_y + more_y
        if C > 2:
            more, more_x, more_y = _slopes(picture + 2 * size, a, b, c, d, across, down, third)
            value, slope_x, slope_y = value + more, slope_x + more_x, slope_y + more_y
        if C > 3:
            more, more_x, more_y = _slopes(picture + 3 * size, a, b, c, d, across, down, fourth)
            value, slope_x, slope_y = value + more, slope_x + more_x, slope_y + more_y
        tl.store(to_weights + place, value.to(kind), mask=inside)
        moves = (free_x >= 0.0) & (free_x <= width - 1.0)
        tl.store(to_alpha + place, tl.where(moves, weight * slope_x, 0.0).to(kind), mask=inside)
        moves = (free_y >= 0.0) & (free_y <= height - 1.0)
        tl.store(to_beta + place, tl.where(moves, weight * slope_y, 0.0).to(kind), mask=inside)
        if SCATTER:
            lower = weight * down
            upper = weight - lower
            _scatter(scattered, a, b, c, d, across, upper, lower, first, inside)
            if C > 1:
                _scatter(scattered + size, a, b, c, d, across, upper, lower, second, inside)
            if C > 2:
                _scatter(scattered + 2 * size, a, b, c, d, across, upper, lower, third, inside)
            if C > 3:
                _scatter(scattered + 3 * size, a, b, c, d, across, upper, lower, fourth, inside)


def adacof_forward(frames: Tensor, weights: Tensor, alpha: Tensor, beta: Tensor, dilation: int) -> Tensor:
    """As `qrsc.fusion.adacof.operator.loop_forward`, for up to 4 channels."""
    frames, weights, alpha, beta = (value.contiguous() for value in (frames, weights, alpha, beta))
    result = torch.empty_like(frames)
    launch: Any = _forward_kernel[_programs(frames)]
    launch(frames, weights, alpha, beta, result, *frames.shape[-2:], dilation, **_constants(frames, weights))
    return result


def adacof_backward(
    gradient: Tensor, frames: Tensor, weights: Tensor, alpha: Tensor, beta: Tensor, dilation: int, to_frames: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """As `qrsc.fusion.adacof.operator.loop_backward`, for up to 4 channels."""
    inputs = [value.contiguous() for value in (gradient, frames, weights, alpha, beta)]
    gradient, frames, weights, alpha, beta = inputs
    scattered = torch.zeros_like(frames, dtype=torch.float32) if to_frames else frames.new_empty(0)
    results = [torch.empty_like(value) for value in (weights, alpha, beta)]
    launch: Any = _backward_kernel[_programs(frames)]
    launch(
        *inputs,
        scattered,
        *results,
        *frames.shape[-2:],
        dilation,
        **_constants(frames, weights),
        SCATTER=to_frames,
    )
    return scattered.to(frames.dtype), results[0], results[1], results[2]


def _programs(frames: Tensor) -> tuple[int, int]:
    height, width = frames.shape[-2:]
    return triton.cdiv(height * width, BLOCK), len(frames)


def _constants(frames: Tensor, weights: Tensor) -> dict[str, int]:
    if frames.shape[1] > 4:
        raise ValueError(f"the kernels take images of up to 4 channels; got {tuple(frames.shape)}.")
    return {"C": frames.shape[1], "K": math.isqrt(weights.shape[1]), "BLOCK": BLOCK}
