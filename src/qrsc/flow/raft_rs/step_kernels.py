"""The inputs and outputs of the flow network's steps as Triton kernels, without gradients.

A step looks up correlations, adds other evidence, and a network follows that sees it channels last in bfloat16. With
PyTorch's operators each of these takes a dozen launches or more, and copies; here each writes its channels of the
evidence at once.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from qrsc.backend.kernel_parts import nearest, share_of, shown, whole_and_part


@triton.jit(do_not_specialize=["cells", "width", "rows", "columns", "scale", "first"])  # type: ignore[untyped-decorator]  # no types
def _look_up_kernel(  # type: ignore[no-untyped-def]  # Triton's own types
    volume,  # [B h w, rows, columns]
    flow,  # [B, 2, h, w], in cells
    result,  # [B, h, w, CHANNELS]
    cells,  # h w
    width,
    rows,
    columns,
    scale,  # of positions, 1 / 2**level
    first,  # channel of the result
    RADIUS: tl.constexpr,
    CHANNELS: tl.constexpr,
    PADDED: tl.constexpr,
    LAST: tl.constexpr,
):
    number = tl.program_id(0).to(tl.int64)
    image = number // cells
    cell = number - image * cells
    right = tl.load(flow + 2 * image * cells + cell)
    down = tl.load(flow + (2 * image + 1) * cells + cell)
    centre_x = ((cell % width).to(tl.float32) + right + 0.5) * scale - 0.5
    centre_y = ((cell // width).to(tl.float32) + down + 0.5) * scale - 0.5
    left, part_x = whole_and_part(centre_x)
    top, part_y = whole_and_part(centre_y)

    tap = tl.arange(0, PADDED)
    side: tl.constexpr = 2 * RADIUS + 1
    x = left + tap % side - RADIUS
    y = top + tap // side - RADIUS
    there = tap < side * side
    source = volume + number * rows * columns
    found = tl.zeros([PADDED], dtype=tl.float32)
    for corner in tl.static_range(4):
        at_x, at_y = x + corner % 2, y + corner // 2
        inside = shown(there, at_x, at_y, rows, columns)
        value = tl.load(source + at_y * columns + at_x, mask=inside, other=0.0).to(tl.float32)
        found += share_of(corner, part_x, part_y) * value
    target = result + number * CHANNELS + first
    tl.store(target + tap, found.to(result.dtype.element_ty), mask=there)
    if LAST:  # the flow itself, and channels of zeros
        beyond = tl.arange(0, 16)
        values = tl.where(beyond == 0, right, tl.where(beyond == 1, down, 0.0))
        place = side * side + beyond
        tl.store(target + place, values.to(result.dtype.element_ty), mask=first + place < CHANNELS)


def evidence_around(pyramid: list[Tensor], flow: Tensor, radius: int, channels: int, dtype: torch.dtype) -> Tensor:
    """As `qrsc.flow.raft_rs.evidence.plainly_around`; channels last, of a multiple of 8 channels."""
    batch, _, height, width = flow.shape
    flow = flow.float().contiguous()
    result = torch.empty((batch, height, width, channels), dtype=dtype, device=flow.device)
    taps = (2 * radius + 1) ** 2
    for level, volume in enumerate(pyramid):
        launch: Any = _look_up_kernel[(batch * height * width,)]
        launch(
            volume.contiguous(),
            flow,
            result,
            height * width,
            width,
            volume.shape[-2],
            volume.shape[-1],
            0.5**level,
            level * taps,
            RADIUS=radius,
            CHANNELS=channels,
            PADDED=triton.next_power_of_2(taps),
            LAST=level == len(pyramid) - 1,
            num_warps=2,
        )
    return result.permute(0, 3, 1, 2)


@triton.jit(do_not_specialize=["cells", "height", "width", "total"])  # type: ignore[untyped-decorator]  # no types
def _moved_kernel(  # type: ignore[no-untyped-def]  # Triton's own types
    features,  # [B, h, w, C], of the other frames
    flow,  # [B, 2, h, w], in pixels
    result,  # [B, h, w, C]
    cells,  # h w
    height,
    width,
    total,  # B h w
    C: tl.constexpr,
    PADDED: tl.constexpr,
    CELLS: tl.constexpr,
):
    number = tl.program_id(0).to(tl.int64) * CELLS + tl.arange(0, CELLS)
    known = number < total
    image = number // cells
    cell = number - image * cells
    x = (cell % width).to(tl.float32) + 0.25 * tl.load(flow + 2 * image * cells + cell, mask=known, other=0.0)
    y = (cell // width).to(tl.float32) + 0.25 * tl.load(flow + (2 * image + 1) * cells + cell, mask=known, other=0.0)
    left, part_x = whole_and_part(x)
    top, part_y = whole_and_part(y)
    channel = tl.arange(0, PADDED)[None, :]
    found = tl.zeros([CELLS, PADDED], dtype=tl.float32)
    for corner in tl.static_range(4):
        at_x, at_y = left + corner % 2, top + corner // 2
        inside = shown(known, at_x, at_y, height, width)
        share = share_of(corner, part_x, part_y)
        source = (image * cells + at_y * width + at_x) * C
        wanted = inside[:, None] & (channel < C)
        value = tl.load(features + source[:, None] + channel, mask=wanted, other=0.0)
        found += share[:, None] * value.to(tl.float32)
    target = result + number[:, None] * C + channel
    tl.store(target, found.to(result.dtype.element_ty), mask=known[:, None] & (channel < C))


@triton.jit(do_not_specialize=["height", "width"])  # type: ignore[untyped-decorator]  # no types
def _nearby_kernel(  # type: ignore[no-untyped-def]  # Triton's own types
    source,  # [B, h, w, C]
    moved,  # [B, h, w, C]
    result,  # [B, h, w, CHANNELS]
    height,
    width,
    factor,
    RADIUS: tl.constexpr,
    C: tl.constexpr,
    PADDED: tl.constexpr,
    CHANNELS: tl.constexpr,
    CELLS: tl.constexpr,
):
    x = tl.program_id(0) * CELLS + tl.arange(0, CELLS)
    y = tl.program_id(1)
    image = tl.program_id(2).to(tl.int64)
    side: tl.constexpr = 2 * RADIUS + 1
    channel = tl.arange(0, PADDED)[None, :]
    known = x < width
    row = (image * height + y) * width
    wanted = known[:, None] & (channel < C)
    own = tl.load(source + (row + x)[:, None] * C + channel, mask=wanted, other=0.0).to(tl.float32) * factor
    for tap in range(side * side):
        at_x = x + tap % side - RADIUS
        at_y = tl.zeros([CELLS], dtype=tl.int32) + (y + tap // side - RADIUS)
        inside = shown(known, at_x, at_y, height, width)
        place = ((image * height + at_y) * width + at_x)[:, None] * C + channel
        other = tl.load(moved + place, mask=inside[:, None] & (channel < C), other=0.0).to(tl.float32)
        product = tl.sum(own * other, 1)
        tl.store(result + (row + x) * CHANNELS + tap, product.to(result.dtype.element_ty), mask=known)


@triton.jit(do_not_specialize=["images", "cells", "height", "width", "first"])  # type: ignore[untyped-decorator]  # no types
def _pixels_kernel(  # type: ignore[no-untyped-def]  # Triton's own types
    frames,  # [B, 3, 4 h, 4 w], any strides; the other frame of each has the number of `turned`
    flow,  # [B, 2, h, w], in pixels
    result,  # [B, h, w, CHANNELS]
    stride_image,
    stride_channel,
    stride_row,
    stride_column,
    images,  # B
    cells,  # h w
    height,  # h
    width,  # w
    first,  # channel of the result
    CHANNELS: tl.constexpr,
    CELLS: tl.constexpr,
):
    number = tl.program_id(0).to(tl.int64) * CELLS + tl.arange(0, CELLS)
    known = number < images * cells
    image = number // cells
    cell = number - image * cells
    turned = (image + images // 2) % images
    lane = tl.arange(0, 64)[None, :]
    wanted = known[:, None] & (lane < 48)
    colour = tl.minimum(lane // 16, 2)
    column, row = (cell % width)[:, None], (cell // width)[:, None]
    x = (4 * column + lane % 4).to(tl.int32)
    y = (4 * row + (lane % 16) // 4).to(tl.int32)
    own = image[:, None] * stride_image + colour * stride_channel + y * stride_row + x * stride_column
    pixel = tl.load(frames + own, mask=wanted, other=0.0)

    # The flow at this pixel, bilinearly between cells.
    across = tl.maximum((x.to(tl.float32) + 0.5) * 0.25 - 0.5, 0.0)
    along = tl.maximum((y.to(tl.float32) + 0.5) * 0.25 - 0.5, 0.0)
    left, top = across.to(tl.int32), along.to(tl.int32)
    part_x, part_y = across - left.to(tl.float32), along - top.to(tl.float32)
    place_x, place_y = x.to(tl.float32), y.to(tl.float32)
    for corner in tl.static_range(4):
        at_x = tl.minimum(left + corner % 2, width - 1)
        at_y = tl.minimum(top + corner // 2, height - 1)
        share = share_of(corner, part_x, part_y)
        at = flow + 2 * image[:, None] * cells + at_y * width + at_x
        place_x += share * tl.load(at, mask=wanted, other=0.0)
        place_y += share * tl.load(at + cells, mask=wanted, other=0.0)

    inside = wanted & (place_x >= 0) & (place_x <= 4 * width - 1) & (place_y >= 0) & (place_y <= 4 * height - 1)
    place_x, place_y = tl.where(inside, place_x, 0.0), tl.where(inside, place_y, 0.0)
    left, top = tl.floor(place_x).to(tl.int32), tl.floor(place_y).to(tl.int32)
    part_x, part_y = place_x - left.to(tl.float32), place_y - top.to(tl.float32)
    moved = tl.zeros([CELLS, 64], dtype=tl.float32)
    start = turned[:, None] * stride_image + colour * stride_channel
    for corner in tl.static_range(4):
        at_x, at_y = left + corner % 2, top + corner // 2
        share = share_of(corner, part_x, part_y)
        there = inside & (at_x < 4 * width) & (at_y < 4 * height)
        moved += share * tl.load(frames + start + at_y * stride_row + at_x * stride_column, mask=there, other=0.0)
    difference = tl.where(inside, pixel - moved, 0.0)
    target = result + number[:, None] * CHANNELS + first + lane
    tl.store(target, pixel.to(result.dtype.element_ty), mask=wanted)
    tl.store(target + 48, difference.to(result.dtype.element_ty), mask=wanted)
    # The flow in cells, and channels of zeros.
    rest = tl.arange(0, 16)[None, :]
    which = tl.minimum(rest, 1)
    there = known[:, None] & (rest < 2)
    value = 0.25 * tl.load(flow + (2 * image[:, None] + which) * cells + cell[:, None], mask=there, other=0.0)
    target = result + number[:, None] * CHANNELS + first + 96 + rest
    tl.store(target, value.to(result.dtype.element_ty), mask=known[:, None] & (first + 96 + rest < CHANNELS))


def fine_evidence(
    frames: Tensor, source: Tensor, target: Tensor, flow: Tensor, radius: int, channels: int, dtype: torch.dtype
) -> Tensor:
    """As `qrsc.flow.raft_rs.evidence.plainly_fine`; channels last, of a multiple of 8 channels."""
    batch, _, height, width = flow.shape
    cells, depth = height * width, source.shape[1]
    flow = flow.float().contiguous()
    own, other = (each.permute(0, 2, 3, 1).contiguous() for each in (source, target))
    moved = torch.empty_like(other)
    result = torch.empty((batch, height, width, channels), dtype=dtype, device=flow.device)
    padded = triton.next_power_of_2(depth)
    launch: Any = _moved_kernel[(triton.cdiv(batch * cells, 16),)]
    launch(other, flow, moved, cells, height, width, batch * cells, C=depth, PADDED=padded, CELLS=16)
    launch = _nearby_kernel[(triton.cdiv(width, 32), height, batch)]
    shape = {"C": depth, "PADDED": padded, "CHANNELS": channels, "CELLS": 32}
    launch(own, moved, result, height, width, depth**-0.5, RADIUS=radius, **shape)
    launch = _pixels_kernel[(triton.cdiv(batch * cells, 8),)]
    sizes = (batch, cells, height, width, (2 * radius + 1) ** 2)
    launch(frames, flow, result, *frames.stride(), *sizes, CHANNELS=channels, CELLS=8)
    return result.permute(0, 3, 1, 2)


@triton.jit(do_not_specialize=["height", "width"])  # type: ignore[untyped-decorator]  # no types
def _enlarged_kernel(  # type: ignore[no-untyped-def]  # Triton's own types
    values,  # [B, C, h, w]
    weights,  # [B, h, w, 9 FACTOR FACTOR]
    result,  # [B, C, FACTOR h, FACTOR w]
    height,  # h
    width,  # w
    FACTOR: tl.constexpr,
    C: tl.constexpr,
    BLOCK: tl.constexpr,
):
    x = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.program_id(1)
    image = tl.program_id(2).to(tl.int64)
    known = x < FACTOR * width
    column, row = x // FACTOR, y // FACTOR
    phases: tl.constexpr = FACTOR * FACTOR
    own = weights + ((image * height + row) * width + column) * (9 * phases) + (y % FACTOR) * FACTOR + x % FACTOR
    most = tl.full([BLOCK], -1e30, dtype=tl.float32)
    for tap in tl.static_range(9):
        most = tl.maximum(most, 0.25 * tl.load(own + tap * phases, mask=known, other=0.0).to(tl.float32))
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for tap in tl.static_range(9):
        total += tl.exp(0.25 * tl.load(own + tap * phases, mask=known, other=0.0).to(tl.float32) - most)
    for number in tl.static_range(C):
        plane = image * C + number
        mixed = tl.zeros([BLOCK], dtype=tl.float32)
        for tap in tl.static_range(9):
            share = tl.exp(0.25 * tl.load(own + tap * phases, mask=known, other=0.0).to(tl.float32) - most)
            at_y = nearest(row + tap // 3 - 1, height)
            at_x = nearest(column + tap % 3 - 1, width)
            mixed += share * tl.load(values + (plane * height + at_y) * width + at_x, mask=known, other=0.0)
        target = result + (plane * FACTOR * height + y) * FACTOR * width + x
        tl.store(target, mixed / total, mask=known)


def enlarged(values: Tensor, weights: Tensor, factor: int) -> Tensor:
    """As `qrsc.flow.raft_rs.update.plainly_enlarged`."""
    batch, channels, height, width = values.shape
    result = torch.empty((batch, channels, factor * height, factor * width), device=values.device)
    given = values.float().contiguous(), weights.permute(0, 2, 3, 1).contiguous(), result
    launch: Any = _enlarged_kernel[(triton.cdiv(factor * width, 128), factor * height, batch)]
    launch(*given, height, width, FACTOR=factor, C=channels, BLOCK=128)
    return result
