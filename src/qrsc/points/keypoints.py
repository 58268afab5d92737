"""Keypoints of single frames, corrected with dense optical flow sampled at their places."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from qrsc.motion.trajectory import Step, fit_displacements
from qrsc.names import Instant
from qrsc.points.lens import Lens
from qrsc.points.observations import ArrayLike, as_tensor, require_inside
from qrsc.points.tracks import NOISE, CorrectedPoints, as_given
from qrsc.timing import Readout
from qrsc.warp import sample


def correct_keypoints(
    keypoints: ArrayLike,
    flows: Mapping[Step, Tensor],
    readout: Readout,
    *,
    at: Instant | float = "middle",
    confidences: Mapping[Step, Tensor] | None = None,
    lens: Lens | None = None,
    order: int = 2,
    regularisation: float = 0.0,
    noise: float = NOISE,
) -> CorrectedPoints:
    """Move keypoints of one frame to where the points are at its instant, by flows to other frames.

    Convention
        As `correct_tracks`. Where a flow leads says when the point was seen there.

    Args:
        keypoints: `[M, 2]`, (x, y) in pixels of the frame; a tensor or an array.
        flows: `[2, H, W]` by frame step: -1 to the previous frame, 1 to the next.
        readout: how the frames were read.
        at: the instant: first, middle, last, or a time after the start of the frame.
        confidences: `[1, H, W]` in [0, 1] by the same steps; ones where missing.
        lens: of the camera.
        order: of the motion; lower where fewer flows are known.
        regularisation: pull of the acceleration towards zero.
        noise: standard deviation of a coordinate of a keypoint, px. A flow adds an error as large.

    Returns:
        `[M]` results.
    """
    points = as_tensor(keypoints, "keypoints")
    if points.ndim != 2 or points.shape[-1] != 2:
        raise ValueError(f"keypoints must be [M points, 2], got {tuple(points.shape)}.")
    sizes = {tuple(flow.shape[-2:]) for flow in flows.values()}
    if not flows or 0 in flows or any(flow.ndim != 3 or flow.shape[0] != 2 for flow in flows.values()):
        raise ValueError("flows must be [2, H, W] by frame step, such as -1 and 1; at least one is needed.")
    if len(sizes) != 1:
        raise ValueError(f"flows must all be of the size of the frame, got {sorted(sizes)}.")
    height, width = sizes.pop()
    require_inside(points, (height, width))
    tau = readout.instant(at) if isinstance(at, str) else float(at)
    places = points.t().unsqueeze(1)  # [2, 1, M]
    axis = 0 if readout.sideways else 1
    alpha = readout.row_time(points[:, axis], height, width)  # [M]
    straight = points if lens is None else lens.undistorted(points)
    shifts, times, trusts = [], [], []
    for step, flow in sorted(flows.items()):
        moved = points + sample(flow.to(points), places).image[:, 0].t()  # [M, 2]
        times.append((step + readout.row_time(moved[:, axis], height, width) - alpha).reshape(1, 1, -1))
        shifts.append(((moved if lens is None else lens.undistorted(moved)) - straight).t().unsqueeze(1))
        given = None if confidences is None else confidences.get(step)
        trusts.append(None if given is None else sample(given.to(points), places).image)
    motion = fit_displacements(shifts, times, order=order, confidences=trusts, regularisation=regularisation)
    wait = (tau - alpha).reshape(1, 1, -1)
    corrected = motion.confidence[0, 0] > 0
    result = straight + motion.displacement_at(wait)[:, 0].t()
    # The error of a correction over a part of a frame interval is that part of a flow's.
    variance = noise**2 * (1.0 + wait[0, 0].square())
    acceleration = torch.zeros_like(motion.velocity) if motion.acceleration is None else motion.acceleration
    found = CorrectedPoints(
        result if lens is None else lens.distorted(result),
        alpha,
        motion.velocity[:, 0].t(),
        acceleration[:, 0].t(),
        variance,
        motion.confidence[0, 0],
        corrected,
    )
    return as_given(found, keypoints)
