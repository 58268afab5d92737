"""The input of a fusion: several frames of a clip, all corrected to the same instant."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class AlignedFrames:
    """T neighbouring frames, all corrected to one instant of the centre frame.

    Attributes:
        frames: `[B, T, 3, H, W]`, the corrected frames.
        correction_fields: `[B, T, 2, h, w]`, RS -> GS, each on the grid of its own rolling-shutter frame, or on a
            coarser one over it; in pixels of the frames.
        valid: `[B, T, 1, H, W]` bool, where a corrected frame shows the pixel.
        time_distance: `[B, T, 1, H, W]`, time from each row's exposure to the instant, absolute, in frame intervals.
        centre: index of the frame whose instant is shown: `T // 2`, except at the ends of a clip.
        detail: `[B, T, 3, H, W]`, what `qrsc.fusion.denoise.calmed` removed from the frames; None before that.
        gamma: the readout ratio, a number or `[B]`; needed by the time grid `unit` of RSA^2-Net only.
    """

    frames: Tensor
    correction_fields: Tensor
    valid: Tensor
    time_distance: Tensor
    centre: int
    gamma: float | Tensor | None = None
    detail: Tensor | None = None
