"""What goes into a corrector beside plain frames, and what comes out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor


class TimedFrame(NamedTuple):
    """A frame `[3, H, W]` and when its readout started, in frame intervals; times grow from frame to frame."""

    frame: Tensor
    time: float


@dataclass(frozen=True)
class Corrected:
    """One corrected frame.

    Attributes:
        frame: `[3, H, W]`, what a global shutter would have seen at the instant.
        valid: `[1, H, W]` bool; False where no frame of the window shows the pixel, and a nearby value stands in.
        correction_field: `[2, H, W]`, RS -> GS in pixels, on the grid of this frame as it came in. With a reduced
            `scale` or `field_scale` it is `[2, h, w]` of that size, still in pixels of the full frame.
        unchanged: the frame is the very one that came in.
        repeats: the frame shows the same picture as the one before, and got the same correction.
        after_cut: a new scene starts with this frame.
        unsure: share of the pixels whose motion two flows do not agree on.
        filled: share of the pixels that the frame itself does not show, taken from neighbours or the nearest edge.
    """

    frame: Tensor
    valid: Tensor
    correction_field: Tensor
    unchanged: bool = False
    repeats: bool = False
    after_cut: bool = False
    unsure: float = 0.0
    filled: float = 0.0


def unchanged(frame: Tensor) -> Corrected:
    """The result for a frame `[3, H, W]` that needs no correction, or that nothing is known about."""
    everywhere = torch.ones_like(frame[:1], dtype=torch.bool)
    return Corrected(frame, everywhere, torch.zeros_like(frame[:2]), unchanged=True)


@dataclass
class Seconds:
    """Where time went, by the name of the work. Work on a GPU is counted where its result is waited for."""

    spent: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def of(self, work: str) -> Iterator[None]:
        """Adds the time of a block; blocks of one name must not run in two threads at once."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.spent[work] = self.spent.get(work, 0.0) + time.perf_counter() - started
