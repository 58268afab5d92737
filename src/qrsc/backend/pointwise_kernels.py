"""What follows a convolution, as one Triton kernel: its bias, a skip connection, and a rectifier; channels last.

On a GPU cuDNN's convolutions leave the bias to a kernel of its own, which takes as long as many convolutions here.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024
MOST = 2**30  # numbers; places are 32-bit, whose remainders are much faster


@triton.jit(do_not_specialize=["size"])  # type: ignore[untyped-decorator]  # no types
def _after_kernel(  # type: ignore[no-untyped-def]  # Triton's own types
    features,  # [S, C]
    bias,  # [C]
    skip,  # [S, C]; not read without SKIP
    result,  # [S, C]
    rectified,  # [S, C]; not written without BOTH
    size,  # S C
    slope,
    C,
    SKIP: tl.constexpr,
    RECTIFY: tl.constexpr,
    BOTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = place < size
    values = tl.load(features + place, mask=there, other=0.0).to(tl.float32)
    values += tl.load(bias + place % C, mask=there, other=0.0).to(tl.float32)
    if SKIP:
        values += tl.load(skip + place, mask=there, other=0.0).to(tl.float32)
    positive = tl.where(values > 0.0, values, slope * values)
    if RECTIFY:
        tl.store(result + place, positive.to(result.dtype.element_ty), mask=there)
    else:
        tl.store(result + place, values.to(result.dtype.element_ty), mask=there)
    if BOTH:
        tl.store(rectified + place, positive.to(rectified.dtype.element_ty), mask=there)


def after(features: Tensor, bias: Tensor, skip: Tensor | None, slope: float | None, both: bool) -> tuple[Tensor, ...]:
    """As `qrsc.backend.convolutions.plainly_after`."""
    last = torch.channels_last
    if features.numel() > MOST:
        raise ValueError(f"more than {MOST} numbers in features {tuple(features.shape)}")
    features = features.contiguous(memory_format=last)
    skip = None if skip is None else skip.to(features.dtype).contiguous(memory_format=last)
    result = torch.empty_like(features, memory_format=last)
    rectified = torch.empty_like(features, memory_format=last) if both else result
    launch: Any = _after_kernel[(triton.cdiv(features.numel(), BLOCK),)]
    launch(
        features,
        bias,
        features if skip is None else skip,
        result,
        rectified,
        features.numel(),
        0.0 if slope is None else slope,
        C=features.shape[1],
        SKIP=skip is not None,
        RECTIFY=slope is not None and not both,
        BOTH=both,
        BLOCK=BLOCK,
    )
    return (result, rectified) if both else (result,)


@triton.jit(do_not_specialize=["size"])  # type: ignore[untyped-decorator]  # no types
def _gate_kernel(  # type: ignore[no-untyped-def]  # Triton's own types
    features,  # [S, 2 C]
    bias,  # [2 C]
    state,  # [S, C]
    result,  # [S, C]
    size,  # S C
    C,
    BLOCK: tl.constexpr,
):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = place < size
    channel = place % C
    source = 2 * place - channel  # twice the first channel of the pixel, and the channel
    candidate = tl.load(features + source, mask=there, other=0.0).to(tl.float32)
    candidate += tl.load(bias + channel, mask=there, other=0.0).to(tl.float32)
    share = tl.load(features + source + C, mask=there, other=0.0).to(tl.float32)
    share += tl.load(bias + channel + C, mask=there, other=0.0).to(tl.float32)
    before = tl.load(state + place, mask=there, other=0.0).to(tl.float32)
    squashed = 2.0 / (1.0 + tl.exp(-2.0 * candidate)) - 1.0  # tanh
    found = before + (squashed - before) / (1.0 + tl.exp(-share))
    tl.store(result + place, found.to(result.dtype.element_ty), mask=there)


def gated(features: Tensor, bias: Tensor, state: Tensor) -> Tensor:
    """As `qrsc.backend.convolutions.plainly_gated`."""
    last = torch.channels_last
    if features.numel() > MOST:
        raise ValueError(f"more than {MOST} numbers in features {tuple(features.shape)}")
    features, state = (each.contiguous(memory_format=last) for each in (features, state))
    result = torch.empty_like(state, memory_format=last)
    launch: Any = _gate_kernel[(triton.cdiv(state.numel(), BLOCK),)]
    launch(features, bias, state, result, state.numel(), C=state.shape[1], BLOCK=BLOCK)
    return result
