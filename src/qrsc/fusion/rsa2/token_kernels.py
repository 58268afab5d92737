"""Layer norm and attention over frames as Triton kernels, without gradients.

PyTorch's layer norm gives each token a block of threads, and tokens here have 32 to 192 channels: at 1920 x 1088 it
took 16 of 107 ms of kernels on an H200. Attention among three frames was elementary operations, each with a pass over
all tokens.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 4096  # numbers that a program of the norm holds


@triton.jit(do_not_specialize=["count"])  # type: ignore[untyped-decorator]  # Triton has no types
def _norm_kernel(  # type: ignore[no-untyped-def]  # Triton's own types
    tokens,  # [S, C]
    change,  # [S, C]; not read without CHANGE
    weight,  # [C]
    bias,  # [C]
    changed,  # [S, C]; not written without CHANGE
    result,  # [S, C]
    count,  # S
    epsilon,
    C: tl.constexpr,
    PADDED: tl.constexpr,
    ROWS: tl.constexpr,
    CHANGE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    channel = tl.arange(0, PADDED)[None, :]
    inside = channel < C
    there = (row < count) & inside
    place = row * C + channel
    values = tl.load(tokens + place, mask=there, other=0.0).to(tl.float32)
    if CHANGE:
        values += tl.load(change + place, mask=there, other=0.0).to(tl.float32)
        # What is normalised is what is kept, with its rounding.
        kept = values.to(changed.dtype.element_ty)
        tl.store(changed + place, kept, mask=there)
        values = kept.to(tl.float32)
    mean = tl.sum(values, 1)[:, None] / C
    away = tl.where(there, values - mean, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(away * away, 1)[:, None] / C + epsilon)
    factor = tl.load(weight + channel, mask=inside, other=0.0).to(tl.float32)
    shift = tl.load(bias + channel, mask=inside, other=0.0).to(tl.float32)
    tl.store(result + place, (away * scale * factor + shift).to(result.dtype.element_ty), mask=there)


def normalised(
    tokens: Tensor, change: Tensor | None, weight: Tensor, bias: Tensor, epsilon: float
) -> tuple[Tensor, Tensor]:
    """As `qrsc.fusion.rsa2.attention.plainly_normalised`."""
    channels = tokens.shape[-1]
    count = tokens.numel() // channels
    tokens = tokens.contiguous()
    result = torch.empty_like(tokens)
    changed = tokens if change is None else torch.empty_like(tokens)
    padded = triton.next_power_of_2(channels)
    rows = max(1, TILE // padded)
    launch: Any = _norm_kernel[(triton.cdiv(count, rows),)]
    launch(
        tokens,
        tokens if change is None else change.to(tokens.dtype).contiguous(),
        weight,
        bias,
        changed,
        result,
        count,
        epsilon,
        C=channels,
        PADDED=padded,
        ROWS=rows,
        CHANGE=change is not None,
        num_warps=8,
    )
    return changed, result


@triton.jit(do_not_specialize=["pixels", "total"])  # type: ignore[untyped-decorator]  # Triton has no types
def _frames_kernel(  # type: ignore[no-untyped-def]  # Triton's own types
    qkv,  # [B, T, P, 3, heads, C]
    result,  # [B, T, P, heads, C]
    pixels,  # P
    total,  # B P heads
    scale,
    T: tl.constexpr,
    HEADS: tl.constexpr,
    C: tl.constexpr,
    PADDED: tl.constexpr,
    ROWS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    channel = tl.arange(0, PADDED)[None, :]
    head = row % HEADS
    pixel = row // HEADS % pixels
    image = row // HEADS // pixels
    there = (row < total)[:, None] & (channel < C)
    wide: tl.constexpr = HEADS * C
    for frame in tl.static_range(T):
        mine = (image * T + frame) * pixels + pixel
        own = qkv + (mine * 3 * wide + head * C)[:, None] + channel
        query = tl.load(own, mask=there, other=0.0).to(tl.float32) * scale
        most = tl.full([ROWS], -1e30, dtype=tl.float32)
        sum_of_shares = tl.zeros([ROWS], dtype=tl.float32)
        mixed = tl.zeros([ROWS, PADDED], dtype=tl.float32)
        for other in tl.static_range(T):
            theirs = (image * T + other) * pixels + pixel
            source = qkv + (theirs * 3 * wide + head * C)[:, None] + channel
            key = tl.load(source + wide, mask=there, other=0.0).to(tl.float32)
            value = tl.load(source + 2 * wide, mask=there, other=0.0).to(tl.float32)
            score = tl.sum(query * key, 1)
            larger = tl.maximum(most, score)
            before, share = tl.exp(most - larger), tl.exp(score - larger)
            mixed = mixed * before[:, None] + share[:, None] * value
            sum_of_shares = sum_of_shares * before + share
            most = larger
        found = mixed / sum_of_shares[:, None]
        target = result + (mine * wide + head * C)[:, None] + channel
        tl.store(target, found.to(result.dtype.element_ty), mask=there)


def attend_frames(qkv: Tensor) -> Tensor:
    """As `qrsc.fusion.rsa2.attention.plainly_attended`."""
    batch, frames, height, width, _, heads, channels = qkv.shape
    result = torch.empty((batch, frames, height, width, heads, channels), dtype=qkv.dtype, device=qkv.device)
    pixels, padded = height * width, triton.next_power_of_2(channels)
    rows = 64
    total = batch * pixels * heads
    launch: Any = _frames_kernel[(triton.cdiv(total, rows),)]
    shape = {"T": frames, "HEADS": heads, "C": channels, "PADDED": padded, "ROWS": rows}
    launch(qkv.contiguous(), result, pixels, total, channels**-0.5, **shape)
    return result
