"""Steps of the inversion on a CPU in single precision, where points that have settled are left alone.

Convention
    As `qrsc.warp.invert`, whose `_settle_together` is the same in a few lines, for all devices. Here planes are numpy
    arrays: a band of rows goes through the steps in buffers that stay in the processor's cache, which takes half the
    time of tensors that are allocated anew. Points are known by their number, `y W + x`.
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

Numbers = npt.NDArray[np.int64]

# A step longer than this, in pixels, from where a pixel landed leads to another surface.
MAX_LEAP = 0.5
# A point that moved by less than this, in pixels, is where it belongs; single precision resolves 6e-5 of 640.
SETTLED = 1e-3
# Steps that all points take; later ones are for those that still move: of 640x480 points 6 in 100.
WHOLE_STEPS = 2
# Points that are looked at together: two megabytes with all that is computed on the way.
BAND = 65536
LIST = 16384  # OpenCV reads no longer rows than `opencv.REMAP_LIMIT`
NOWHERE = -(2**62)
NUMBER_BITS = 0xFFFFFFFF


def settle(fields: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """The inverses of fields `[B, 2, H, W]`, and how far each point moved in its last step, `[B, 1, H, W]`.

    For fields that `opencv.remaps`.
    """
    inverses, moves = torch.empty_like(fields), torch.empty_like(fields[:, :1])
    for field, inverse, moved in zip(fields, inverses, moves, strict=True):
        _Inversion(field.contiguous().numpy()).run(steps, inverse.numpy(), moved[0].numpy())
    return inverses, moves


class _Inversion:
    """One field `[2, H, W]` on its way to its inverse."""

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
        self.numbers = [np.empty(shape, np.int64) for _ in range(2)]

    def run(self, steps: int, inverse: Plane, moved: Plane) -> None:
        """Fill `inverse` `[2, H, W]` and `moved` `[H, W]`."""
        best = self._landings()
        for top, end in self._bands():
            source = np.bitwise_and(best[top:end], NUMBER_BITS, out=self.numbers[0][: end - top])
            here, landed = inverse[:, top:end], best[top:end] >= 0
            for plane, target in zip(self.negated, here, strict=True):
                np.take(plane, source, out=target, mode="clip")
            for _ in range(min(steps, WHOLE_STEPS)):
                self._step(here, self.x, self.y[top:end], landed, moved[top:end])
        moving = np.flatnonzero(moved > SETTLED)
        for _ in range(steps - WHOLE_STEPS):
            if len(moving) == 0:
                break
            moving = np.concatenate([self._step_list(part, inverse, moved, best) for part in _parts(moving)])

    def _bands(self) -> Iterator[tuple[int, int]]:
        return ((top, min(top + self.rows, self.height)) for top in range(0, self.height, self.rows))

    def _landings(self) -> Numbers:
        """`[H, W]`: in its lower 32 bits the pixel each point starts from, negative where none lands.

        Of several pixels that land on a point, the one with the longest way wins, then the later one.
        """
        height, width = self.height, self.width
        best = unlanded(height, width, torch.device("cpu")).clone()
        count = np.arange(self.rows * width).reshape(self.rows, width)
        for top, end in self._bands():
            across, down = self.field[:, top:end]
            x, y, *_ = (plane[: end - top] for plane in self.planes)
            place, rank = (plane[: end - top] for plane in self.numbers)
            # Places in a picture with a rim of one pixel, which takes what lands outside, and NaN.
            for way, home, size, out in ((across, self.x, width, x), (down, self.y[top:end], height, y)):
                np.add(way, home, out=out)
                self._cleaned(out, -1.0)
                np.clip(np.rint(out, out=out), -1, size, out=out)
            np.copyto(place, y, casting="unsafe")
            np.copyto(rank, x, casting="unsafe")
            place += 1
            place *= width + 2
            place += rank
            place += 1
            np.multiply(across, across, out=x)
            x += np.multiply(down, down, out=y)
            self._cleaned(x, 0.0)
            # Positive single-precision numbers are in the order of their bits.
            np.copyto(rank, x.view(np.int32))
            rank <<= 32
            rank += count[: end - top]
            rank += top * width
            places, ranks = (torch.from_numpy(part).view(-1) for part in (place, rank))
            best.view(-1).scatter_reduce_(0, places, ranks, "amax")
        landings: Numbers = best[1:-1, 1:-1].numpy()
        return landings

    def _step(self, here: Plane, home_x: Plane, home_y: Plane, landed: npt.NDArray[np.bool_], moved: Plane) -> None:
        """One step of some points.

        Args:
            here: `[2, h, w]`, the inverse so far, which is moved on.
            home_x, home_y: where the points are; of a shape that goes with `[h, w]`.
            landed: `[h, w]`, whether they started from a pixel that lands there.
            moved: `[h, w]`, gets how far the step would have led.
        """
        rows, columns = moved.shape
        x, y, onward_x, onward_y = (plane.reshape(-1)[: rows * columns].reshape(rows, columns) for plane in self.planes)
        for way, home, size, out in ((here[0], home_x, self.width, x), (here[1], home_y, self.height, y)):
            np.add(way, home, out=out)
            self._cleaned(out, 0.0)
            np.clip(out, 0, size - 1, out=out)
        remap_plane(self.negated[0], x, y, onward_x)
        remap_plane(self.negated[1], x, y, onward_y)
        np.abs(np.subtract(onward_x, here[0], out=x), out=x)
        np.abs(np.subtract(onward_y, here[1], out=y), out=y)
        np.maximum(x, y, out=moved)
        leaping = moved > MAX_LEAP
        leaping &= landed
        if leaping.any():  # at few points: choosing among all would cost a pass
            onward_x[leaping], onward_y[leaping] = here[0][leaping], here[1][leaping]
        here[0], here[1] = onward_x, onward_y

    def _step_list(self, points: Numbers, inverse: Plane, moved: Plane, best: Numbers) -> Numbers:
        """One step of the points with these numbers; those that still move come back."""
        y, x = np.divmod(points, self.width)
        before = inverse.reshape(2, 1, -1)[..., points]
        here, step = before.copy(), np.empty((1, len(points)), np.float32)
        self._step(here, x[None].astype(np.float32), y[None].astype(np.float32), best[y, x][None] >= 0, step)
        inverse.reshape(2, -1)[:, points], moved.reshape(-1)[points] = here[:, 0], step[0]
        # A leap that was not taken will not be next time: the point stays.
        still: Numbers = points[(step[0] > SETTLED) & (here != before).any((0, 1))]
        return still

    def _cleaned(self, values: npt.NDArray[Any], instead: float) -> None:
        if not self.finite:
            np.nan_to_num(values, copy=False, nan=instead)


def _parts(numbers: Numbers) -> list[Numbers]:
    return [numbers[start : start + LIST] for start in range(0, len(numbers), LIST)]


@lru_cache(4)
def unlanded(height: int, width: int, device: torch.device) -> Tensor:
    """`[H + 2, W + 2]`, before anything has landed: the number of each pixel, below zero so that it is told apart."""
    number = torch.arange(height * width, device=device).reshape(height, width) + NOWHERE
    return F.pad(number, (1, 1, 1, 1))
