"""A camera that turns and moves through a scene with depth, fitted to the motions of a clip together with gamma.

Convention
    Row `y` of frame `k` is exposed at `k + gamma y / H`, so that a cell at the place p of frame k that moves by d was
    seen at two times t1 and t2 that depend on gamma, and

        d = [R(p + d / 2) + nearness T(p + d / 2)] [S(t2) - S(t1)] + error,     S = spline of time

    S has six coordinates: how far the camera has turned (x and y in pixels at the centre, roll in pixels at half a
    width from it) and moved (right, down, ahead; likewise at a nearness of 1), each seen from the camera at that time.
    R holds the bend that the focal length gives to turns. Gamma runs downwards here: motions of other scans are
    mirrored or transposed first.

    The errors of the flows are not independent from cell to cell: per pair of frames, a shear, a bend and a stretch of
    either component are allowed for.

How the unknowns are found is the matter of `equations` and `camera`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qrsc.calibrate.bending import bends, even_filters, penalties
from qrsc.calibrate.cell_motions import ClipMotions
from qrsc.calibrate.depth import DepthGrids
from qrsc.calibrate.spline import bspline, bspline_slope, product

Array = npt.NDArray[np.float64]

KNOTS = 2  # per frame interval
COORDINATES = 6
# Number of the first knot that a pair of frames meets, how many it meets and how many of them either frame does, for
# gammas from -0.12 to 1.1.
FIRST, REACHED, REACHED_ONCE = -2, 9, 7
BLOCK = 16  # knots from one grid of depths to the next, which are solved for together
MARGIN = 12  # knots before the first frame
OUTSIDE = 0.1  # parts of the frame by which a point may land outside it

# How freely the path may bend in the beginning, against the accelerations seen from frame to frame; roll and shifts
# bend less.
STIFFNESS = 0.4
ROLL, SHIFT = 0.3, 0.3
CUTOFF = 2.0  # errors at which a cell counts half as much
SHAPES = 3  # of errors in common, per component: shear, bend, stretch
# Their size at the edge of the picture, in errors of one cell.
COMMON = 0.3


@dataclass(frozen=True)
class RigidFit:
    """Camera, scene and gamma.

    Attributes:
        path: `[N KNOTS, 6]`, coefficients of the spline.
        nearness: `[N, G]`, grids of `DepthGrids`.
        bend: 1 / focal length squared, in half widths.
        gamma: of the readout.
        weight: `[P, C]`, texture times how well the cell agrees.
        error: typical error of a cell in pixels.
    """

    path: Array
    nearness: Array
    bend: float
    gamma: float
    weight: Array
    error: float


class Look(NamedTuple):
    """What a fit leaves over. Cells come last: what is done to all of them then runs through memory in order."""

    values: Array  # [P, 9, C], splines at the two times of each cell, their difference
    slopes: Array  # [P, 9, C], how gamma changes it
    steps: Array  # [P, 6, C]
    fields: Array  # [P, 2, 6, C]
    residual: Array  # [P, 2, C], errors in common included
    own: Array  # [P, 2, C], and without them
    weight: Array  # [P, C], that cells deserve
    cost: float  # with cells that go their own way cut off
    held: float  # with the weights as they are


class RigidModel:
    """The motions of a clip, ready to be fitted from a gamma nearby; the scan runs downwards."""

    def __init__(self, motions: ClipMotions) -> None:
        height, width = motions.size
        self.pairs, self.cells = motions.weight.shape
        self.grid = motions.grid
        self.shift = np.ascontiguousarray(motions.shift.transpose(0, 2, 1))  # [P, 2, C]
        middle = np.array([(width - 1) / 2, (height - 1) / 2])
        place = (motions.place + 0.5 * motions.shift - middle) / (0.5 * max(height, width))
        self.x, self.y = (np.ascontiguousarray(place[..., part]) for part in (0, 1))  # [P, C] each
        start = (motions.place[..., 1] + 0.5) / height
        end = start + motions.shift[..., 1] / height
        self.weight = np.where((end > -OUTSIDE) & (end < 1.0 + OUTSIDE), motions.weight, 0.0)
        self.start, self.end = (np.clip(part, -OUTSIDE, 1.0 + OUTSIDE) for part in (start, end))
        down = 1.5 * self.y  # about -1 to 1 over the picture, as x is
        self.shapes = np.stack([down, down**2 - 1.0 / 3.0, self.x], axis=1)  # [P, 3, C]
        self.first = np.arange(self.pairs) * KNOTS + FIRST + MARGIN
        self.blocks = -(-((self.pairs + 4) * KNOTS + 2 * MARGIN) // BLOCK)
        times = (np.arange(self.blocks) * BLOCK - FIRST - MARGIN) / KNOTS
        self.depth = DepthGrids(motions, self.first, times, BLOCK)
        across, down = _changes(motions)
        most = max(across, down)
        allowed = np.array([across, down, ROLL**2 * most, *[SHIFT**2 * most] * 3])
        self.proportions = np.sqrt(allowed / most)  # [6], of the coordinates' bends
        self.change = math.sqrt(across + down)
        self.knots = self.first[:, None] + np.arange(REACHED)  # [P, 9], that each pair meets
        self.expect(even_filters(allowed / (STIFFNESS * KNOTS**4)))
        # From one look to the next, gamma mostly stays as it is; both likelihoods begin with the same three.
        self._splines = lru_cache(maxsize=6)(self._splines_at)

    def expect(self, filters: Array) -> None:
        """From now on, paths are expected to come out of given filters, `[6, L]`, with a variance of 1."""
        self.filters = filters
        self.bending = penalties(filters, self.blocks, BLOCK)  # [N, 2 K, 2 K], K coefficients in a block

    def at_pairs(self, path: Array) -> Array:
        """The part of a path that each pair meets: `[P, 6, 9]`."""
        met: Array = path[self.knots].transpose(0, 2, 1)
        return met

    def _splines_at(self, gamma: float) -> tuple[Array, Array]:
        """Splines at the second time of each cell less those at the first, and how gamma changes that."""
        values = np.zeros((self.pairs, REACHED, self.cells))
        slopes = np.zeros_like(values)
        numbers = FIRST + np.arange(REACHED_ONCE, dtype=np.float64)[:, None]
        # The second frame meets the same knots as the first, but a frame later.
        for rows, met, sign in ((self.start, slice(REACHED_ONCE), -1.0), (self.end, slice(KNOTS, None), 1.0)):
            away = (KNOTS * gamma) * rows[:, None] - numbers  # [P, 7, C]
            values[:, met] += sign * bspline(away)
            slopes[:, met] += (sign * KNOTS) * rows[:, None] * bspline_slope(away)
        return values, slopes

    def _fields(self, nearness: Array, bend: float) -> Array:
        """How each coordinate of the path moves each cell: `[P, 2, 6, C]`."""
        x, y, near = self.x, self.y, nearness
        cross, nothing = bend * x * y, np.zeros_like(x)
        along_x = [1.0 + bend * x**2, cross, -y, near, nothing, near * x]
        along_y = [cross, 1.0 + bend * y**2, x, nothing, near, near * y]
        return np.stack(along_x + along_y, axis=1).reshape(self.pairs, 2, COORDINATES, self.cells)

    def look(self, fit: RigidFit) -> Look:
        """What a fit leaves over."""
        values, slopes = self._splines(fit.gamma)
        steps = product(self.at_pairs(fit.path), values)
        fields = self._fields(self.depth.at_cells(fit.nearness), fit.bend)
        # A quarter of the time of a product that is summed up afterwards, as everywhere that cells come last.
        residual = self.shift - np.einsum("pkdc,pdc->pkc", fields, steps)
        return self._judged(fit, values, slopes, steps, fields, residual)

    def look_again(self, fit: RigidFit, look: Look) -> Look:
        """What a fit leaves over that differs from the one looked at by no more than its weights and its error."""
        return self._judged(fit, look.values, look.slopes, look.steps, look.fields, look.residual)

    def _judged(
        self, fit: RigidFit, values: Array, slopes: Array, steps: Array, fields: Array, residual: Array
    ) -> Look:
        weighted = self.shapes * fit.weight[:, None]
        normal = product(weighted, self.shapes.transpose(0, 2, 1)) + np.eye(SHAPES) / COMMON**2
        pull = product(weighted, residual.transpose(0, 2, 1))
        common = np.linalg.solve(normal, pull).astype(np.float64)  # [P, 3, 2]
        own = residual - product(common.transpose(0, 2, 1), self.shapes)
        ratio = (own**2).sum(1) / (CUTOFF * fit.error) ** 2
        away = self.depth.departure(fit.nearness)
        others = (
            ((common / (COMMON * fit.error)) ** 2).sum()
            + (bends(fit.path, self.filters) ** 2).sum()
            + (away[:, None] @ self.depth.stiffness @ away[..., None]).sum()
        )
        cost, held = (
            float(others + CUTOFF**2 * cells.sum())
            for cells in (self.weight * ratio / (1.0 + ratio), fit.weight * ratio)
        )
        return Look(values, slopes, steps, fields, residual, own, self.weight / (1.0 + ratio) ** 2, cost, held)


def _changes(motions: ClipMotions) -> Array:
    """Mean squares of the change of the dominant motion from frame to frame, `[2]`, outliers cut off."""
    change = np.abs(np.diff(motions.dominant(), axis=0))
    squares: Array = (np.minimum(change, 3.0 * np.median(change, axis=0) + 1e-9) ** 2).mean(0)
    return np.maximum(squares, 1e-4)
