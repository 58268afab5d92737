"""The camera's motion through a clip: rotation, translation up to scale and zoom at any time, with uncertainty.

`qrsc.geometry.find_motion` finds it.

Convention
    Axes of the camera: x to the right, y down, z ahead, in the picture as it is stored. Rates are about these axes by
    the right-hand rule: a positive rate about x turns the view up, about y to the right, about z the camera clockwise.
    Times are in frame intervals since the start of the first frame.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qrsc.calibrate.camera_model import KNOTS, MARGIN
from qrsc.calibrate.spline import bspline
from qrsc.geometry.rotations import rotation_matrices
from qrsc.timing import Readout

Array = npt.NDArray[np.float64]

STEPS = 20  # per frame interval, of the integration of rates


@dataclass(frozen=True)
class CameraMotion:
    """The motion of a camera through a clip.

    Attributes:
        path: `[K, 6]`, coefficients of a cubic B-spline: pan, tilt and roll in radians (integrals of the rates about y,
            x and z), then x, y and z in units of a typical depth.
        spread: `[G, K, 6]`, the same from each of G parts of the observations alone.
        frames: how many frames the clip has.
        focal: focal length in pixels.
        focal_given: it was given; otherwise it was found with the motion, which is much less certain.
        depth: typical inverse depth of the picture, with which forward motion enlarges it.
        readout: how the frames were read.
        fps: frames per second; None if unknown.
        size: `(H, W)`.
        noise: standard deviation of the motion of a cell, px.
        tracks: how many points were followed over many frames, to correct the drift of angles that are summed up from
            frame to frame; 0 if there were too few.
        weak: numbers of the frames to whose next one hardly any of these points lead, because something near fills the
            picture. What was found there may be the motion of that thing: standard errors grow by as much.
        focal_assumed: the clip does not determine the focal length, nor how large the angles are that depend on it.
    """

    path: Array
    spread: Array
    frames: int
    focal: float
    focal_given: bool
    depth: float
    readout: Readout
    fps: float | None
    size: tuple[int, int]
    noise: float
    tracks: int = 0
    weak: tuple[int, ...] = ()
    focal_assumed: bool = False

    @property
    def focal_origin(self) -> str:
        """Where the focal length comes from, in words."""
        if self.focal_given:
            return "given"
        return "assumed, since the clip does not determine it" if self.focal_assumed else "found with the motion"

    @property
    def weak_ranges(self) -> str:
        """The weak frames in words: `10 to 28`, or `3, 11 to 15`."""
        starts = [number for number in self.weak if number - 1 not in self.weak]
        ends = [number for number in self.weak if number + 1 not in self.weak]
        ranges = [str(one) if one == other else f"{one} to {other}" for one, other in zip(starts, ends, strict=True)]
        return ", ".join(ranges)

    @property
    def times(self) -> Array:
        """`[N]`, the instants of the middle rows."""
        return np.arange(self.frames, dtype=np.float64) + self.readout.instant("middle")

    def coordinates(self, times: Array) -> Array:
        """`[T, 6]`: integrals of the rates about x, y and z in radians, and x, y, z in units of a typical depth."""
        return spline_basis(times, len(self.path)) @ self.path

    def standard_errors(self, times: Array) -> Array:
        """`[T, 6]`, of `coordinates` about their mean over the clip."""
        basis = spline_basis(times, len(self.path))
        each = np.stack([basis @ path for path in self.spread])
        each = each - each.mean(1, keepdims=True)
        errors: Array = np.hypot(each.std(0, ddof=1) / math.sqrt(len(each)), self._lost(times))
        return errors

    def _lost(self, times: Array) -> Array:
        """`[T, 6]`, standard deviations of `coordinates` about their mean, of what weak frames leave unknown.

        In each of them, the step to the next frame is as uncertain as steps are large in this clip: a random walk.
        """
        passed = self._weak_steps(times)
        walk = np.sqrt(((passed - passed.mean(0)) ** 2).sum(1))
        rotation, translation = self._step_sizes
        lost: Array = walk[:, None] * np.repeat([rotation, translation], 3)
        return lost

    def _weak_steps(self, times: Array) -> Array:
        """`[T, weak]`, how much of the step out of each weak frame is done at each time, 0 to 1."""
        begin = np.array(self.weak, dtype=np.float64) + self.readout.instant("middle")
        passed: Array = np.clip(np.asarray(times)[:, None] - begin, 0.0, 1.0)
        return passed

    @property
    def _step_sizes(self) -> Array:
        """`[2]`, root mean square of the steps from frame to frame: of rotations, and of translations."""
        steps = np.diff(self.coordinates(self.times), axis=0).reshape(-1, 2, 3)
        sizes: Array = np.sqrt((steps**2).mean((0, 2)))
        return sizes

    def rates(self, times: Array, step: float = 1.0 / STEPS) -> Array:
        """`[T, 3]`, mean rates about x, y and z over the `step` before each time, in radians per frame interval."""
        difference = self.coordinates(times)[:, :3] - self.coordinates(times - step)[:, :3]
        rates: Array = difference / step
        return rates

    def rotations(self, times: Array) -> Array:
        """`[T, 3, 3]`, from the camera at each time to the camera at the start of the first frame."""
        last = max(float(np.max(times)), 0.0)
        first = min(float(np.min(times)), 0.0)
        grid = np.arange(math.floor(first * STEPS) - 1, math.ceil(last * STEPS) + 2) / STEPS
        turns = rotation_matrices(self.rates(grid) / STEPS)
        reached = np.empty_like(turns)
        current = np.eye(3)
        for index, turn in enumerate(turns):
            current = current @ turn
            reached[index] = current
        start = reached[int(np.argmin(np.abs(grid)))]
        place = np.clip(((np.asarray(times) - grid[0]) * STEPS).astype(int), 0, len(grid) - 1)
        left = np.asarray(times) - grid[place]
        after: Array = (
            start.T @ reached[place] @ rotation_matrices(self.rates(grid[place] + 1.0 / STEPS) * left[:, None])
        )
        return after

    def positions(self, times: Array) -> Array:
        """`[T, 3]`, of the camera in the axes of the first frame, in units of a typical depth."""
        grid = np.arange(math.floor(min(0.0, float(np.min(times)))), float(np.max(times)) + 0.1, 0.1)
        moved = np.diff(self.coordinates(grid)[:, 3:], axis=0)
        middle = self.rotations(grid[:-1] + 0.05)
        way = np.concatenate([np.zeros((1, 3)), np.cumsum(np.einsum("tij,tj->ti", middle, moved), axis=0)])
        return np.stack([np.interp(times, grid, axis) for axis in (way - way[np.argmin(np.abs(grid))]).T], axis=1)

    def zoom(self, times: Array) -> Array:
        """`[T]`, how much larger the picture is than at the start: by a zoom or by moving ahead, which look alike."""
        ahead = self.coordinates(times)[:, 5] - self.coordinates(np.zeros(1))[:, 5]
        larger: Array = np.exp(self.depth * ahead)
        return larger

    def zoom_standard_errors(self, times: Array) -> Array:
        """`[T]`, of `zoom`; 0 at the start."""
        count = len(self.path)
        ahead = self.spread[:, :, 5] @ (spline_basis(times, count) - spline_basis(np.zeros(1), count)).T  # [G, T]
        walk = np.sqrt(((self._weak_steps(times) - self._weak_steps(np.zeros(1))) ** 2).sum(1))
        errors = np.hypot(ahead.std(0, ddof=1) / math.sqrt(len(ahead)), walk * self._step_sizes[1])
        relative: Array = self.zoom(times) * abs(self.depth) * errors
        return relative


def spline_basis(times: Array, count: int) -> Array:
    """Cubic B-splines `[T, K]` at times in frame intervals."""
    numbers = np.arange(count) - MARGIN
    return bspline(KNOTS * np.asarray(times, dtype=np.float64)[:, None] - numbers)
