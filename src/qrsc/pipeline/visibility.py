"""Between two frames: what only one of them shows rightly is taken from that one, and not blended.

Both steps are smooth: what is decided for single pixels shows as specks along outlines, which flicker from one instant
to the next.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from qrsc.fusion import Fusion
from qrsc.fusion.aligned import AlignedFrames
from qrsc.fusion.mean import log_weights
from qrsc.image.blur import box_mean
from qrsc.image.colour import luma
from qrsc.warp import Warped

# Root mean square difference of two frames that were moved to one instant, in [0, 1], from which on they show different
# things, and from which on they are not blended at all. Noise and small errors of the motion stay below.
SIMILAR, DIFFERENT = 0.04, 0.08
# Sides of squares, of the frame's longer side: regions that are compared, since no pixel is decided on alone; the
# transition from one frame to another; parts that are too thin to be taken from another frame.
REGION, FADE, SPECK = 1.0 / 40.0, 1.0 / 40.0, 1.0 / 80.0
LEAST_WEIGHT = 1e-3  # of a frame at the edge of what it shows, beside one that shows more


def without_specks(aligned: AlignedFrames) -> AlignedFrames:
    """The frames without thin parts that are not valid: there the frame's own filler is better than another frame.

    Where two motions meet, an inverse fails at a few points. At the edges of the frame, parts half as wide stay.
    """
    side = _side(SPECK, aligned.frames)
    valid = aligned.valid.flatten(0, 1).to(aligned.frames)
    invalid = _grown(1.0 - _grown(valid, side), side)
    return replace(aligned, valid=(invalid < 0.5).view_as(aligned.valid))


def between_two(fusion: Fusion, aligned: AlignedFrames) -> Warped:
    """The picture between two frames, `[B, 3, H, W]`.

    Args:
        fusion: merges the two where both show the same.
        aligned: two frames, corrected to one instant; the centre is the nearer one.
    """
    aligned = without_specks(aligned)
    fused = fusion(aligned)
    sure = torch.stack([faded(valid.to(fused.image)) for valid in aligned.valid.unbind(1)], 1)  # [B, 2, 1, H, W]
    image = seamless(fused.image, aligned, sure)
    return Warped(nearest_where_different(image, aligned, sure[:, aligned.centre]), fused.valid)


def faded(valid: Tensor) -> Tensor:
    """A mask `[B, 1, H, W]` of 0 and 1 that rises from 0 at its edge to 1 further inside."""
    side = _side(FADE, valid)
    return box_mean(1.0 - _grown(1.0 - valid, side), side).clamp(0.0, 1.0)


def seamless(fused: Tensor, aligned: AlignedFrames, sure: Tensor) -> Tensor:
    """A fusion, replaced by a gradual transition from one frame to the other where one of them shows nothing.

    A fusion takes every pixel from what is valid there, and the edges of that are ragged.

    Args:
        fused: `[B, 3, H, W]`.
        aligned: two frames, corrected to one instant.
        sure: `[B, 2, 1, H, W]`, from `faded`, for each frame.

    Returns:
        `[B, 3, H, W]`.
    """
    likely = log_weights(aligned.frames, aligned.valid, aligned.time_distance, aligned.centre)
    weight = torch.exp(likely) * (sure + LEAST_WEIGHT * aligned.valid.to(sure)) + LEAST_WEIGHT**2
    passing = (weight * aligned.frames).sum(1) / weight.sum(1)
    return torch.lerp(passing, fused, sure.prod(1))


def nearest_where_different(blended: Tensor, aligned: AlignedFrames, sure: Tensor) -> Tensor:
    """A blend of two frames, replaced by the nearer frame where the two contradict each other.

    A fast object that was not followed is in two places in two frames. Blended it appears twice, as a ghost.

    Args:
        blended: `[B, 3, H, W]`.
        aligned: two frames, corrected to one instant; the centre is the nearer one.
        sure: `[B, 1, H, W]`, from `faded`, for the nearer frame.

    Returns:
        `[B, 3, H, W]`.
    """
    nearer, other = aligned.centre, 1 - aligned.centre
    frames = aligned.frames
    both = (aligned.valid[:, nearer] & aligned.valid[:, other]).to(frames)  # [B, 1, H, W]
    difference = luma(frames[:, nearer] - frames[:, other])
    side = _side(REGION, frames)
    differing = box_mean(both * difference * difference, side).clamp(min=0.0).sqrt()
    part = ((differing - SIMILAR) / (DIFFERENT - SIMILAR)).clamp(0.0, 1.0)
    # Smooth at its edges, and nothing is taken from where the nearer frame shows nothing.
    return torch.lerp(blended, frames[:, nearer], box_mean(part, side) * sure)


def _side(part: float, pictures: Tensor) -> int:
    """The side of a square in pixels, odd, from its part of the longer side of pictures `[..., H, W]`."""
    return 2 * (max(2, round(part * max(pictures.shape[-2:]))) // 2) + 1


def _grown(mask: Tensor, side: int) -> Tensor:
    """A mask `[B, 1, H, W]` of 0 and 1, and what lies within half a side of it; as `max_pool2d`, in linear time."""
    return (box_mean(mask, side) > 0.5 / side**2).to(mask)
