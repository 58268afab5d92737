"""Pictures that explain results: labels, pictures side by side, errors and masks in colour."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

GAP = 4  # pixels of white between pictures


def labelled(frame: Tensor, text: str) -> Tensor:
    """A copy of a frame `[3, H, W]` with a caption in its upper left corner, sized to the frame."""
    import cv2

    pixels = np.ascontiguousarray((frame.clamp(0, 1) * 255.0).round().to(torch.uint8).permute(1, 2, 0).cpu().numpy())
    scale = max(0.35, frame.shape[-1] / 1000.0)
    (width, height), below = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, scale, 1)
    margin = height // 2
    box = pixels[: height + below + 2 * margin, : width + 2 * margin]
    box //= 3  # darkened, so that the caption reads on any picture
    place = (margin, margin + height)
    cv2.putText(pixels, text, place, cv2.FONT_HERSHEY_SIMPLEX, scale, (255, 255, 255), 1, cv2.LINE_AA)
    return torch.from_numpy(pixels).permute(2, 0, 1).float() / 255.0


def beside(frames: Sequence[Tensor]) -> Tensor:
    """Frames `[3, H, W]` of one height side by side, with white between."""
    return _joined(frames, -1)


def above(frames: Sequence[Tensor]) -> Tensor:
    """Frames `[3, H, W]` of one width one above the other, with white between."""
    return _joined(frames, -2)


def _joined(frames: Sequence[Tensor], dim: int) -> Tensor:
    if not frames:
        raise ValueError("there are no frames to put together.")
    shape = list(frames[0].shape)
    shape[dim] = GAP
    parts = [frames[0]]
    for frame in frames[1:]:
        parts += [torch.ones(shape), frame]
    return torch.cat(parts, dim=dim)


def error_picture(frame: Tensor, truth: Tensor, gain: float) -> Tensor:
    """Where a frame differs from the truth, `[3, H, W]`: black is equal, brighter is further off."""
    return ((frame - truth).abs() * gain).clamp(0.0, 1.0)


def mask_picture(frame: Tensor, mask: Tensor, colour: tuple[float, float, float] = (1.0, 0.1, 0.3)) -> Tensor:
    """A frame `[3, H, W]` in faint grey, coloured where a mask `[1, H, W]` (bool) is true."""
    grey = (0.25 + 0.5 * frame.mean(0, keepdim=True)).expand(3, -1, -1)
    return torch.where(mask, torch.tensor(colour).to(frame).reshape(3, 1, 1), grey)
