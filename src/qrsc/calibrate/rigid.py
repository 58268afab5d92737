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

How the unknowns are found is the matter of `camera`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qrsc.calibrate.bending import bends, even_filters, penalties
from qrsc.calibrate.depth import PLACES, DepthGrids
from qrsc.calibrate.motions import ClipMotions
from qrsc.calibrate.spline import SUPPORT, bspline_slopes, bspline_values, component_products, product

Array = npt.NDArray[np.float64]

KNOTS = 2  # per frame interval
COORDINATES = 6
# Knots that a pair of frames meets, and number of the first, for gammas from -0.12 to 1.1.
FIRST, REACHED = -2, 9
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
    """What a fit leaves over."""

    values: Array  # [P, C, 9], splines at the two times of each cell, their difference
    slopes: Array  # [P, C, 9], how gamma changes it
    steps: Array  # [P, C, 6]
    fields: Array  # [P, C, 2, 6]
    residual: Array  # [P, C, 2], errors in common included
    own: Array  # [P, C, 2], and without them
    weight: Array  # [P, C], that cells deserve
    cost: float  # with cells that go their own way cut off
    held: float  # with the weights as they are


class System(NamedTuple):
    """Normal equations of a step: path and nearness by blocks, bordered by gamma and bend."""

    diagonal: Array  # [N, M, M]
    below: Array  # [N - 1, M, M]
    right: Array  # [N, M, 3], of the residual, gamma and bend
    corner: Array  # [3, 3]
    by_nearness: Array  # [P, C, 2]
    by_gamma: Array  # [P, C, 2]
    by_bend: Array  # [P, C, 2]
    log_determinant: float  # of the errors in common, which are eliminated


class RigidModel:
    """The motions of a clip, ready to be fitted from a gamma nearby; the scan runs downwards."""

    def __init__(self, motions: ClipMotions) -> None:
        height, width = motions.size
        self.pairs, self.cells = motions.weight.shape
        self.shift = motions.shift
        middle = np.array([(width - 1) / 2, (height - 1) / 2])
        place = (motions.place + 0.5 * motions.shift - middle) / (0.5 * max(height, width))
        self.x, self.y = np.moveaxis(place, -1, 0)  # [P, C] each
        start = (motions.place[..., 1] + 0.5) / height
        end = start + motions.shift[..., 1] / height
        self.weight = np.where((end > -OUTSIDE) & (end < 1.0 + OUTSIDE), motions.weight, 0.0)
        self.start, self.end = (np.clip(part, -OUTSIDE, 1.0 + OUTSIDE) for part in (start, end))
        down = 1.5 * self.y  # about -1 to 1 over the picture, as x is
        self.shapes = np.stack([down, down**2 - 1.0 / 3.0, self.x], axis=-1)  # [P, C, 3]
        self.first = np.arange(self.pairs) * KNOTS + FIRST + MARGIN
        self.blocks = -(-((self.pairs + 4) * KNOTS + 2 * MARGIN) // BLOCK)
        times = (np.arange(self.blocks) * BLOCK - FIRST - MARGIN) / KNOTS
        self.depth = DepthGrids(motions, self.first, times, BLOCK)
        self.block = self.first // BLOCK
        across, down = _changes(motions)
        most = max(across, down)
        allowed = np.array([across, down, ROLL**2 * most, *[SHIFT**2 * most] * 3])
        self.proportions = np.sqrt(allowed / most)  # [6], of the coordinates' bends
        self.change = math.sqrt(across + down)
        self._knots = self.first[:, None] + np.arange(REACHED)
        self.expect(even_filters(allowed / (STIFFNESS * KNOTS**4)))
        by_component = np.zeros((self.pairs, self.cells, 2, 2, SHAPES))
        by_component[:, :, 0, 0] = by_component[:, :, 1, 1] = self.shapes
        self._by_component = by_component.reshape(self.pairs, self.cells, 2, -1)

    def expect(self, filters: Array) -> None:
        """From now on, paths are expected to come out of given filters, `[6, L]`, with a variance of 1."""
        self._filters = filters
        self._bending = penalties(filters, self.blocks, BLOCK)

    def at_pairs(self, path: Array) -> Array:
        """The part of a path that each pair meets: `[P, 9, 6]`."""
        met: Array = path[self._knots]
        return met

    # --- what a fit says about the cells ---

    def _splines(self, gamma: float) -> tuple[Array, Array]:
        values = np.zeros((self.pairs * self.cells, REACHED))
        slopes = np.zeros_like(values)
        every = np.arange(len(values))
        for rows, whole, sign in ((self.end, 1.0, 1.0), (self.start, 0.0, -1.0)):
            times = ((whole + gamma * rows) * KNOTS).reshape(-1)
            spline, steep = bspline_values(times), bspline_slopes(times) * (KNOTS * rows).reshape(-1, 1)
            for part in range(SUPPORT):
                values[every, spline.first - FIRST + part] += sign * spline.values[:, part]
                slopes[every, spline.first - FIRST + part] += sign * steep[:, part]
        shape = (self.pairs, self.cells, REACHED)
        return values.reshape(shape), slopes.reshape(shape)

    def _fields(self, nearness: Array, bend: float) -> Array:
        """How each coordinate of the path moves each cell: `[P, C, 2, 6]`."""
        x, y, near = self.x, self.y, nearness
        cross, nothing = bend * x * y, np.zeros_like(x)
        along_x = np.stack([1.0 + bend * x**2, cross, -y, near, nothing, near * x], axis=-1)
        along_y = np.stack([cross, 1.0 + bend * y**2, x, nothing, near, near * y], axis=-1)
        return np.stack([along_x, along_y], axis=-2)

    def look(self, fit: RigidFit) -> Look:
        """What a fit leaves over."""
        values, slopes = self._splines(fit.gamma)
        steps = product(values, self.at_pairs(fit.path))
        fields = self._fields(self.depth.at_cells(fit.nearness), fit.bend)
        residual = self.shift - (fields * steps[..., None, :]).sum(-1)
        weighted = (self.shapes * fit.weight[..., None]).transpose(0, 2, 1)
        normal = product(weighted, self.shapes) + np.eye(SHAPES) / COMMON**2
        common = np.linalg.solve(normal, product(weighted, residual)).astype(np.float64)  # [P, 3, 2]
        own = residual - product(self.shapes, common)
        ratio = (own**2).sum(-1) / (CUTOFF * fit.error) ** 2
        away = self.depth.departure(fit.nearness)
        others = (
            ((common / (COMMON * fit.error)) ** 2).sum()
            + (bends(fit.path, self._filters) ** 2).sum()
            + (away[:, None] @ self.depth.stiffness @ away[..., None]).sum()
        )
        cost, held = (
            float(others + CUTOFF**2 * cells.sum())
            for cells in (self.weight * ratio / (1.0 + ratio), fit.weight * ratio)
        )
        return Look(values, slopes, steps, fields, residual, own, self.weight / (1.0 + ratio) ** 2, cost, held)

    # --- one step ---

    def system(self, fit: RigidFit, look: Look) -> System:
        """The equations of a step from a fit."""
        x, y, steps = self.x, self.y, look.steps
        near = np.stack([steps[..., 3] + x * steps[..., 5], steps[..., 4] + y * steps[..., 5]], axis=-1)
        gamma = (look.fields * product(look.slopes, self.at_pairs(fit.path))[..., None, :]).sum(-1)
        along = x * steps[..., 0] + y * steps[..., 1]
        bend = np.stack([x * along, y * along], axis=-1)
        rest = np.concatenate([np.stack([look.residual, gamma, bend], axis=-1), self._by_component], axis=-1)
        full, square = self._equations(fit.weight, look, near, rest)
        # The common errors of a pair meet only that pair's equations: they are eliminated pair by pair.
        coupling = full[..., -2 * SHAPES :]
        own = square[:, 3:, 3:] + np.eye(2 * SHAPES) / COMMON**2
        shared = product(coupling, np.linalg.solve(own, coupling.transpose(0, 2, 1)).astype(np.float64))
        reduced = full[..., : -2 * SHAPES] - shared
        blocks, right = self._gathered(fit, near, reduced[:, :-3])
        size = right.shape[1]
        diagonal = blocks[:, :size, :size].copy()
        diagonal[1:] += blocks[:-1, size:, size:]
        # Where the path as a whole lies is arbitrary.
        diagonal += np.eye(size) * (1e-9 + 5e-8 * fit.error**2 * float((self._filters[:3] ** 2).sum()))
        corner = reduced[:, -3:, -3:].sum(0)
        determinant = float(np.linalg.slogdet(own)[1].sum())
        return System(diagonal, blocks[:-1, size:, :size], right, corner, near, gamma, bend, determinant)

    def _equations(self, weight: Array, look: Look, near: Array, rest: Array) -> tuple[Array, Array]:
        """Normal equations of each pair: of path, two grids and the first three of the rest, and of the rest alone.

        Args:
            weight: `[P, C]`.
            look: at the fit.
            near: `[P, C, 2]`, what nearness does to each cell.
            rest: `[P, C, 2, 3 + 6]`, what is left of it, what gamma and the bend do to it, and errors in common.

        Returns:
            `[P, U + 3, U + 9]` with U = 54 + 2 G, the grids' part with themselves left out; and `[P, 9, 9]`.
        """
        pairs, cells = weight.shape
        fields, values, grids = look.fields * weight[..., None, None], look.values, self.depth.matrix
        twice = (values[..., :, None] * values[..., None, :]).reshape(pairs, cells, -1).transpose(0, 2, 1)
        path = product(twice, component_products(fields, look.fields)).reshape(
            pairs, REACHED, REACHED, COORDINATES, COORDINATES
        )
        count, unknowns = REACHED * COORDINATES, REACHED * COORDINATES + 2 * PLACES
        full = np.zeros((pairs, unknowns + 3, unknowns + rest.shape[-1]))
        full[:, :count, :count] = path.transpose(0, 1, 3, 2, 4).reshape(pairs, count, count)
        through = component_products(fields, near[..., None])  # [P, C, 6]
        through = (values[..., None] * through[:, :, None]).reshape(pairs, cells, -1)
        full[:, :count, count:unknowns] = product(through.transpose(0, 2, 1), grids)
        full[:, count:unknowns, :count] = full[:, :count, count:unknowns].transpose(0, 2, 1)
        to_rest = product(values.transpose(0, 2, 1), component_products(fields, rest))  # [P, 9, 6 * 9]
        full[:, :count, unknowns:] = to_rest.reshape(pairs, count, -1)
        weighted = rest * weight[..., None, None]
        pull = component_products(near[..., None], weighted)  # [P, C, 9]
        full[:, count:unknowns, unknowns:] = product(grids.transpose(0, 2, 1), pull)
        flat = (pairs, 2 * cells, -1)
        square = product(rest.reshape(flat).transpose(0, 2, 1), weighted.reshape(flat))
        full[:, unknowns:, unknowns:] = square[:, :3]
        return full, square

    def _gathered(self, fit: RigidFit, near: Array, equations: Array) -> tuple[Array, Array]:
        """Equations of all pairs by blocks, `[N, 2 M, 2 M]` and `[N, M, 3]`, with the pull of path and scene."""
        knots, scale = BLOCK * COORDINATES, fit.error**2
        size, count = knots + PLACES, REACHED * COORDINATES
        # Paths of both blocks first, then grids of both: what a pair meets then lies in two pieces.
        blocks, right = np.zeros((self.blocks, 2 * size, 2 * size)), np.zeros((self.blocks, 2 * size, 3))
        grids = slice(2 * knots, None)
        for pair, (block, first) in enumerate(zip(self.block, self.first % BLOCK * COORDINATES, strict=True)):
            met = slice(first, first + count)
            blocks[block, met, met] += equations[pair, :count, :count]
            blocks[block, met, grids] += equations[pair, :count, count:-3]
            blocks[block, grids, met] += equations[pair, count:, :count]
            blocks[block, grids, grids] += equations[pair, count:, count:-3]
            right[block, met] += equations[pair, :count, -3:]
            right[block, grids] += equations[pair, count:, -3:]
        away = self.depth.departure(fit.nearness)
        blocks[:, grids, grids] += self.depth.gathered(fit.weight * (near**2).sum(-1)) + self.depth.stiffness * scale
        right[:, grids, 0] -= scale * (self.depth.stiffness @ away[..., None])[..., 0]
        blocks[:, : 2 * knots, : 2 * knots] += self._bending * scale
        path = fit.path.reshape(self.blocks, knots)
        path = np.concatenate([path, np.vstack([path[1:], np.zeros_like(path[:1])])], axis=1)
        right[:, : 2 * knots, 0] -= scale * (self._bending @ path[..., None])[..., 0]
        by_block = np.concatenate(
            [
                np.arange(knots),
                2 * knots + np.arange(PLACES),
                knots + np.arange(knots),
                2 * knots + PLACES + np.arange(PLACES),
            ]
        )
        blocks, right = blocks[:, by_block[:, None], by_block], right[:, by_block]
        vector = right[:, :size].copy()
        vector[1:] += right[:-1, size:]
        return blocks, vector


def _changes(motions: ClipMotions) -> Array:
    """Mean squares of the change of the dominant motion from frame to frame, `[2]`, outliers cut off."""
    change = np.abs(np.diff(motions.dominant(), axis=0))
    squares: Array = (np.minimum(change, 3.0 * np.median(change, axis=0) + 1e-9) ** 2).mean(0)
    return np.maximum(squares, 1e-4)
