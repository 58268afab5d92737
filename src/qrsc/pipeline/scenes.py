"""Changes of scene, and frames that only repeat the previous one."""

from __future__ import annotations

import torch
from torch import Tensor

from qrsc.image.pooling import block_means
from qrsc.warp import backward_warp

# Blocks of a repeated frame differ by coding noise alone: by at most this mean absolute difference, in [0, 1].
REPEAT_DIFFERENCE = 1.5 / 255
BLOCK = 8  # pixels

THUMBNAIL = 80  # pixels of the longer side at which scenes are compared
# Two pictures with a smaller mean absolute difference, in [0, 1], are never a cut: correcting across it does no harm.
CUT_DIFFERENCE = 0.04
# At a cut, warping by the flow removes hardly more of the difference than chance does, and forward and backward flow
# contradict each other. See tests/pipeline/test_scenes.py for the clips that these two separate.
CUT_UNEXPLAINED = 0.5
CUT_CONFIDENCE = 0.3


def repeats(previous: Tensor, frame: Tensor) -> bool:
    """Whether a frame shows the same picture as the previous one, up to coding noise.

    Args:
        previous, frame: `[1, 3, H, W]`.
    """
    # A sparse sample tells most frames apart, at a hundredth of the cost.
    few = (frame[:, 1:2, ::BLOCK, ::BLOCK] - previous[:, 1:2, ::BLOCK, ::BLOCK]).abs()
    if float(few.mean()) > 4.0 * REPEAT_DIFFERENCE:
        return False
    difference = (frame[:, 1:2] - previous[:, 1:2]).abs()  # green carries most of the detail
    height, width = difference.shape[-2:]
    blocks = block_means(difference, (max(1, height // BLOCK), max(1, width // BLOCK)))
    return bool(blocks.max() <= REPEAT_DIFFERENCE)


def scene_changes(previous: Tensor, frame: Tensor, flow: Tensor, confidence: Tensor) -> bool:
    """Whether a frame belongs to a different scene from the previous one.

    Args:
        previous, frame: `[1, 3, H, W]`.
        flow: `[1, 2, h, w]`, from the previous frame to this one, in pixels of its own grid, which may be smaller.
        confidence: `[1, 1, h, w]`, of the flow, by forward-backward consistency.
    """
    if float(confidence.mean()) > CUT_CONFIDENCE:
        return False
    first, second = _thumbnail(previous), _thumbnail(frame)  # [1, 3, th, tw]
    difference = float((first - second).abs().mean())
    if difference < CUT_DIFFERENCE:
        return False
    size = (first.shape[-2], first.shape[-1])
    scale = torch.tensor([size[1] / flow.shape[-1], size[0] / flow.shape[-2]]).to(flow)
    small = block_means(torch.nan_to_num(flow), size) * scale.reshape(1, 2, 1, 1)
    followed = backward_warp(second, small).image
    return float((followed - first).abs().mean()) > CUT_UNEXPLAINED * difference


def _thumbnail(frame: Tensor) -> Tensor:
    height, width = frame.shape[-2:]
    shrink = max(1.0, max(height, width) / THUMBNAIL)
    return block_means(frame, (max(1, round(height / shrink)), max(1, round(width / shrink))))
