"""What a fusion takes: several frames of a clip, all corrected to one instant."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class AlignedFrames:
    """T neighbouring frames corrected to the same instant of one of them.

    Attributes:
        frames: `[B, T, 3, H, W]`, the corrected frames.
        correction_fields: `[B, T, 2, h, w]`, RS -> GS, each on the grid of its own rolling-shutter frame, or on a
            coarser one over it; in pixels of the frames.
        valid: `[B, T, 1, H, W]` bool, where a corrected frame can be trusted.
        time_distance: `[B, T, 1, H, W]`, how far in time, in frame intervals, each row was exposed from the instant.
        centre: which of the T is the frame whose instant it is; the middle one (`T // 2`) but at the ends of a clip.
        detail: `[B, T, 3, H, W]`, what `qrsc.fusion.coherent.calmed` took away from the frames, if they are calmed.
        gamma: the readout ratio, one for all or `[B]`; only some ablations of the network ask for it.
    """

    frames: Tensor
    correction_fields: Tensor
    valid: Tensor
    time_distance: Tensor
    centre: int
    gamma: float | Tensor | None = None
    detail: Tensor | None = None
