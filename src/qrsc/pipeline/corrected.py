"""What goes into a corrector besides plain frames, and what comes out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy.typing as npt
import torch
from torch import Tensor


class TimedFrame(NamedTuple):
    """A frame and when its readout started, in frame intervals; times increase from frame to frame.

    The frame is a tensor `[3, H, W]`, or an array `[H, W, 3]` as for `Corrector.stream`.

    `restarts` starts a new shot: the time since the previous frame is unknown.
    """

    frame: Tensor | npt.NDArray[Any]
    time: float
    restarts: bool = False


class _Share:
    """A share of the pixels: a number, or a tensor `[]` that is read when it is asked for, after the frame."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"_{name}"

    def __get__(self, instance: object, owner: type | None = None) -> float:
        if instance is None:
            return 0.0  # the default of the field
        kept = instance.__dict__
        kept[self._name] = float(kept[self._name])
        share: float = kept[self._name]
        return share

    def __set__(self, instance: object, value: Tensor | float) -> None:
        instance.__dict__[self._name] = value


@dataclass(frozen=True, repr=False)
class Corrected:
    """One corrected frame.

    Attributes:
        frame: `[3, H, W]`, what a global shutter would have seen at the instant.
        valid: `[1, H, W]` bool; False where no frame of the window shows the pixel, and a nearby value stands in.
        correction_field: `[2, H, W]`, RS -> GS in pixels, on the grid of the input frame. With a reduced `scale` or
            `field_scale` it is `[2, h, w]` of that size, still in pixels of the full frame.
        unchanged: the frame is the input frame itself.
        repeats: the frame shows the same picture as the one before, and got the same correction.
        after_cut: a new scene starts with this frame.
        unsure: share of the pixels whose motion is uncertain: no flow of theirs has a confidence of 0.5.
        filled: share of the pixels that the frame itself does not show, taken from neighbours or the nearest edge.
        fallback: why the frame was not corrected as asked (`"one neighbour: linear motion"`), or False if it was.
    """

    frame: Tensor
    valid: Tensor
    correction_field: Tensor
    unchanged: bool = False
    repeats: bool = False
    after_cut: bool = False
    unsure: _Share = _Share()
    filled: _Share = _Share()
    fallback: str | Literal[False] = False

    def __repr__(self) -> str:
        _, height, width = self.frame.shape
        told = [f"{width}x{height} {str(self.frame.dtype).removeprefix('torch.')} on {self.frame.device}"]
        told += [name for name in ("unchanged", "repeats", "after_cut") if getattr(self, name)]
        if not self.unchanged:
            longest = float(self.correction_field.detach().norm(dim=0).amax()) if self.correction_field.numel() else 0.0
            told.append(f"correction up to {longest:.1f} px")
            told.append(f"unsure {self.unsure:.1%}, filled {self.filled:.1%}")
        told.append(f"fallback {self.fallback!r}")
        return f"Corrected({', '.join(told)})"


def unchanged(frame: Tensor, fallback: str | Literal[False] = False) -> Corrected:
    """The result for a frame `[3, H, W]` that needs no correction, or that cannot be corrected for the reason given."""
    everywhere = torch.ones_like(frame[:1], dtype=torch.bool)
    return Corrected(frame, everywhere, torch.zeros_like(frame[:2]), unchanged=True, fallback=fallback)


@dataclass
class Seconds:
    """Where time went, by the name of the work. Work on a GPU is counted where its result is waited for."""

    spent: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def of(self, work: str) -> Iterator[None]:
        """Add the time of a block. Blocks of one name must not run in two threads at once."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.spent[work] = self.spent.get(work, 0.0) + time.perf_counter() - started
