"""Pictures that explain results: labels, pictures side by side, errors, flows, depths and masks in colour."""

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


def flow_picture(flow: Tensor, longest: float | None = None) -> Tensor:
    """A flow as colours: the hue says where to, the strength how far; white is no motion.

    Args:
        flow: `[2, H, W]`, (dx, dy) in pixels. Red points right, and hues go round clockwise: yellow-green is down.
        longest: the length in pixels that gets full colour; that of the longest but 1 % of the picture if None.

    Returns:
        `[3, H, W]`.
    """
    length = torch.hypot(flow[0], flow[1])
    if longest is None:
        longest = float(np.quantile(length.cpu().numpy(), 0.99))
    strength = (length / max(longest, 1e-6)).clamp(0.0, 1.0)
    hue = torch.remainder(torch.atan2(flow[1], flow[0]) / (2.0 * torch.pi), 1.0)
    # Each channel is a trapezium over the circle of hues, a third of a turn from the next.
    thirds = torch.tensor([0.0, 1.0 / 3.0, 2.0 / 3.0]).to(flow).reshape(3, 1, 1)
    distance = (torch.remainder(hue - thirds + 0.5, 1.0) - 0.5).abs()
    pure = (2.0 - 6.0 * distance).clamp(0.0, 1.0)
    return 1.0 - strength * (1.0 - pure)


def depth_picture(depth: Tensor) -> Tensor:
    """Depths `[1, H, W]` as colours `[3, H, W]`: near is bright, far is dark, 0 (nothing there) is black.

    The scale is that of inverse depth between its 2nd and 98th percentile, which spreads near and far things alike.
    """
    import cv2

    seen = depth > 0
    nearness = torch.where(seen, 1.0 / torch.where(seen, depth, 1.0), 0.0)
    if not bool(seen.any()):
        return torch.zeros(3, *depth.shape[-2:])
    low, high = np.quantile(nearness[seen].cpu().numpy(), [0.02, 0.98]).tolist()
    level = ((nearness - low) / max(high - low, 1e-12)).clamp(0.0, 1.0)
    # The square root keeps what is far from drowning in one dark tone.
    grey = (level.sqrt()[0] * 255.0).round().to(torch.uint8).cpu().numpy()
    colours = cv2.applyColorMap(grey, cv2.COLORMAP_INFERNO)  # [H, W, 3], blue first
    return torch.from_numpy(colours).flip(-1).permute(2, 0, 1).float() / 255.0 * seen.cpu()


def mask_picture(frame: Tensor, mask: Tensor, colour: tuple[float, float, float] = (1.0, 0.1, 0.3)) -> Tensor:
    """A frame `[3, H, W]` in faint grey, coloured where a mask `[1, H, W]` (bool) is true."""
    grey = (0.25 + 0.5 * frame.mean(0, keepdim=True)).expand(3, -1, -1)
    return torch.where(mask, torch.tensor(colour).to(frame).reshape(3, 1, 1), grey)
