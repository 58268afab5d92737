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

All of it is found at once by Gauss-Newton steps. The path is integrated out, not only fitted: a path that is merely the
likeliest bends less than the true one, and gamma, the ratio of shear and acceleration, then comes out too large.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qrsc.calibrate.depth import PLACES, DepthGrids
from qrsc.calibrate.motions import ClipMotions
from qrsc.calibrate.spline import (
    SUPPORT,
    bspline_slopes,
    bspline_values,
    component_products,
    factored,
    log_determinant,
    product,
    solve_factored,
    straightening,
)

Array = npt.NDArray[np.float64]

KNOTS = 2  # per frame interval
COORDINATES = 6
# Knots that a pair of frames meets, and number of the first, for gammas from LEAST to MOST.
FIRST, REACHED = -2, 9
LEAST, MOST = -0.12, 1.1
BLOCK = 16  # knots from one grid of depths to the next, which are solved for together
MARGIN = 12  # knots before the first frame
OUTSIDE = 0.1  # parts of the frame by which a point may land outside it

# How freely the path may bend, against the accelerations seen from frame to frame; roll and shifts bend less.
STIFFNESS = 0.4
ROLL, SHIFT = 0.3, 0.3
SMALLEST_ERROR = 0.03  # pixels
CUTOFF = 2.0  # errors at which a cell counts half as much
SHAPES = 3  # of errors in common, per component: shear, bend, stretch
COMMON = 0.5  # their size at the edge of the picture, in errors of one cell
# Part of the logarithm of the determinant that stands for the path being integrated out. All of it would be right if
# the errors of cells were independent and the path were as free as assumed; it then overcorrects simulated clips.
INTEGRATED = 0.5
DETERMINANT_STEP = 0.03
LARGEST_BEND = 1.2
LONGEST_STEP = 0.1
CALM = 1e-3  # steps of gamma that no longer matter, three in a row
SAME_ERROR = 0.03  # change of the error of a cell that no longer matters
PARTS = 12  # of the clip, whose disagreement also says how sure the estimate is
# Neighbouring flows err alike in ways that no fit of one clip can see: in simulated clips of 59 pairs, gamma is off by
# about this part of a cell's error, taken over how much the motion changes from frame to frame.
SHARED = 0.5
SHARED_PAIRS = 59


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


class _Look(NamedTuple):
    """What a fit leaves over."""

    values: Array  # [P, C, 9], splines at the two times of each cell, their difference
    slopes: Array  # [P, C, 9], how gamma changes it
    steps: Array  # [P, C, 6]
    fields: Array  # [P, C, 2, 6]
    residual: Array  # [P, C, 2], errors in common included
    own: Array  # [P, C, 2], and without them
    weight: Array  # [P, C], that cells deserve
    cost: float


class _System(NamedTuple):
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
        self.stiff = STIFFNESS * KNOTS**4 / allowed  # [6], pull of the path's second differences towards 0
        self.change = math.sqrt(across + down)
        self._knots = self.first[:, None] + np.arange(REACHED)
        self._straight = straightening(self.stiff, self.blocks, BLOCK)
        by_component = np.zeros((self.pairs, self.cells, 2, 2, SHAPES))
        by_component[:, :, 0, 0] = by_component[:, :, 1, 1] = self.shapes
        self._by_component = by_component.reshape(self.pairs, self.cells, 2, -1)

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

    def _look(self, fit: RigidFit) -> _Look:
        values, slopes = self._splines(fit.gamma)
        steps = values @ fit.path[self._knots]
        fields = self._fields(self.depth.at_cells(fit.nearness), fit.bend)
        residual = self.shift - (fields @ steps[..., None])[..., 0]
        weighted = (self.shapes * fit.weight[..., None]).transpose(0, 2, 1)
        common = np.linalg.solve(weighted @ self.shapes + np.eye(SHAPES) / COMMON**2, weighted @ residual)  # [P, 3, 2]
        own = residual - self.shapes @ common
        ratio = (own**2).sum(-1) / (CUTOFF * fit.error) ** 2
        away = self.depth.departure(fit.nearness)
        cost = (
            CUTOFF**2 * (self.weight * ratio / (1.0 + ratio)).sum()
            + ((common / (COMMON * fit.error)) ** 2).sum()
            + (self.stiff * np.diff(fit.path, 2, axis=0) ** 2).sum()
            + (away[:, None] @ self.depth.stiffness @ away[..., None]).sum()
        )
        return _Look(values, slopes, steps, fields, residual, own, self.weight / (1.0 + ratio) ** 2, float(cost))

    # --- one step ---

    def _system(self, fit: RigidFit, look: _Look) -> _System:
        x, y, steps = self.x, self.y, look.steps
        near = np.stack([steps[..., 3] + x * steps[..., 5], steps[..., 4] + y * steps[..., 5]], axis=-1)
        gamma = (look.fields @ (look.slopes @ fit.path[self._knots])[..., None])[..., 0]
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
        diagonal += np.eye(size) * (1e-6 * self.stiff[:3].mean() * fit.error**2 + 1e-9)
        corner = reduced[:, -3:, -3:].sum(0)
        determinant = float(np.linalg.slogdet(own)[1].sum())
        return _System(diagonal, blocks[:-1, size:, :size], right, corner, near, gamma, bend, determinant)

    def _equations(self, weight: Array, look: _Look, near: Array, rest: Array) -> tuple[Array, Array]:
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
        fields, values = look.fields * weight[..., None, None], look.values
        twice = (values[..., :, None] * values[..., None, :]).reshape(pairs, cells, -1).transpose(0, 2, 1)
        path = product(twice, component_products(fields, look.fields)).reshape(
            pairs, REACHED, REACHED, COORDINATES, COORDINATES
        )
        count, unknowns = REACHED * COORDINATES, REACHED * COORDINATES + 2 * PLACES
        full = np.zeros((pairs, unknowns + 3, unknowns + rest.shape[-1]))
        full[:, :count, :count] = path.transpose(0, 1, 3, 2, 4).reshape(pairs, count, count)
        through = component_products(fields, near[..., None])  # [P, C, 6]
        through = (values[..., None] * through[:, :, None]).reshape(pairs, cells, -1)
        full[:, :count, count:unknowns] = product(through.transpose(0, 2, 1), self.depth.matrix)
        full[:, count:unknowns, :count] = full[:, :count, count:unknowns].transpose(0, 2, 1)
        to_rest = product(values.transpose(0, 2, 1), component_products(fields, rest))  # [P, 9, 6 * 9]
        full[:, :count, unknowns:] = to_rest.reshape(pairs, count, -1)
        weighted = rest * weight[..., None, None]
        pull = component_products(near[..., None], weighted)  # [P, C, 9]
        full[:, count:unknowns, unknowns:] = product(self.depth.matrix.transpose(0, 2, 1), pull)
        flat = (pairs, 2 * cells, -1)
        square = rest.reshape(flat).transpose(0, 2, 1) @ weighted.reshape(flat)
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
        blocks[:, : 2 * knots, : 2 * knots] += self._straight * scale
        path = fit.path.reshape(self.blocks, knots)
        path = np.concatenate([path, np.vstack([path[1:], np.zeros_like(path[:1])])], axis=1)
        right[:, : 2 * knots, 0] -= scale * (self._straight @ path[..., None])[..., 0]
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

    # --- the whole fit ---

    def fit(self, gamma: float) -> tuple[RigidFit, float]:
        """Camera, scene and gamma from a gamma nearby, and the standard error of gamma."""
        nearness = np.tile(self.depth.expected, (self.blocks, 1))
        start = RigidFit(np.zeros((self.blocks * BLOCK, COORDINATES)), nearness, 0.3, gamma, self.weight, 0.3)
        # The path alone, then the scene with it, then gamma.
        fit = self._settled(start, 2, damping=1e6, free=(False, False), anew=True)
        fit = self._settled(fit, 10, free=(False, True), anew=True)
        fit = self._settled(fit, 8, anew=True)
        fit = self._settled(fit, 12)
        fit = self._settled(fit, 8, tilt=INTEGRATED * self._determinant_slope(fit))
        return fit, self._doubt(fit)

    def _settled(
        self,
        fit: RigidFit,
        rounds: int,
        *,
        damping: float = 1.0,
        free: tuple[bool, bool] = (True, True),
        anew: bool = False,
        tilt: float = 0.0,
    ) -> RigidFit:
        """Steps until gamma is calm.

        Args:
            fit: to start from.
            rounds: most steps.
            damping: what holds the scene where it is, in the beginning; steps that do not help are held more.
            free: whether gamma and the bend may change.
            anew: whether the error of a cell is found anew after every step.
            tilt: added to the cost per gamma.
        """
        fit = replace(fit, weight=self._look(fit).weight)
        look = self._look(fit)
        calm = 0
        for _ in range(rounds):
            system = self._system(fit, look)
            for _ in range(6):
                moved = self._moved(fit, system, damping, np.array(free), tilt)
                seen = self._look(moved)
                if seen.cost + tilt * moved.gamma <= look.cost + tilt * fit.gamma:
                    break
                damping *= 8.0
            else:
                return fit
            calm = calm + 1 if abs(moved.gamma - fit.gamma) < CALM else 0
            damping = max(damping / 4.0, 1e-3)
            fit = replace(moved, weight=seen.weight)
            settled = calm == 3
            if anew:
                size = np.sqrt((seen.own**2).sum(-1))[self.weight > 0.05]
                error = max(SMALLEST_ERROR, float(np.median(size)) / 1.18 if size.size else 1.0)
                settled = abs(error / fit.error - 1.0) < SAME_ERROR
                fit = replace(fit, error=error)
            look = self._look(fit)
            if settled:
                break
        return fit

    def _bordered(self, system: _System, fit: RigidFit, damping: float) -> tuple[Array, Array, Array]:
        """How path and nearness answer to residual, gamma and bend, `[N, M, 3]`; equations left for the last two."""
        diagonal = system.diagonal.copy()
        held = np.arange(BLOCK * COORDINATES, diagonal.shape[1])
        diagonal[:, held, held] += damping * fit.error**2
        answers = solve_factored(factored(diagonal, system.below), system.below, system.right)
        corner = system.corner - np.tensordot(system.right, answers, ((0, 1), (0, 1)))
        return answers, corner[1:, 1:] + np.diag([0.0, 1e-6 * self.weight.sum()]), corner[1:, 0]

    def _moved(self, fit: RigidFit, system: _System, damping: float, free: Array, tilt: float) -> RigidFit:
        answers, matrix, vector = self._bordered(system, fit, damping)
        vector = vector - np.array([0.5 * tilt * fit.error**2, 0.0])
        step = np.zeros(2)
        if free.any():
            step[free] = np.linalg.solve(matrix[np.ix_(free, free)], vector[free])
        step = np.clip(step, -LONGEST_STEP, LONGEST_STEP)
        change = answers[..., 0] - answers[..., 1:] @ step
        return replace(
            fit,
            path=fit.path + change[:, : BLOCK * COORDINATES].reshape(-1, COORDINATES),
            nearness=fit.nearness + change[:, BLOCK * COORDINATES :],
            gamma=float(np.clip(fit.gamma + step[0], LEAST, MOST)),
            bend=float(np.clip(fit.bend + step[1], 0.0, LARGEST_BEND)),
        )

    def _determinant_slope(self, fit: RigidFit) -> float:
        """How the logarithm of the determinant of the equations rises with gamma."""
        logs = []
        for gamma in (fit.gamma - DETERMINANT_STEP, fit.gamma + DETERMINANT_STEP):
            beside = replace(fit, gamma=gamma)
            system = self._system(beside, self._look(beside))
            logs.append(system.log_determinant + log_determinant(factored(system.diagonal, system.below)))
        return (logs[1] - logs[0]) / (2.0 * DETERMINANT_STEP)

    def _doubt(self, fit: RigidFit) -> float:
        """Standard error of gamma.

        It comes from the curvature of the cost, or from the disagreement of the parts of the clip if that says more,
        with what the flows get wrong alike added.
        """
        look = self._look(fit)
        system = self._system(fit, look)
        answers, matrix, _ = self._bordered(system, fit, 0.0)
        by_bend = matrix[1, 0] / matrix[1, 1]
        curvature = float(matrix[0, 0] - matrix[0, 1] * by_bend)
        if curvature <= 0.0:
            return math.inf
        answer = answers[..., 1] - answers[..., 2] * by_bend
        path = look.values @ answer[:, : BLOCK * COORDINATES].reshape(-1, COORDINATES)[self._knots]
        near = self.depth.at_cells(answer[:, BLOCK * COORDINATES :])
        # What gamma does to each cell that nothing else could do.
        alone = system.by_gamma - by_bend * system.by_bend - near[..., None] * system.by_nearness
        alone -= (look.fields @ path[..., None])[..., 0]
        pulls = (fit.weight[..., None] * alone * look.own).sum((1, 2))
        parts = np.array([part.sum() for part in np.array_split(pulls - pulls.mean(), PARTS)])
        own = max(math.sqrt(float((parts**2).sum())) / curvature, math.sqrt(2.0 * fit.error**2 / curvature))
        return math.hypot(own, SHARED * fit.error / self.change * math.sqrt(SHARED_PAIRS / self.pairs))


def _changes(motions: ClipMotions) -> Array:
    """Mean squares of the change of the dominant motion from frame to frame, `[2]`, outliers cut off."""
    change = np.abs(np.diff(motions.dominant(), axis=0))
    squares: Array = (np.minimum(change, 3.0 * np.median(change, axis=0) + 1e-9) ** 2).mean(0)
    return np.maximum(squares, 1e-4)
