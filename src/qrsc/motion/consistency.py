"""Forward-backward consistency of flows, and flows over two frames by chaining."""

from __future__ import annotations

import torch
from torch import Tensor

from qrsc.backend import device
from qrsc.warp import pixel_grid, sample

# A longer flow, in pixels, is not a measurement and risks an overflow. It is treated like NaN.
MAX_FLOW = 1e5
# Inconsistent flows keep this much weight, so that a pixel trusted on neither side still moves with its flows.
MIN_CONFIDENCE = 1e-3


def consistency_confidence(flow: Tensor, reverse_flow: Tensor) -> Tensor:
    """Confidence in a flow from whether the reverse flow leads back.

    Following the flow and then the reverse flow should return to the start. The confidence is `exp(-e^2 / s^2)` for a
    gap of `e` pixels, with a tolerance `s^2 = 0.25 + 0.01 (|flow|^2 + |reverse|^2)`: half a pixel for small motion,
    growing with it. A point that leaves the frame was not seen by the reverse flow and gets the least confidence.

    Args:
        flow: `[..., 2, H, W]`, from this frame to the other, on this frame's pixels.
        reverse_flow: `[..., 2, H, W]`, from the other frame to this one, on the other frame's pixels.

    Returns:
        `[..., 1, H, W]` in [MIN_CONFIDENCE, 1].
    """
    # NaN and overlong flows are replaced before sampling and dividing, so that no gradient is NaN. A flow this long
    # lands outside, and a reverse flow this long leaves a gap of ten times its tolerance.
    flow, reverse_flow = _limited(flow), _limited(reverse_flow)
    height, width = flow.shape[-2:]
    landing = pixel_grid(height, width, dtype=flow.dtype, device=flow.device) + flow
    returned, inside = sample(reverse_flow, landing)
    gap = _squared_length(flow + returned)
    tolerance = 0.25 + 0.01 * (_squared_length(flow) + _squared_length(returned))
    return (torch.exp(-gap / tolerance) * inside).clamp(MIN_CONFIDENCE, 1.0)


def chain_flows(
    first: Tensor, second: Tensor, first_confidence: Tensor, second_confidence: Tensor
) -> tuple[Tensor, Tensor]:
    """The flow over two frames from the flows over each, and its confidence.

    Args:
        first: `[..., 2, H, W]`, from this frame to the next.
        second: `[..., 2, H, W]`, from the next frame to the one after, on the next frame's pixels.
        first_confidence: `[..., 1, H, W]`, on this frame's pixels.
        second_confidence: `[..., 1, H, W]`, on the next frame's pixels.

    Returns:
        `[..., 2, H, W]` and `[..., 1, H, W]`: the product of both confidences, or `MIN_CONFIDENCE` where the point
        leaves the frame in between and the second flow is not known.
    """
    height, width = first.shape[-2:]
    landing = pixel_grid(height, width, dtype=first.dtype, device=first.device) + first
    onward, inside = sample(torch.cat([second, second_confidence], -3), landing)
    confidence = first_confidence * onward[..., 2:, :, :]
    confidence = torch.where(inside, confidence, torch.zeros_like(confidence)).clamp(min=MIN_CONFIDENCE)
    return first + onward[..., :2, :, :], confidence


def longest(flow: Tensor) -> Tensor:
    """The largest absolute component of a flow, in one pass over it; NaN if the flow contains one."""
    return torch.stack(torch.aminmax(flow.detach())).abs().amax()


def _limited(flow: Tensor) -> Tensor:
    """A flow without NaN and no longer than `MAX_FLOW`; mostly the flow itself."""
    if device.may_decide(flow) and flow.numel() > 0 and longest(flow) <= MAX_FLOW:
        return flow
    return flow.nan_to_num(nan=MAX_FLOW).clamp(-MAX_FLOW, MAX_FLOW)


def _squared_length(flow: Tensor) -> Tensor:
    """`[..., 1, H, W]` of `[..., 2, H, W]`."""
    x, y = flow.chunk(2, -3)
    return torch.addcmul(x * x, y, y)
