"""Corrections that go part of the way, and what becomes of pixels whose motion is uncertain."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.motion.trajectory import Trajectory, correction_field
from qrsc.timing import Readout

# Fixed-point steps for the instant at which a point is seen by a readout that is shortened, not ended: the row that
# it lands on says when. Three steps leave under 0.01 pixel for motion of a tenth of the frame per interval.
PARTIAL_STEPS = 3
# Confidence, averaged over a region, under which a correction is given up wholly, and over which it is kept wholly.
GIVEN_UP, KEPT = 0.05, 0.2
REGION = 16  # a region is the frame's shorter side over this


def partial_correction_field(
    trajectory: Trajectory, readout: Readout, tau: float, frame_offset: float, strength: float
) -> Tensor:
    """The correction field to an instant, or to a readout that is only shortened.

    Convention
        As `qrsc.motion.trajectory.correction_field`. With a strength s under 1 the row at time r of the output
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
    """Gives up a correction where the flows of a whole region contradict each other.

    Single unsure pixels have taken the motion of their surroundings already; to leave them behind would tear the
    picture. A region without any support is better left as it came.

    Args:
        correction: `[1, 2, H, W]`.
        trajectory: where it comes from.
        aligned: the frame is to be brought to another one's instant: it cannot stay as it came, and is not valid
            there instead.

    Returns:
        The correction, and where it may be used, `[1, 1, H, W]` bool.
    """
    height, width = correction.shape[-2:]
    region = max(1, min(height, width) // REGION)
    regions = F.adaptive_avg_pool2d(trajectory.confidence, (-(-height // region), -(-width // region)))
    around = F.interpolate(regions, size=(height, width), mode="bilinear", align_corners=False)
    kept = ((around - GIVEN_UP) / (KEPT - GIVEN_UP)).clamp(0.0, 1.0)
    if aligned:
        return correction, trajectory.valid & (kept > 0.5)
    return correction * kept, trajectory.valid
