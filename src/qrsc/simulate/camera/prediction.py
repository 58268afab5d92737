"""Motion-compensated prediction of a frame, as in a video encoder: blocks of the previous frame, shifted."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

BLOCK = 16
REDUCED = 4  # the first search runs at a quarter of the resolution
REACH = 7  # search range of the first search, in pixels of the reduced picture
REFINED = 3  # search range of the second search around the result of the first, in full-size pixels
# A search leaves its starting point only for a match that is better by this much per pixel. Motion vectors cost bits in
# an encoder, so that flat areas do not get random ones.
PRICE = 0.004


def predicted(frame: Tensor, before: Tensor) -> Tensor:
    """Predict a frame from the previous one: each block is shifted by the whole-pixel motion that matches best.

    Args:
        frame: `[N, 3, H, W]`, in 0 to 1; both sides multiples of `BLOCK`.
        before: `[N, 3, H, W]`.

    Returns:
        `[N, 3, H, W]`, made of pixels of `before`.
    """
    grey, grey_before = frame.mean(1, keepdim=True), before.mean(1, keepdim=True)
    rough = _search_motion(
        F.avg_pool2d(grey, REDUCED),
        F.avg_pool2d(grey_before, REDUCED),
        torch.zeros_like(grey[:, 0, ::BLOCK, ::BLOCK]).long().unsqueeze(1).expand(-1, 2, -1, -1),
        BLOCK // REDUCED,
        REACH,
    )
    motion = _search_motion(grey, grey_before, rough * REDUCED, BLOCK, REFINED)
    return _shift_blocks(before, motion, BLOCK)


def _search_motion(grey: Tensor, before: Tensor, around: Tensor, block: int, reach: int) -> Tensor:
    """The best motion of each block within `reach` of a given one: `[N, 2, h, w]` (dx, dy), in whole pixels."""
    best = torch.full_like(around[:, :1], float("inf"), dtype=grey.dtype)
    found = around
    steps = sorted(
        ((dx, dy) for dy in range(-reach, reach + 1) for dx in range(-reach, reach + 1)),
        key=lambda s: abs(s[0]) + abs(s[1]),
    )
    for dx, dy in steps:  # short ones first: a longer one must match better
        motion = around + torch.tensor([dx, dy], device=around.device).reshape(1, 2, 1, 1)
        cost = F.avg_pool2d((grey - _shift_blocks(before, motion, block)).abs(), block)
        cost = cost + (PRICE if (dx, dy) != (0, 0) else 0.0)
        better = cost < best
        best = torch.where(better, cost, best)
        found = torch.where(better, motion, found)
    return found


def _shift_blocks(pictures: Tensor, motion: Tensor, block: int) -> Tensor:
    """Sample pictures `[N, C, H, W]` block by block at whole pixels; beyond the border, the border is repeated."""
    count, channels, height, width = pictures.shape
    full = motion.repeat_interleave(block, dim=2).repeat_interleave(block, dim=3)  # [N, 2, H, W]
    x = (torch.arange(width, device=pictures.device) + full[:, 0]).clamp(0, width - 1)
    y = (torch.arange(height, device=pictures.device)[:, None] + full[:, 1]).clamp(0, height - 1)
    index = (y * width + x).flatten(1)[:, None].expand(-1, channels, -1)
    return pictures.flatten(2).gather(2, index).reshape(count, channels, height, width)
