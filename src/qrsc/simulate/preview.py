"""A contact sheet: what a few scenes look like, and their truth in colours."""

from __future__ import annotations

import torch
from torch import Tensor

from qrsc.simulate.render import render_gs, render_rs
from qrsc.simulate.surfaces import Scene
from qrsc.simulate.truth import rs_flow, rs_kinematics
from qrsc.timing import Readout


def contact_sheet(scene: Scene, readout: Readout, frame: int) -> Tensor:
    """One row for each scene: rolling shutter, global shutter at the middle row, flow, occlusion, depth.

    Args:
        scene: a batch.
        readout: how its frames are read.
        frame: the frame to show, with the flow to the next one.

    Returns:
        `[3, B H, 5 W]`, RGB in 0 to 1.
    """
    flow, visible = rs_flow(scene, readout, frame, frame + 1)
    depth = rs_kinematics(scene, readout, frame).depth
    rolling = render_rs(scene, readout, frame)
    still = render_gs(scene, frame + readout.instant("middle"))
    hidden = torch.where(
        visible, rolling.mean(1, keepdim=True), torch.tensor([0.9, 0.2, 0.1]).to(rolling).reshape(3, 1, 1)
    )
    cells = torch.cat([rolling, still, flow_colours(flow), hidden, depth_colours(depth)], dim=3)  # [B, 3, H, 5 W]
    return torch.cat(list(cells), dim=1)


def flow_colours(flow: Tensor, fastest: float | None = None) -> Tensor:
    """Flow as colours: the direction is the hue, the length the strength, white where nothing moves.

    Args:
        flow: `[B, 2, H, W]`.
        fastest: length in pixels that gets the strongest colour; the 99th percentile of each flow if None.

    Returns:
        `[B, 3, H, W]`, in 0 to 1.
    """
    length = flow.norm(dim=1, keepdim=True)
    if fastest is None:
        rank = max(1, round(0.99 * length[0].numel()))
        full = length.flatten(1).kthvalue(rank, dim=1).values.reshape(-1, 1, 1, 1).clamp_min(1e-3)
    else:
        full = torch.full_like(length[:, :, :1, :1], fastest)
    strength = (length / full).clamp(0.0, 1.0)
    angle = torch.atan2(flow[:, 1:], flow[:, :1])
    phases = torch.tensor([0.0, 2.0, 4.0]).to(flow).reshape(3, 1, 1) * (torch.pi / 3.0)
    return 1.0 - strength * (0.5 - 0.5 * torch.cos(angle - phases))


def depth_colours(depth: Tensor) -> Tensor:
    """Depth `[B, 1, H, W]` as colours: near is warm and light, far is dark and blue; `[B, 3, H, W]`."""
    near = torch.where(depth > 0, 1.0 / depth.clamp_min(1e-6), 0.0)
    share = (near / near.amax((2, 3), keepdim=True).clamp_min(1e-9)).sqrt()
    return torch.cat([share, share**1.7 * 0.85, 0.25 + 0.5 * share * (1.0 - share) + 0.2 * share**4], dim=1).clamp(
        0.0, 1.0
    )
