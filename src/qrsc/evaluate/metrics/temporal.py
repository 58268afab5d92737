"""Temporal consistency: whether corrected frames change from one to the next as the truth does.

Convention
    A track leads from a pixel of a frame to where the flow finds it in the next one. It is steady if the flow is
    trusted, ends inside the frame, and the brightness around it (luma, blurred by `triangle_blur`) changes by at most
    `STEADY` of 255 grey levels. On steady tracks a picture should not change either: what does change there is flicker.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from qrsc.flow import FlowEstimator
from qrsc.image.blur import triangle_blur
from qrsc.image.colour import luma
from qrsc.motion.consistency import consistency_confidence
from qrsc.warp import backward_warp

TRUSTED = 0.5  # minimum confidence of a flow that is followed
STEADY = 4.0  # grey levels of 255


class Tracks(NamedTuple):
    """The tracks from one frame to the next.

    Attributes:
        motion: `[2, H, W]`, where they lead, in pixels.
        steady: `[1, H, W]` bool.
        change: `[1, H, W]`, luma at the end of each less that at its start, in grey levels of 255.
    """

    motion: Tensor
    steady: Tensor
    change: Tensor


@torch.no_grad()
def truth_motion(truth: Tensor, next_truth: Tensor, flow: FlowEstimator) -> tuple[Tensor, Tensor]:
    """The flow from a truth `[3, H, W]` to the next one, `[2, H, W]`, and where it can be trusted, `[1, H, W]` bool."""
    forward, backward = flow(truth.unsqueeze(0), next_truth.unsqueeze(0))
    return forward[0], (consistency_confidence(forward, backward) > TRUSTED)[0]


@torch.no_grad()
def warping_error(frame: Tensor, next_frame: Tensor, motion: Tensor, trusted: Tensor) -> float:
    """Root mean square difference, in grey levels of 255, between a frame and the next one warped back to it.

    Args:
        frame: `[3, H, W]`, corrected.
        next_frame: `[3, H, W]`, the one after, corrected to the same instant of its own frame.
        motion: `[2, H, W]`, the flow between the truths of the two, the same for all methods.
        trusted: `[1, H, W]` bool, where that flow can be followed.

    Returns:
        NaN if there is no such pixel. The truth itself has an error above 0, from resampling, changing light and errors
        of the flow.
    """
    warped, inside = backward_warp(next_frame, motion)
    counted = (trusted & inside).expand_as(frame)
    return 255.0 * float((frame - warped)[counted].square().mean().sqrt())


@torch.no_grad()
def find_tracks(frame: Tensor, next_frame: Tensor, flow: FlowEstimator) -> Tracks:
    """The tracks from a frame `[3, H, W]` to the next."""
    motion, trusted = truth_motion(frame, next_frame, flow)
    change, inside = _change(frame, next_frame, motion)
    calm = triangle_blur(change.unsqueeze(0))[0].abs() <= STEADY
    return Tracks(motion, trusted & inside & calm, change)


@torch.no_grad()
def flicker(frame: Tensor, next_frame: Tensor, tracks: Tracks) -> float:
    """How much more a corrected clip changes along steady tracks of the truth than the truth does.

    Args:
        frame: `[3, H, W]`, corrected.
        next_frame: `[3, H, W]`, the one after, corrected to the same instant of its own frame.
        tracks: of the truth.

    Returns:
        The root mean square, in grey levels of 255, of the change of luma less that of the truth; NaN if no track is
        steady.
    """
    change, _ = _change(frame, next_frame, tracks.motion)
    return float((change - tracks.change)[tracks.steady].square().mean().sqrt())


@torch.no_grad()
def clip_flicker(frames: Iterable[Tensor], flow: FlowEstimator) -> float:
    """How much a clip without a truth changes along its own steady tracks; to be compared with that of the input.

    Args:
        frames: `[3, H, W]` each.
        flow: finds the tracks.

    Returns:
        The root mean square change of luma, in grey levels of 255: the mean over pairs of frames that have a steady
        track, NaN if there is none.
    """
    found = []
    for first, second in pairwise(frames):
        tracks = find_tracks(first, second, flow)
        if bool(tracks.steady.any()):
            found.append(float(tracks.change[tracks.steady].square().mean().sqrt()))
    return sum(found) / len(found) if found else float("nan")


def _change(frame: Tensor, next_frame: Tensor, motion: Tensor) -> tuple[Tensor, Tensor]:
    """The change of luma along a motion, `[1, H, W]` in grey levels, and whether it ends inside the next frame."""
    warped, inside = backward_warp(luma(next_frame), motion, "bicubic")
    return 255.0 * (warped - luma(frame)), inside
