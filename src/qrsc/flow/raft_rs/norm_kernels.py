"""Group normalisation after a convolution as two Triton kernels, channels last, without gradients.

PyTorch's normalisation reads planes: features that are channels last are copied there and back, in float32, and one
block per group and frame sums over all pixels. Of 29 ms of kernels for a frame of 640 x 480 on an H200, moments alone
took 2.6 ms, and copies a large part of 9. Here the first kernel takes means and sums of squares over runs of pixels,
and the second merges these, normalises, adds a skip connection and rectifies, in one pass over the features each.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

RUN = 256  # pixels of a run; more of them in large frames, of which each program reads the sums
MOST_RUNS = 1024
LEAST_RUNS = 64  # that a program has room for: each number of them is a kernel to compile


@triton.jit(do_not_specialize=["size", "runs"])  # type: ignore[untyped-decorator]  # no types
def _sums_kernel(  # type: ignore[no-untyped-def]  # Triton's own types
    features,  # [N, S, C]
    bias,  # [C]
    means,  # [N, G, R]
    squares,  # [N, G, R], sums of squared differences from these means
    size,  # S
    runs,  # R
    C,
    GROUP: tl.constexpr,
    PADDED: tl.constexpr,
    RUN: tl.constexpr,
):
    run = tl.program_id(0)
    group = tl.program_id(1)
    number = tl.program_id(2).to(tl.int64)
    pixel = run * RUN + tl.arange(0, RUN)[:, None]
    channel = tl.arange(0, PADDED)[None, :]
    there = (pixel < size) & (channel < GROUP)
    place = number * size * C + pixel * C + group * GROUP + channel
    values = tl.load(features + place, mask=there, other=0.0).to(tl.float32)
    values += tl.load(bias + group * GROUP + channel, mask=channel < GROUP, other=0.0).to(tl.float32)
    values = tl.where(there, values, 0.0)
    count = tl.minimum(size - run * RUN, RUN) * GROUP
    mean = tl.sum(tl.sum(values, 1), 0) / count
    away = tl.where(there, values - mean, 0.0)
    target = (number * tl.num_programs(1) + group) * runs + run
    tl.store(means + target, mean)
    tl.store(squares + target, tl.sum(tl.sum(away * away, 1), 0))


@triton.jit(do_not_specialize=["size", "runs"])  # type: ignore[untyped-decorator]  # no types
def _apply_kernel(  # type: ignore[no-untyped-def]  # Triton's own types
    features,  # [N, S, C]
    bias,  # [C]
    means,  # [N, G, R]
    squares,
    weight,  # [C]
    shift,  # [C]
    skip,  # [N, S, C]; not read without SKIP
    result,  # [N, S, C]
    size,  # S
    runs,  # R
    epsilon,
    C,
    GROUP: tl.constexpr,
    PADDED: tl.constexpr,
    RUN: tl.constexpr,
    RUNS: tl.constexpr,
    SKIP: tl.constexpr,
):
    run = tl.program_id(0)
    group = tl.program_id(1)
    number = tl.program_id(2).to(tl.int64)
    each = tl.arange(0, RUNS)
    known = each < runs
    source = (number * tl.num_programs(1) + group) * runs + each
    counts = tl.where(known, tl.minimum(size - each * RUN, RUN), 0).to(tl.float32)
    partial = tl.load(means + source, mask=known, other=0.0)
    mean = tl.sum(partial * counts, 0) / size
    away = partial - mean
    total = tl.sum(tl.load(squares + source, mask=known, other=0.0) + counts * GROUP * away * away, 0)
    scale = 1.0 / tl.sqrt(total / (size * GROUP) + epsilon)

    pixel = run * RUN + tl.arange(0, RUN)[:, None]
    channel = tl.arange(0, PADDED)[None, :]
    inside = channel < GROUP
    there = (pixel < size) & inside
    of_channel = group * GROUP + channel
    place = number * size * C + pixel * C + of_channel
    values = tl.load(features + place, mask=there, other=0.0).to(tl.float32)
    values += tl.load(bias + of_channel, mask=inside, other=0.0).to(tl.float32)
    factor = scale * tl.load(weight + of_channel, mask=inside, other=0.0).to(tl.float32)
    values = (values - mean) * factor + tl.load(shift + of_channel, mask=inside, other=0.0).to(tl.float32)
    if SKIP:
        values += tl.load(skip + place, mask=there, other=0.0).to(tl.float32)
    tl.store(result + place, tl.maximum(values, 0.0).to(result.dtype.element_ty), mask=there)


def normalised(
    features: Tensor, bias: Tensor, groups: int, weight: Tensor, shift: Tensor, epsilon: float, skip: Tensor | None
) -> Tensor:
    """As `qrsc.flow.raft_rs.encoder.plainly_normalised`, by kernels; channels last."""
    last = torch.channels_last
    features = features.contiguous(memory_format=last)
    skip = None if skip is None else skip.to(features.dtype).contiguous(memory_format=last)
    batch, channels, height, width = features.shape
    size, group = height * width, channels // groups
    run = max(RUN, triton.next_power_of_2(triton.cdiv(size, MOST_RUNS)))
    runs = triton.cdiv(size, run)
    means, squares = (features.new_empty((batch, groups, runs), dtype=torch.float32) for _ in range(2))
    result = torch.empty_like(features, memory_format=last)
    constants = {"C": channels, "GROUP": group, "PADDED": triton.next_power_of_2(group), "RUN": run}
    grid = (runs, groups, batch)
    warps = 4 if run <= RUN else 8
    launch: Any = _sums_kernel[grid]
    launch(features, bias, means, squares, size, runs, **constants, num_warps=warps)
    launch = _apply_kernel[grid]
    launch(
        features,
        bias,
        means,
        squares,
        weight,
        shift,
        features if skip is None else skip,
        result,
        size,
        runs,
        epsilon,
        **constants,
        RUNS=max(LEAST_RUNS, triton.next_power_of_2(runs)),
        SKIP=skip is not None,
        num_warps=warps,
    )
    return result
