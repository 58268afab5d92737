"""Adaptive collaboration of flows: each output pixel is a weighted sum of samples of its frame at free offsets.

Convention
    With K x K taps, tap k = (row, column) counted row by row, at `dilation` pixels from each other,

        output(x, y) = sum_k weight_k frame(x + dx_k + alpha_k, y + dy_k + beta_k),
        dx_k = dilation (column - K // 2),  dy_k = dilation (row - K // 2).

    Samples are bilinear; positions outside the frame take the nearest edge pixel. Pixel centres lie at integer
    coordinates. Exactly on a pixel, where bilinear interpolation has a kink, the gradient is the one towards larger
    coordinates; outside the frame a sample does not depend on its offset, and the offset's gradient is 0.

Sums are float32 (float64 for float64) for any input dtype. Nothing of K^2 times the image's size is stored for the
backward pass, which computes the samples again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor


def adacof(frames: Tensor, weights: Tensor, alpha: Tensor, beta: Tensor, dilation: int = 1) -> Tensor:
    """Sum the samples of each pixel; see the module's description.

    On a CUDA device with Triton all taps and frames are one kernel launch; elsewhere it is a loop over the taps.

    Args:
        frames: `[N, C, H, W]`.
        weights: `[N, K * K, H, W]`.
        alpha: `[N, K * K, H, W]`, offsets to the right, in pixels.
        beta: `[N, K * K, H, W]`, offsets downwards, in pixels.
        dilation: distance between taps, in pixels.

    Returns:
        `[N, C, H, W]`, dtype of the frames.
    """
    _check(frames, weights, alpha, beta, dilation)
    values = (frames, weights, alpha, beta)
    gradient = torch.is_grad_enabled() and any(each.requires_grad for each in values)
    # Calling the operator imports the compiler, which takes seconds: only where it compiles or differentiates.
    forward = _forward if gradient or torch.compiler.is_compiling() else _computed
    result: Tensor = forward(*values, dilation)
    return result


def has_triton() -> bool:
    """Whether Triton's kernels can be used."""
    try:
        import triton  # noqa: F401  # only to see whether it is installed
    except ImportError:
        return False
    return torch.cuda.is_available()


# --- a custom operator, opaque to torch.compile ---


def _computed(frames: Tensor, weights: Tensor, alpha: Tensor, beta: Tensor, dilation: int) -> Tensor:
    if frames.device.type == "cuda" and frames.dtype != torch.float64 and has_triton():
        from qrsc.fusion.adacof.kernels import adacof_forward

        return adacof_forward(frames, weights, alpha, beta, dilation)
    return loop_forward(frames, weights, alpha, beta, dilation)


_forward = torch.library.custom_op("qrsc::adacof", _computed, mutates_args=())


@_forward.register_fake
def _(frames: Tensor, weights: Tensor, alpha: Tensor, beta: Tensor, dilation: int) -> Tensor:
    return torch.empty_like(frames, memory_format=torch.contiguous_format)


@torch.library.custom_op("qrsc::adacof_backward", mutates_args=())
def _backward(
    gradient: Tensor, frames: Tensor, weights: Tensor, alpha: Tensor, beta: Tensor, dilation: int, to_frames: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if frames.device.type == "cuda" and frames.dtype != torch.float64 and has_triton():
        from qrsc.fusion.adacof.kernels import adacof_backward

        return adacof_backward(gradient, frames, weights, alpha, beta, dilation, to_frames)
    return loop_backward(gradient, frames, weights, alpha, beta, dilation, to_frames)


@_backward.register_fake
def _(
    gradient: Tensor, frames: Tensor, weights: Tensor, alpha: Tensor, beta: Tensor, dilation: int, to_frames: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    plain = torch.contiguous_format
    to_picture = torch.empty_like(frames, memory_format=plain) if to_frames else frames.new_empty(0)
    offsets = (torch.empty_like(value, memory_format=plain) for value in (weights, alpha, beta))
    return (to_picture, *offsets)  # type: ignore[return-value]  # four tensors


def _keep(
    ctx: torch.autograd.function.FunctionCtx, inputs: tuple[Tensor, Tensor, Tensor, Tensor, int], output: Tensor
) -> None:
    ctx.save_for_backward(*inputs[:4])
    ctx.dilation = inputs[4]  # type: ignore[attr-defined]  # a context takes any attribute


def _gradients(ctx: torch.autograd.function.FunctionCtx, gradient: Tensor) -> tuple[Tensor | None, ...]:
    saved: tuple[Tensor, ...] = ctx.saved_tensors  # type: ignore[attr-defined]  # torch's stubs
    dilation: int = ctx.dilation  # type: ignore[attr-defined]  # set in `_keep`
    wanted: tuple[bool, ...] = ctx.needs_input_grad  # type: ignore[attr-defined]  # torch's stubs
    found = _backward(gradient, *saved, dilation, wanted[0])
    return (*(each if asked else None for each, asked in zip(found, wanted[:4], strict=True)), None)


_forward.register_autograd(_gradients, setup_context=_keep)


# --- the loop over taps ---


def loop_forward(frames: Tensor, weights: Tensor, alpha: Tensor, beta: Tensor, dilation: int) -> Tensor:
    """`adacof` without gradients, in plain PyTorch."""
    precise = _precise(frames)
    padded = F.pad(precise, (0, 1, 0, 1), mode="replicate")
    total = torch.zeros_like(precise, memory_format=torch.contiguous_format)
    for tap, x, y in _places(alpha, beta, dilation, precise.dtype):
        sampled = _sample(padded, _grid(x, y))
        total.addcmul_(sampled, weights[:, tap : tap + 1].to(precise.dtype))
    return total.to(frames.dtype)


def loop_backward(
    gradient: Tensor, frames: Tensor, weights: Tensor, alpha: Tensor, beta: Tensor, dilation: int, to_frames: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients with respect to frames (empty unless `to_frames`), weights, alpha and beta.

    The four pixels around a position are gathered by index. `grid_sample` rescales coordinates, and after its rounding
    a position exactly on a pixel may get the slope of either side.
    """
    precise = _precise(frames)
    gradient = gradient.to(precise.dtype)
    height, width = frames.shape[-2:]
    flat = precise.flatten(2)  # [N, C, H * W]
    plain = torch.contiguous_format
    to_weights, to_alpha, to_beta = (torch.empty_like(value, memory_format=plain) for value in (weights, alpha, beta))
    scattered = torch.zeros_like(flat) if to_frames else flat.new_empty(0)
    for tap, free_x, free_y in _places(alpha, beta, dilation, precise.dtype):
        x, y = free_x.clamp(0, width - 1), free_y.clamp(0, height - 1)
        left, top = x.floor(), y.floor()
        part_x, part_y = (x - left).unsqueeze(1), (y - top).unsqueeze(1)
        x0, y0 = left.long(), top.long()
        x1, y1 = (x0 + 1).clamp(max=width - 1), (y0 + 1).clamp(max=height - 1)
        corners = [(y_ * width + x_).flatten(1).unsqueeze(1) for y_ in (y0, y1) for x_ in (x0, x1)]  # [N, 1, H * W]
        a, b, c, d = (flat.gather(2, corner.expand_as(flat)).reshape(precise.shape) for corner in corners)
        upper, lower = torch.lerp(a, b, part_x), torch.lerp(c, d, part_x)
        to_weights[:, tap] = (torch.lerp(upper, lower, part_y) * gradient).sum(1)
        weighted = gradient * weights[:, tap : tap + 1].to(precise.dtype)
        inside = (free_x >= 0) & (free_x <= width - 1)
        to_alpha[:, tap] = torch.where(inside, (weighted * torch.lerp(b - a, d - c, part_y)).sum(1), 0.0)
        inside = (free_y >= 0) & (free_y <= height - 1)
        to_beta[:, tap] = torch.where(inside, (weighted * (lower - upper)).sum(1), 0.0)
        if to_frames:
            shares = [share_y * share_x for share_y in (1 - part_y, part_y) for share_x in (1 - part_x, part_x)]
            for corner, share in zip(corners, shares, strict=True):
                scattered.scatter_add_(2, corner.expand_as(flat), (weighted * share).flatten(2))
    return scattered.reshape(frames.shape if to_frames else (0,)).to(frames.dtype), to_weights, to_alpha, to_beta


def _places(alpha: Tensor, beta: Tensor, dilation: int, dtype: torch.dtype) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Yield each tap and its sampling positions x and y, `[N, H, W]`, in pixels, not yet clamped to the frame."""
    taps, height, width = alpha.shape[-3:]
    side = math.isqrt(taps)
    columns = torch.arange(width, dtype=dtype, device=alpha.device)
    rows = torch.arange(height, dtype=dtype, device=alpha.device).reshape(-1, 1)
    for tap in range(taps):
        row, column = divmod(tap, side)
        x = alpha[:, tap].to(dtype) + (columns + dilation * (column - side // 2))
        y = beta[:, tap].to(dtype) + (rows + dilation * (row - side // 2))
        yield tap, x, y


def _grid(x: Tensor, y: Tensor) -> Tensor:
    """Positions for `grid_sample` on frames padded by one column and row: `[N, H, W, 2]`."""
    height, width = x.shape[-2:]
    return torch.stack(
        [x.clamp(0, width - 1).mul_(2.0 / width).sub_(1.0), y.clamp(0, height - 1).mul_(2.0 / height).sub_(1.0)], -1
    )


def _sample(padded: Tensor, grid: Tensor) -> Tensor:
    return F.grid_sample(padded, grid, mode="bilinear", padding_mode="zeros", align_corners=True)


def _precise(frames: Tensor) -> Tensor:
    return frames.to(torch.float64 if frames.dtype == torch.float64 else torch.float32)


def _check(frames: Tensor, weights: Tensor, alpha: Tensor, beta: Tensor, dilation: int) -> None:
    taps = weights.shape[1] if weights.ndim == 4 else 0
    expected = (frames.shape[0], taps, *frames.shape[-2:])
    side = math.isqrt(taps)
    if frames.ndim != 4 or taps == 0 or side * side != taps or side % 2 == 0:
        raise ValueError(
            "adacof takes frames [N, C, H, W] and weights [N, K * K, H, W] with K odd; got "
            f"{tuple(frames.shape)} and {tuple(weights.shape)}."
        )
    for name, value in (("weights", weights), ("alpha", alpha), ("beta", beta)):
        if tuple(value.shape) != expected:
            raise ValueError(f"{name} must be {expected} for frames {tuple(frames.shape)}; got {tuple(value.shape)}.")
    if dilation < 1:
        raise ValueError(f"dilation must be at least 1, got {dilation!r}.")
