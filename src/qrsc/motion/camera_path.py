"""The camera path: one smooth motion in continuous time, fitted to the flows of several frames.

A parabola per pixel is known at three instants: the pixel's own exposure and the two that the flows lead to. It cannot
follow what a shaking hand does in between. But rows are exposed one after the other, so the pixels of a few frames
together have seen the camera at every instant. `qrsc.motion.path_fit` fits the path to all of their flows. It is a
cubic spline over time of four states: a shift in x and y, a roll and a scale. A pixel then moves with the path, and by
a parabola of its own for the residual: depth, moving objects, a lens.

Convention
    A state of the path is `(across, down, roll, scale)` in pixels, the last two at a distance of half the frame's
    width from its centre. Between two times a point `(x, y)`, counted from the centre in half widths, moves by

        (across (1 + q x^2) + down q x y - roll y + scale x,
         down (1 + q y^2) + across q x y + roll x + scale y)

    of the difference of the states, with `(x, y)` half way. `q` is the perspective term: 0 for a camera that
    translates, and `1 / f^2` for one that rotates about its centre with a focal length of `f` half widths. Times are in
    frame intervals.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.timing import Readout
from qrsc.warp import pixel_grid

KNOTS = 3  # per frame interval; a hand trembles at up to about 10 Hz
STATES = 4
# The path is tabulated at this many times per knot interval, and taken as straight in between: where it curves by 50
# pixels per squared frame interval, the error is 0.002 pixels.
TABLE = 32


@dataclass(frozen=True)
class CameraPath:
    """A path in time, one for each clip of a batch.

    Attributes:
        knots: `[B, N, 4]`, weights of the splines.
        first: number of the first of these splines.
        perspective: `[B]`, the perspective term `q`.
        known_table: the path as a table, if that is known.
    """

    knots: Tensor
    first: int
    perspective: Tensor
    known_table: PathTable | None = None

    @cached_property
    def tabulated(self) -> PathTable:
        """The states at `TABLE` times between two knots, from the second knot to the last but one."""
        if self.known_table is not None:
            return self.known_table
        pieces = self.knots.shape[1] - 3
        places = 1.0 + torch.arange(pieces * TABLE + 1, dtype=self.knots.dtype, device=self.knots.device) / TABLE
        numbers = torch.arange(pieces + 3, dtype=places.dtype, device=places.device)
        states = splines(places / KNOTS, numbers) @ self.knots  # [B, M, 4]
        return PathTable(states.transpose(1, 2).unsqueeze(2), self.perspective)

    def origin(self, since: float) -> float:
        """The place of a time in knots after the start of the table."""
        # Subtracted in double precision: the start of a frame late in a clip is a large number.
        return since * KNOTS - (self.first + 1)

    def states(self, times: Tensor, since: float = 0.0) -> Tensor:
        """The states `[B, 4, h, w]` at times `[B, 1, h, w]` or `[1, h, w]`, counted from a time `since`.

        Beyond its ends the path is constant.
        """
        return self.tabulated.states(times, self.origin(since))

    def from_frame(self, time: float, readout: Readout, size: tuple[int, int]) -> PathOfFrame:
        """The path as the pixels of a frame follow it; `time` is the start of the frame."""
        return PathOfFrame(self.tabulated, self.origin(time), readout, size)


class PathTable(NamedTuple):
    """A path in time as a table of states that are straight lines in between.

    Attributes:
        table: `[B, 4, 1, M]`, states at `TABLE` times per knot interval.
        perspective: `[B]`, the perspective term `q`.
    """

    table: Tensor
    perspective: Tensor

    def states(self, times: Tensor, origin: Tensor | float) -> Tensor:
        """The states `[B, 4, h, w]` at times `[B, 1, h, w]` or `[1, h, w]` after an origin; see `CameraPath.origin`."""
        batch, _, _, length = self.table.shape
        place = (times * KNOTS + origin) * (2.0 * TABLE / (length - 1)) - 1.0
        place = place.reshape(-1, *times.shape[-2:]).expand(batch, -1, -1)
        # Clamped here, not by `padding_mode="border"`, which some devices lack.
        grid = torch.stack([place.clamp(-1.0, 1.0), torch.zeros_like(place)], -1)
        return F.grid_sample(self.table, grid, "bilinear", "zeros", align_corners=True)


@dataclass(frozen=True)
class PathOfFrame:
    """The path as the pixels of one frame follow it, each from its own exposure on.

    Attributes:
        path: of B clips.
        origin: the start of the frame; see `CameraPath.origin`.
        readout: how it was read.
        size: `(H, W)` of the grid that the path was measured on.
    """

    path: PathTable
    origin: Tensor | float
    readout: Readout
    size: tuple[int, int]

    @cached_property
    def _exposed(self) -> Tensor:
        table = self.path.table
        return self.readout.row_times(*self.size, dtype=table.dtype, device=table.device)

    @cached_property
    def _grid(self) -> Tensor:
        table = self.path.table
        return centred(pixel_grid(*self.size, dtype=table.dtype, device=table.device), self.size)

    @cached_property
    def _first(self) -> Tensor:
        return self.path.states(self._exposed, self.origin)

    def displacement_at(self, time: Tensor | float) -> Tensor:
        """The displacement of each pixel along the path at a time after its exposure.

        Args:
            time: a number, or anything that broadcasts to `[B, 1, H, W]`.

        Returns:
            `[B, 2, H, W]`.
        """
        change = self.path.states(self._exposed + time, self.origin) - self._first
        moved = self._moved(self._grid, change)
        return self._moved(self._grid + moved / self.size[1], change)  # the middle of the way, in half widths

    def _moved(self, points: Tensor, change: Tensor) -> Tensor:
        """The displacement `[B, 2, H, W]` of points `[..., 2, H, W]` by a change of state `[B, 4, h, w]`."""
        across, down, roll, scale = change.chunk(STATES, 1)
        x, y = points.chunk(2, -3)
        outwards = scale + self.path.perspective.reshape(-1, 1, 1, 1) * torch.addcmul(x * across, y, down)
        return torch.cat([across - y * roll + x * outwards, down + x * roll + y * outwards], 1)


def centred(points: Tensor, size: tuple[int, int]) -> Tensor:
    """Points `[..., 2, ?, ?]` in pixels, counted from the frame's centre in half widths."""
    height, width = size
    # Filled on the device: a copy from the CPU would be waited for.
    middle = torch.stack([points.new_full((1, 1), 0.5 * (side - 1)) for side in (width, height)])
    return (points - middle) * (2.0 / width)


def splines(times: Tensor, numbers: Tensor) -> Tensor:
    """Cubic B-splines by number `[m]` at times `[...]`: `[..., m]`."""
    away = (KNOTS * times.unsqueeze(-1) - numbers).abs()
    return ((2.0 - away).clamp(min=0.0) ** 3 - 4.0 * (1.0 - away).clamp(min=0.0) ** 3) / 6.0
