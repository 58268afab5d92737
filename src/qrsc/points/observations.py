"""Tracks as a flat list of observations: whatever came in, each track's observations stand one after the other in time.

Convention
    Positions are `(x, y)` in pixels of the picture as it was taken, pixel centres at integer coordinates. Times are in
    frame intervals; frame `k` starts its readout at `frame_times[k]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qrsc.points.lens import Lens
from qrsc.timing import Readout

ArrayLike: TypeAlias = "Tensor | npt.NDArray[np.floating]"

# A keypoint may lie a little outside the frame: detectors interpolate at the border. In pixels.
OUTSIDE = 1.0


@dataclass(frozen=True)
class Observations:
    """Observations of points, sorted by track and by time within a track.

    Attributes:
        position: `[P, 2]`, undistorted pixels; x and y lie apart in memory, so that `[2, P]` is contiguous.
        alpha: `[P]`, when the row of the observation was exposed, since the start of its frame.
        start: `[P]`, when that frame started, since the start of the first frame.
        track: `[P]`, int64, in ascending order.
        trust: `[P]` in [0, 1]; None for all ones.
        size: `(H, W)` of the frames.
    """

    position: Tensor
    alpha: Tensor
    start: Tensor
    track: Tensor
    trust: Tensor | None
    size: tuple[int, int]

    def __len__(self) -> int:
        return len(self.track)


def observe(
    position: Tensor,
    start: Tensor,
    track: Tensor,
    readout: Readout,
    size: tuple[int, int],
    lens: Lens | None,
    trust: Tensor | None = None,
) -> Observations:
    """Observations from positions `[P, 2]` as seen, the starts of their frames `[P]` and their tracks `[P]`, sorted.

    The row in the picture as it was taken says when a point was seen; a lens bends rows.
    """
    require_inside(position, size)
    alpha = readout.row_time(position[:, 0 if readout.sideways else 1], *size)
    straight = position if lens is None else lens.undistorted(position)
    return Observations(
        straight.t().contiguous().t(),
        alpha,
        start.to(position),
        track,
        None if trust is None else trust.to(alpha),
        size,
    )


def joined(parts: Sequence[Observations]) -> tuple[Observations, Tensor]:
    """Observations of one clip from several frames, sorted as they have to be, and the number that each had before."""
    track = torch.cat([part.track for part in parts])
    start = torch.cat([part.start for part in parts])
    order = torch.argsort(start, stable=True)
    order = order[torch.argsort(track[order], stable=True)]
    return Observations(
        torch.cat([part.position for part in parts]).t()[:, order].t(),
        torch.cat([part.alpha for part in parts])[order],
        start[order],
        track[order],
        None
        if any(part.trust is None for part in parts)
        else torch.cat([part.trust for part in parts if part.trust is not None])[order],
        parts[0].size,
    ), order


def require_inside(position: Tensor, size: tuple[int, int]) -> None:
    """Refuse positions `[P, 2]` outside the frame, or not finite."""
    height, width = size
    limit = position.new_tensor([width, height]) - 0.5 + OUTSIDE
    with torch.no_grad():
        low, high = position.amin(0), position.amax(0)  # NaN if any is
        inside = bool(((low > -0.5 - OUTSIDE) & (high < limit)).all())
    if not inside:
        raise ValueError(
            f"points must lie inside the frame of {width} x {height} pixels; these reach from "
            f"({float(low[0]):g}, {float(low[1]):g}) to ({float(high[0]):g}, {float(high[1]):g}). Give the size of "
            "the frames that the points were found in, in pixels (x, y), and mark a point that is not seen in a frame "
            "as such: NaN, or visible = False."
        )


def as_tensor(values: ArrayLike, name: str) -> Tensor:
    """Values as a floating-point tensor; arrays without a copy."""
    tensor = values if isinstance(values, Tensor) else torch.from_numpy(np.ascontiguousarray(values))
    if not tensor.is_floating_point():
        raise ValueError(f"{name} must be floating point, got {tensor.dtype}.")
    return tensor
