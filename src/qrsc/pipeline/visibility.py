"""Between two frames: what only one of them shows rightly is taken from the nearer one, and not blended."""

from __future__ import annotations

import torch
from torch import Tensor

from qrsc.fusion.aligned import AlignedFrames
from qrsc.image.blur import box_mean
from qrsc.image.colour import luma

# Root mean square difference of two frames that were moved to one instant, in [0, 1], from which on they show different
# things, and from which on they are not blended at all. Noise and small errors of the motion stay below.
SIMILAR, DIFFERENT = 0.04, 0.08
REGION = 1.0 / 40.0  # side of the regions that are compared, of the frame's longer side: no pixel is decided on alone


def nearest_where_different(blended: Tensor, aligned: AlignedFrames) -> Tensor:
    """A blend of two frames, replaced by the nearer frame where the two contradict each other.

    A fast object that was not followed is in two places in two frames. Blended it appears twice, as a ghost.

    Args:
        blended: `[B, 3, H, W]`.
        aligned: two frames, corrected to one instant; the centre is the nearer one.

    Returns:
        `[B, 3, H, W]`.
    """
    nearer, other = aligned.centre, 1 - aligned.centre
    frames = aligned.frames
    both = (aligned.valid[:, nearer] & aligned.valid[:, other]).to(frames)  # [B, 1, H, W]
    difference = luma(frames[:, nearer] - frames[:, other])
    side = 2 * (max(4, round(REGION * max(frames.shape[-2:]))) // 2) + 1
    differing = box_mean(both * difference * difference, side).clamp(min=0.0).sqrt()
    part = ((differing - SIMILAR) / (DIFFERENT - SIMILAR)).clamp(0.0, 1.0)
    # Smooth at its edges, and nothing is taken from where the nearer frame shows nothing.
    part = box_mean(part, side) * aligned.valid[:, nearer].to(frames)
    return torch.lerp(blended, frames[:, nearer], part)
