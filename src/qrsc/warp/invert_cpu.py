"""The fixed-point iteration on a CPU in float32, which skips points that have converged.

Convention
    As `qrsc.warp.invert`, whose `_iterate` is the same in a few lines, for all devices. Here planes are numpy arrays: a
    band of rows goes through the iterations in buffers that stay in the CPU's cache, which takes half the time of newly
    allocated tensors. Points are given by their index, `y W + x`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.backend.opencv import Plane, remap_plane

Indices = npt.NDArray[np.int64]

# A step longer than this, in pixels, from where a pixel landed leads to another surface.
MAX_JUMP = 0.5
# A point whose step is shorter than this, in pixels, has converged; at 640, float32 resolves 6e-5.
CONVERGED = 1e-3
# Steps that all points take; further ones are for points that have not converged: 6 % of those of 640x480.
WHOLE_STEPS = 2
# Points in a band: two megabytes with all intermediate results.
BAND = 65536
LIST = 16384  # points in a list of those that still move; must be under `opencv.REMAP_LIMIT`
NOWHERE = -(2**62)
INDEX_BITS = 0xFFFFFFFF


def iterate_on_cpu(fields: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """The inverses of fields `[B, 2, H, W]`, and the length of each point's last step, `[B, 1, H, W]`.

    The fields must satisfy `opencv.supports_remap`.
    """
    inverses, moves = torch.empty_like(fields), torch.empty_like(fields[:, :1])
    for field, inverse, moved in zip(fields, inverses, moves, strict=True):
        _Inversion(field.contiguous().numpy()).run(steps, inverse.numpy(), moved[0].numpy())
    return inverses, moves


class _Inversion:
    """The inversion of one field `[2, H, W]`, with its buffers."""

    def __init__(self, field: Plane) -> None:
        self.height, self.width = field.shape[1:]
        self.field = field
        self.negated = np.negative(field)
        self.finite = bool(np.isfinite(field).all())
        self.rows = min(self.height, max(1, BAND // self.width))
        self.x = np.arange(self.width, dtype=np.float32)
        self.y = np.arange(self.height, dtype=np.float32)[:, None]
        shape = (self.rows, self.width)
        self.planes = [np.empty(shape, np.float32) for _ in range(4)]
        self.indices = [np.empty(shape, np.int64) for _ in range(2)]

    def run(self, steps: int, inverse: Plane, moved: Plane) -> None:
        """Fill `inverse` `[2, H, W]` and `moved` `[H, W]`."""
        best = self._landings()
        for top, end in self._bands():
            source = np.bitwise_and(best[top:end], INDEX_BITS, out=self.indices[0][: end - top])
            here, landed = inverse[:, top:end], best[top:end] >= 0
            for plane, target in zip(self.negated, here, strict=True):
                np.take(plane, source, out=target, mode="clip")
            for _ in range(min(steps, WHOLE_STEPS)):
                self._step(here, self.x, self.y[top:end], landed, moved[top:end])
        moving = np.flatnonzero(moved > CONVERGED)
        for _ in range(steps - WHOLE_STEPS):
            if len(moving) == 0:
                break
            moving = np.concatenate([self._step_list(part, inverse, moved, best) for part in _parts(moving)])

    def _bands(self) -> Iterator[tuple[int, int]]:
        return ((top, min(top + self.rows, self.height)) for top in range(0, self.height, self.rows))

    def _landings(self) -> Indices:
        """`[H, W]`: the pixel each point starts from, in the lower 32 bits; negative where none lands.

        Of several pixels that land on a point, the one with the largest displacement wins, then the later one.
        """
        height, width = self.height, self.width
        best = empty_landings(height, width, torch.device("cpu")).clone()
        count = np.arange(self.rows * width).reshape(self.rows, width)
        for top, end in self._bands():
            across, down = self.field[:, top:end]
            x, y, *_ = (plane[: end - top] for plane in self.planes)
            place, rank = (plane[: end - top] for plane in self.indices)
            # Indices into an image padded by one pixel, whose border collects NaN and what lands outside.
            for displacement, origin, size, out in ((across, self.x, width, x), (down, self.y[top:end], height, y)):
                np.add(displacement, origin, out=out)
                self._replace_nan(out, -1.0)
                np.clip(np.rint(out, out=out), -1, size, out=out)
            np.copyto(place, y, casting="unsafe")
            np.copyto(rank, x, casting="unsafe")
            place += 1
            place *= width + 2
            place += rank
            place += 1
            np.multiply(across, across, out=x)
            x += np.multiply(down, down, out=y)
            self._replace_nan(x, 0.0)
            # The bits of non-negative float32 numbers, read as integers, have the same order.
            np.copyto(rank, x.view(np.int32))
            rank <<= 32
            rank += count[: end - top]
            rank += top * width
            places, ranks = (torch.from_numpy(part).view(-1) for part in (place, rank))
            best.view(-1).scatter_reduce_(0, places, ranks, "amax")
        landings: Indices = best[1:-1, 1:-1].numpy()
        return landings

    def _step(self, here: Plane, origin_x: Plane, origin_y: Plane, landed: npt.NDArray[np.bool_], moved: Plane) -> None:
        """One iteration for some points, in place.

        Args:
            here: `[2, h, w]`, the inverse so far, which is updated.
            origin_x, origin_y: coordinates of the points; shapes that broadcast to `[h, w]`.
            landed: `[h, w]`, whether they started from a pixel that lands there.
            moved: `[h, w]`, receives the length of the step, also of a rejected one.
        """
        rows, columns = moved.shape
        x, y, onward_x, onward_y = (plane.reshape(-1)[: rows * columns].reshape(rows, columns) for plane in self.planes)
        for displacement, origin, size, out in (
            (here[0], origin_x, self.width, x),
            (here[1], origin_y, self.height, y),
        ):
            np.add(displacement, origin, out=out)
            self._replace_nan(out, 0.0)
            np.clip(out, 0, size - 1, out=out)
        remap_plane(self.negated[0], x, y, onward_x)
        remap_plane(self.negated[1], x, y, onward_y)
        np.abs(np.subtract(onward_x, here[0], out=x), out=x)
        np.abs(np.subtract(onward_y, here[1], out=y), out=y)
        np.maximum(x, y, out=moved)
        jumping = moved > MAX_JUMP
        jumping &= landed
        if jumping.any():  # few points: `np.where` over all of them would cost a pass
            onward_x[jumping], onward_y[jumping] = here[0][jumping], here[1][jumping]
        here[0], here[1] = onward_x, onward_y

    def _step_list(self, points: Indices, inverse: Plane, moved: Plane, best: Indices) -> Indices:
        """One iteration for the points with these indices; returns those that have not converged."""
        y, x = np.divmod(points, self.width)
        before = inverse.reshape(2, 1, -1)[..., points]
        here, step = before.copy(), np.empty((1, len(points)), np.float32)
        self._step(here, x[None].astype(np.float32), y[None].astype(np.float32), best[y, x][None] >= 0, step)
        inverse.reshape(2, -1)[:, points], moved.reshape(-1)[points] = here[:, 0], step[0]
        # A rejected step would be rejected again: the point stays where it is.
        still: Indices = points[(step[0] > CONVERGED) & (here != before).any((0, 1))]
        return still

    def _replace_nan(self, values: npt.NDArray[Any], instead: float) -> None:
        if not self.finite:
            np.nan_to_num(values, copy=False, nan=instead)


def _parts(indices: Indices) -> list[Indices]:
    return [indices[start : start + LIST] for start in range(0, len(indices), LIST)]


@lru_cache(4)
def empty_landings(height: int, width: int, device: torch.device) -> Tensor:
    """`[H + 2, W + 2]`, before any pixel has landed: each pixel's own index, made negative as a mark of that."""
    index = torch.arange(height * width, device=device).reshape(height, width) + NOWHERE
    return F.pad(index, (1, 1, 1, 1))
