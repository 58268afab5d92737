"""What a method returns for a frame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from torch import Tensor

from qrsc.pipeline import Corrected


class FrameAndField(NamedTuple):
    """A corrected frame `[3, H, W]` and its correction field `[2, H, W]`, RS to GS on the grid of the RS frame."""

    frame: Tensor
    correction_field: Tensor


@dataclass(frozen=True)
class LateFrame:
    """The same, with a frame that is made when it is asked for, in the thread that measures it.

    Attributes:
        correction_field: `[2, H, W]`.
        make: makes the frame; called once.
    """

    correction_field: Tensor
    make: Callable[[], Tensor]

    @cached_property
    def frame(self) -> Tensor:
        return self.make()


Result = Tensor | Corrected | FrameAndField | LateFrame


def frame_of(result: Result) -> Tensor:
    """The frame `[3, H, W]` of a result."""
    return result if isinstance(result, Tensor) else result.frame
