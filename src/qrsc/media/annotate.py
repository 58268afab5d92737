"""Figures from frames: captions, frames side by side, errors and masks in colour."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

GAP = 4  # white pixels between frames


def labelled(frame: Tensor, text: str) -> Tensor:
    """A copy of a frame `[3, H, W]` with a caption in its upper left corner, scaled with the frame."""
    import cv2

    pixels = np.ascontiguousarray((frame.clamp(0, 1) * 255.0).round().to(torch.uint8).permute(1, 2, 0).cpu().numpy())
    scale = max(0.35, frame.shape[-1] / 1000.0)
    (width, height), below = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, scale, 1)
    margin = height // 2
    box = pixels[: height + below + 2 * margin, : width + 2 * margin]
    box //= 3  # darkened, so that the caption is legible on any frame
    place = (margin, margin + height)
    cv2.putText(pixels, text, place, cv2.FONT_HERSHEY_SIMPLEX, scale, (255, 255, 255), 1, cv2.LINE_AA)
    return torch.from_numpy(pixels).permute(2, 0, 1).float() / 255.0


def beside(frames: Sequence[Tensor]) -> Tensor:
    """Frames `[3, H, W]` of one height side by side, with white gaps."""
    return _joined(frames, -1)


def above(frames: Sequence[Tensor]) -> Tensor:
    """Frames `[3, H, W]` of one width one above the other, with white gaps."""
    return _joined(frames, -2)


def _joined(frames: Sequence[Tensor], dim: int) -> Tensor:
    if not frames:
        raise ValueError("there are no frames to join.")
    shape = list(frames[0].shape)
    shape[dim] = GAP
    parts = [frames[0]]
    for frame in frames[1:]:
        parts += [torch.ones(shape), frame]
    return torch.cat(parts, dim=dim)


def error_picture(frame: Tensor, truth: Tensor, gain: float) -> Tensor:
    """Absolute error of a frame against the ground truth, times a gain: `[3, H, W]`, black where they are equal."""
    return ((frame - truth).abs() * gain).clamp(0.0, 1.0)


def mask_picture(frame: Tensor, mask: Tensor, colour: tuple[float, float, float] = (1.0, 0.1, 0.3)) -> Tensor:
    """A frame `[3, H, W]` in faint grey, coloured where a mask `[1, H, W]` (bool) is true."""
    grey = (0.25 + 0.5 * frame.mean(0, keepdim=True)).expand(3, -1, -1)
    return torch.where(mask, torch.tensor(colour).to(frame).reshape(3, 1, 1), grey)
