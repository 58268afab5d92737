"""Tracks with exact motion, seen by a rolling shutter."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from qrsc.points import Lens
from qrsc.timing import Readout

SIZE = (480, 640)


class Tracks(NamedTuple):
    seen: Tensor  # [N, M, 2], NaN outside the frame
    true: Tensor  # [N, M, 2], at the middle row's instant
    inside: Tensor  # [N, M], bool


def track(place: Callable[[Tensor], Tensor], frames: int, points: int, readout: Readout, lens: Lens | None) -> Tracks:
    """Points at places `[M, 2]` of a pinhole camera at times `[M, 1]`, as a camera with a lens sees them."""
    distort = (lambda each: each) if lens is None else lens.distorted
    axis = 0 if readout.sideways else 1
    seen, true = [], []
    for frame in range(frames):
        time = torch.full((points, 1), float(frame), dtype=torch.float64)
        for _ in range(80):  # the row on which a point lands says when it was seen there
            time = frame + readout.row_time(distort(place(time))[:, axis : axis + 1], *SIZE)
        seen.append(distort(place(time)))
        true.append(distort(place(torch.full_like(time, frame + readout.instant("middle")))))
    rolling = torch.stack(seen)
    limit = torch.tensor([SIZE[1] - 1, SIZE[0] - 1])
    inside = ((rolling >= 0) & (rolling <= limit)).all(-1)
    return Tracks(torch.where(inside[..., None], rolling, torch.nan), torch.stack(true), inside)


def quadratic_tracks(
    readout: Readout, frames: int = 7, points: int = 300, lens: Lens | None = None, speed: float = 20.0
) -> Tracks:
    """Points that move along parabolas; up to a fifth of them leave the frame."""
    generator = torch.Generator().manual_seed(1)

    def normal() -> Tensor:
        return torch.randn(points, 2, generator=generator, dtype=torch.float64)

    start = torch.tensor([320.0, 240.0]) + 70.0 * normal()
    velocity, acceleration = speed * normal(), 0.2 * speed * normal()

    def place(time: Tensor) -> Tensor:
        passed = time - 0.5 * (frames - 1)
        return start + velocity * passed + 0.5 * acceleration * passed**2

    return track(place, frames, points, readout, lens)
