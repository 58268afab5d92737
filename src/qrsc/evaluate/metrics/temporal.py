"""Temporal consistency: whether corrected frames change from one to the next as the truth does."""

from __future__ import annotations

import torch
from torch import Tensor

from qrsc.flow import FlowEstimator
from qrsc.motion.consistency import consistency_confidence
from qrsc.warp import backward_warp

TRUSTED = 0.5  # minimum confidence of a flow that is followed


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
