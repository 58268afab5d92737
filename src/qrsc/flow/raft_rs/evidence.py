"""What a step of the flow network sees: correlations around the current flow, the flow, and differences of pixels."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.backend.kernels import by_kernel
from qrsc.flow.raft_rs.correlation import local_correlation, look_up, sample_at
from qrsc.flow.raft_rs.update import aligned, gather_evidence
from qrsc.warp import pixel_grid


def evidence_around(pyramid: list[Tensor], flow: Tensor, radius: int, dtype: torch.dtype) -> Tensor:
    """The evidence of a step at stride 8, `[B, C, h, w]` of a dtype, with C a multiple of 8.

    Args:
        pyramid: from `correlation_pyramid`.
        flow: `[B, 2, h, w]`, in cells.
        radius: see `look_up`.
    """

    def kernel() -> Tensor:
        from qrsc.flow.raft_rs import step_kernels

        channels = aligned(len(pyramid) * (2 * radius + 1) ** 2 + 2)
        return step_kernels.evidence_around(pyramid, flow, radius, channels, dtype)

    twin = lambda: plainly_around(pyramid, flow, radius, dtype)  # noqa: E731  # in the place of a function
    return by_kernel("correlations around a flow", kernel, twin, flow, *pyramid)


def plainly_around(pyramid: list[Tensor], flow: Tensor, radius: int, dtype: torch.dtype) -> Tensor:
    """The slow twin of `evidence_around`."""
    with torch.autocast(flow.device.type, enabled=False):
        around = look_up(pyramid, flow, radius)
    return gather_evidence([around, flow], dtype)


def fine_evidence(frames: Tensor, matching: Tensor, flow: Tensor, radius: int, dtype: torch.dtype) -> Tensor:
    """The evidence of a step at stride 4, `[2 B, C, h, w]` of a dtype, with C a multiple of 8.

    Args:
        frames: `[2 B, 3, 4 h, 4 w]`, the first frames of the pairs, then the second ones.
        matching: `[2 B, C, h, w]`, features to correlate.
        flow: `[2 B, 2, h, w]`, in pixels.
        radius: see `local_correlation`.
    """

    def kernel() -> Tensor:
        from qrsc.flow.raft_rs import step_kernels

        channels = aligned((2 * radius + 1) ** 2 + 2 * 3 * 16 + 2)
        return step_kernels.fine_evidence(frames, matching, exchanged(matching), flow, radius, channels, dtype)

    twin = lambda: plainly_fine(frames, matching, flow, radius, dtype)  # noqa: E731  # in the place of a function
    return by_kernel("differences at a quarter of the size", kernel, twin, flow, frames, matching)


def plainly_fine(frames: Tensor, matching: Tensor, flow: Tensor, radius: int, dtype: torch.dtype) -> Tensor:
    """The slow twin of `fine_evidence`."""
    nearby = local_correlation(matching, exchanged(matching), flow / 4.0, radius)
    difference = F.pixel_unshuffle(_difference(frames, exchanged(frames), flow), 4)
    return gather_evidence([nearby, F.pixel_unshuffle(frames, 4), difference, flow / 4.0], dtype)


def exchanged(features: Tensor) -> Tensor:
    """The features of the other frame of each pair: the two halves of the batch swapped."""
    first, second = features.chunk(2)
    return torch.cat([second, first])


def _difference(frames: Tensor, others: Tensor, flow: Tensor) -> Tensor:
    """Difference of a frame and the other frame warped to it, 0 where that is outside: `[B, 3, H, W]`.

    In float32: bfloat16 resolves 1 part in 256 of a frame, which is as large as the differences here.
    """
    height, width = frames.shape[-2:]
    full = F.interpolate(flow, size=(height, width), mode="bilinear", align_corners=False)
    place = full + pixel_grid(height, width, device=frames.device)
    moved = sample_at(others, place)
    x, y = place[:, :1], place[:, 1:]
    inside = (x >= 0) & (x <= width - 1) & (y >= 0) & (y <= height - 1)
    return torch.where(inside, frames.float() - moved, 0.0)
