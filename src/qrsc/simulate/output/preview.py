"""Colour maps for flow and depth."""

from __future__ import annotations

import torch
from torch import Tensor


def flow_colours(flow: Tensor, fastest: float | None = None) -> Tensor:
    """Colour-code flow: direction as hue, length as saturation, white where nothing moves.

    Args:
        flow: `[B, 2, H, W]`.
        fastest: length in pixels with full saturation; the 99th percentile of each flow if None.

    Returns:
        `[B, 3, H, W]`, in 0 to 1.
    """
    length = flow.norm(dim=1, keepdim=True)
    if fastest is None:
        rank = max(1, round(0.99 * length[0].numel()))
        full = length.flatten(1).kthvalue(rank, dim=1).values.reshape(-1, 1, 1, 1).clamp_min(1e-3)
    else:
        full = torch.full_like(length[:, :, :1, :1], fastest)
    saturation = (length / full).clamp(0.0, 1.0)
    angle = torch.atan2(flow[:, 1:], flow[:, :1])
    phases = torch.tensor([0.0, 2.0, 4.0]).to(flow).reshape(3, 1, 1) * (torch.pi / 3.0)
    hue = 0.5 - 0.5 * torch.cos(angle - phases)
    return torch.addcmul(torch.ones_like(hue), saturation, hue, value=-1.0)


def depth_colours(depth: Tensor) -> Tensor:
    """Colour-code depth `[B, 1, H, W]`: near is warm and bright, far is dark and blue; `[B, 3, H, W]`."""
    near = torch.where(depth > 0, 1.0 / depth.clamp_min(1e-6), 0.0)
    share = (near / near.amax((2, 3), keepdim=True).clamp_min(1e-9)).sqrt()
    blue = 0.25 + 0.5 * share * (1.0 - share) + 0.2 * share**4
    return torch.cat([share, 0.85 * share**1.7, blue], dim=1).clamp(0.0, 1.0)
