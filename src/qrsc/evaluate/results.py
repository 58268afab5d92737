"""What a method gives for a frame."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from qrsc.pipeline import Corrected


class FrameAndField(NamedTuple):
    """A corrected frame `[3, H, W]` and its correction field `[2, H, W]`, RS to GS on the grid of the frame."""

    frame: Tensor
    correction_field: Tensor


Result = Tensor | Corrected | FrameAndField


def frame_of(result: Result) -> Tensor:
    """The frame `[3, H, W]` of a result."""
    return result if isinstance(result, Tensor) else result.frame
