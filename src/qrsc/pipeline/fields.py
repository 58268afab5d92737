"""Fields at a size of their own, corrections that go part of the way, and what becomes of unsure pixels.

Convention
    Resizing keeps the corners of the frame, so pixel centres of an old and a new grid differ by a fraction of a pixel
    (as `Readout.resized` has it); fields are in pixels of the grid they live on.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc import opencv
from qrsc.motion import Trajectory, correction_field
from qrsc.timing import Readout
from qrsc.warp import enlarged

# Fixed-point steps for the instant at which a point is seen by a readout that is shortened, not ended: the row that
# it lands on says when. Three steps leave under 0.01 pixel for motion of a tenth of the frame per interval.
PARTIAL_STEPS = 3
# Confidence, averaged over a region, under which a correction is given up wholly, and over which it is kept wholly.
GIVEN_UP, KEPT = 0.05, 0.2
REGION = 16  # a region is the frame's shorter side over this


def reduced_size(size: tuple[int, ...], scale: float) -> tuple[int, int]:
    """`(h, w)` of a picture of size `(H, W)` at a scale; at least one pixel."""
    height, width = size
    return max(1, round(height * scale)), max(1, round(width * scale))


def resized_picture(picture: Tensor, size: tuple[int, ...]) -> Tensor:
    """A picture `[B, C, H, W]` at another size `(h, w)`, without aliasing; the same one if that is its size."""
    if tuple(picture.shape[-2:]) == tuple(size):
        return picture
    height, width = size
    if height >= picture.shape[-2] and width >= picture.shape[-1]:
        return enlarged(picture, (height, width))
    return F.interpolate(picture, size=(height, width), mode="bilinear", align_corners=False, antialias=True)


def resized_field(field: Tensor, size: tuple[int, ...]) -> Tensor:
    """A field `[B, 2, H, W]` on the grid of another size `(h, w)`, in pixels of that grid."""
    if tuple(field.shape[-2:]) == tuple(size):
        return field
    # A mean over blocks is quicker than a filter against aliasing, of which smooth fields need none.
    down, across = field.shape[-2] // size[0], field.shape[-1] // size[1]
    if (down * size[0], across * size[1]) == tuple(field.shape[-2:]):
        plain = opencv.takes(field)
        resized = opencv.block_means(field, (size[0], size[1])) if plain else F.avg_pool2d(field, (down, across))
    elif down and across:
        resized = F.adaptive_avg_pool2d(field, (size[0], size[1]))
    else:
        resized = resized_picture(field, size)
    return in_pixels_of(resized, field.shape[-2:], size)


def in_pixels_of(field: Tensor, size: tuple[int, ...], other: tuple[int, ...]) -> Tensor:
    """The values of a field `[B, 2, h, w]`, given in pixels of a grid `(H, W)`, in pixels of another; same grid."""
    if tuple(size) == tuple(other):
        return field
    factor = torch.tensor([other[1] / size[1], other[0] / size[0]], dtype=field.dtype, device=field.device)
    return field * factor.reshape(1, 2, 1, 1)


def partial_correction_field(
    trajectory: Trajectory, readout: Readout, tau: float, frame_offset: float, strength: float
) -> Tensor:
    """The correction field to an instant, or to a readout that is only shortened.

    Convention
        As `qrsc.motion.correction_field`. With a strength s under 1 the row at time r of the output shows the instant
        `(1 - s) r + s tau`: what a camera with (1 - s) of the readout time would have seen.

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
