"""Partial corrections, and corrections of regions whose motion is uncertain."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.image.pooling import block_means
from qrsc.motion.trajectory import Trajectory, correction_field
from qrsc.timing import Readout

# Fixed-point steps for the instant at which a camera with a shorter readout sees a point: the row that the point lands
# on says when. Three steps leave an error under 0.01 pixel for motion of a tenth of the frame per frame interval.
PARTIAL_STEPS = 3
# Mean confidence of a region below which no correction is applied, and above which all of it is.
NOT_APPLIED, APPLIED = 0.05, 0.2
REGION = 16  # the side of a region is the frame's shorter side divided by this


def partial_correction_field(
    trajectory: Trajectory, readout: Readout, tau: Tensor | float, frame_offset: Tensor | float, strength: float
) -> Tensor:
    """The correction field to an instant, or part of the way to it.

    Convention
        As `qrsc.motion.trajectory.correction_field`. With a strength s below 1, the output row exposed at time r
        shows the instant `(1 - s) r + s tau`: what a camera with (1 - s) of the readout time would have seen.

    Returns:
        `[..., 2, H, W]`.
    """
    if strength == 1.0:
        return correction_field(trajectory, readout, tau, frame_offset)
    velocity = trajectory.velocity
    height, width = velocity.shape[-2:]
    exposed = readout.row_times(height, width, dtype=velocity.dtype, device=velocity.device)
    step = readout.time_per_pixel(height, width)
    shown = exposed  # when the row that the point lands on is exposed
    displacement = torch.zeros_like(velocity)
    for _ in range(PARTIAL_STEPS):
        instant = shown + strength * (tau - shown)
        displacement = trajectory.displacement_at(frame_offset + instant - exposed)
        shown = exposed + step * readout.scan_component(displacement)
    return displacement


def fade_unsure(correction: Tensor, trajectory: Trajectory, *, aligned: bool) -> tuple[Tensor, Tensor]:
    """Fade a correction out where the flows of a whole region contradict each other.

    Single uncertain pixels have already taken the motion of their surroundings; leaving them uncorrected would tear the
    picture. A region without any reliable flow is better left as it came.

    Args:
        correction: `[1, 2, H, W]`.
        trajectory: that it was computed from.
        aligned: the frame is aligned to the instant of another one. It cannot stay as it came, so the region is not
            valid instead.

    Returns:
        The correction, and where it can be used, `[1, 1, H, W]` bool.
    """
    height, width = correction.shape[-2:]
    region = max(1, min(height, width) // REGION)
    regions = block_means(trajectory.confidence, (-(-height // region), -(-width // region)))
    around = F.interpolate(regions, size=(height, width), mode="bilinear", align_corners=False)
    applied = ((around - NOT_APPLIED) / (APPLIED - NOT_APPLIED)).clamp(0.0, 1.0)
    if aligned:
        return correction, trajectory.valid & (applied > 0.5)
    return correction * applied, trajectory.valid
