"""One continuous motion for a whole clip, fitted to the motions of its cells at a given gamma.

Convention
    Row `y` of frame `k` is exposed at `k + gamma y / H`; gamma is negative for a scan that runs upwards. A cell at the
    place p of frame k that moves by d was therefore seen at two known times t1 and t2, and

        d = F(p + d / 2) [S(t2) - S(t1)] + drift + error,     S = path of (x, y, roll, scale), a cubic spline of time

    F says how each of the four moves a place of the picture: that of a camera that turns, with the bend that its focal
    length gives, times a gain that stands for the depth of the cell. Gain and drift vary slowly over the clip and from
    cell to cell: they take up what the depth of the scene does to the speed, and what moves steadily. What is left to
    tell gamma is that rows see the same motion at different times.

    The errors of the flows are not independent from cell to cell. Per pair of frames a shear, a bend and a stretch of
    either component are allowed for, as large as the error of a cell. Without them 192 cells look like
    192 witnesses, and the spline follows their common errors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from qrsc.calibrate.cell_motions import ClipMotions
from qrsc.calibrate.spline import SUPPORT, bspline_values, product, solve_block_tridiagonal

Array = npt.NDArray[np.float64]

# Per frame interval. 3 and 4 follow faster shakes of the hand, but also more of the errors of the flow: a global
# shutter, for one, is then no longer recognised.
KNOTS = 2
COORDINATES = 4  # x, y in pixels; roll and scale in pixels at half a width from the centre
BLOCK = 16  # knots that are solved for together; the times of one pair never reach over more than two blocks
MARGIN = 12  # knots before the first frame
REACH = 0.1  # parts of the frame by which a point may land outside it

WINDOW = 6.0  # frames over which gain and drift of a cell are about the same (standard deviation)
NEIGHBOURS = 1.0  # cells, likewise
GAIN_SPREAD = 0.15
DRIFT_SPREAD = 0.3  # pixels per frame
SMALLEST_ERROR = 0.02  # pixels
CUTOFF = 2.0  # errors at which a cell counts half as much
ERROR_SHAPES = 3  # per component: shear, bend, stretch
LARGEST_BEND = 0.9
# Size of the errors that the cells of a pair have in common, at the edge of the picture, in errors of one cell.
# Against the true flows of simulated clips, DIS has shears of 0.06 to 0.16 px where its cells are off by as much.
COMMON = 1.0


@dataclass(frozen=True)
class Fit:
    """A motion fitted at one gamma.

    Attributes:
        path: `[N, 4]`, coefficients of the spline.
        steps: `[P, C, 4]`, what the path does to each cell between its two times.
        weight: `[P, C]`, texture times how well the cell agrees.
        gain: `[P, C, 2]`, deviation from 1 of the gain of x and y.
        drift: `[P, C, 2]`, pixels.
        bend: 1 / focal length squared, in half widths.
        error: typical error of a cell in pixels.
        common: `[P, 6]`, the shear, bend and stretch of x and y that pairs have in common, in pixels.
        cost: `[P]`, what is not explained, by pair, in squared errors.
    """

    path: Array
    steps: Array
    weight: Array
    gain: Array
    drift: Array
    bend: float
    error: float
    common: Array
    cost: Array

    @property
    def total(self) -> float:
        """What is not explained in all."""
        return float(self.cost.sum())


class MotionModel:
    """The motions of a clip, ready to be fitted at any gamma; the scan runs along y."""

    def __init__(self, motions: ClipMotions) -> None:
        height, width = motions.size
        self.pairs, self.cells = motions.weight.shape
        self.rows, self.columns = motions.grid
        self.shift = motions.shift  # [P, C, 2]
        half = 0.5 * max(height, width)
        middle = np.array([(width - 1) / 2, (height - 1) / 2])
        self.x, self.y = np.moveaxis((motions.place + 0.5 * motions.shift - middle) / half, -1, 0)  # [P, C] each
        start = (motions.place[..., 1] + 0.5) / height
        end = start + motions.shift[..., 1] / height
        self.weight = np.where((end > -REACH) & (end < 1.0 + REACH), motions.weight, 0.0)
        # Rows of cells are exposed together to within a fraction of a cell, so that their equations can be merged.
        self.start, self.end = (self._row_means(np.clip(part, -REACH, 1.0 + REACH)) for part in (start, end))  # [P, R]
        frames, rows, columns = (
            _gaussian(count, spread)
            for count, spread in ((self.pairs, WINDOW), (self.rows, NEIGHBOURS), (self.columns, NEIGHBOURS))
        )
        self._smoothing = (frames, rows, columns)
        self.error_shapes = self._error_shapes()  # [P, C, 3]

    def _row_means(self, values: Array) -> Array:
        weight = self.weight.reshape(self.pairs, self.rows, self.columns) + 1e-9
        means: Array = (values.reshape(weight.shape) * weight).sum(2) / weight.sum(2)
        return means

    def _error_shapes(self) -> Array:
        u, v = 1.5 * self.y, self.x  # about -1 to 1 over the picture
        return np.stack([u, u**2 - 1.0 / 3.0, v], axis=-1)

    # --- the spline at one gamma ---

    def steps_matrix(self, gamma: float) -> tuple[Array, int]:
        """What coefficients contribute to the step of each row: `[P, R, L]` from the knot `k KNOTS + first` on."""
        reach = abs(gamma) * (REACH + 0.01)
        first = int(np.floor((min(0.0, gamma) - reach) * KNOTS)) - 1
        last = int(np.floor((1.0 + max(0.0, gamma) + reach) * KNOTS)) + 2
        matrix = np.zeros((self.pairs * self.rows, last - first + 1))
        every = np.arange(len(matrix))
        for times, sign in ((1.0 + gamma * self.end, 1.0), (gamma * self.start, -1.0)):
            spline = bspline_values(times.reshape(-1) * KNOTS)
            for part in range(SUPPORT):
                matrix[every, spline.first - first + part] += sign * spline.values[:, part]
        return matrix.reshape(self.pairs, self.rows, -1), first

    def fields(self, gain: Array, bend: float) -> Array:
        """How each coordinate of the path moves each cell: `[P, C, 2, 4]`."""
        x, y = self.x, self.y
        cross = bend * x * y
        along_x = np.stack([1.0 + bend * x**2 + gain[..., 0], cross, -y, x], axis=-1)
        along_y = np.stack([cross, 1.0 + bend * y**2 + gain[..., 1], x, y], axis=-1)
        return np.stack([along_x, along_y], axis=-2)

    def _steps(self, path: Array, matrix: Array, first: int) -> Array:
        knots = (np.arange(self.pairs) * KNOTS + first + MARGIN)[:, None] + np.arange(matrix.shape[2])
        return np.repeat(matrix @ path[knots], self.columns, axis=1)

    def _solve(
        self, matrix: Array, first: int, fields: Array, wanted: Array, weight: Array, common_weight: Array, stiff: Array
    ) -> tuple[Array, Array]:
        """The path, and the errors that each pair has in common, `[P, 6]`, by least squares."""
        pairs, length = self.pairs, matrix.shape[2]
        width = length * COORDINATES
        by_row = (pairs, self.rows, 2 * self.columns)
        weights = np.repeat(weight, 2, axis=1).reshape(*by_row, 1)
        rows = fields.reshape(*by_row, COORDINATES)
        by_component = np.zeros((pairs, self.cells, 2, 2, ERROR_SHAPES))
        by_component[:, :, 0, 0] = by_component[:, :, 1, 1] = self.error_shapes
        shapes = by_component.reshape(*by_row, 2 * ERROR_SHAPES)
        right = wanted.reshape(*by_row, 1)
        weighted = (rows * weights).transpose(0, 1, 3, 2)
        outer = (matrix[..., :, None] * matrix[..., None, :]).reshape(pairs, self.rows, -1).transpose(0, 2, 1)
        normal = (outer @ (weighted @ rows).reshape(pairs, self.rows, -1)).reshape(
            pairs, length, length, COORDINATES, COORDINATES
        )
        normal = normal.transpose(0, 1, 3, 2, 4).reshape(pairs, width, width)
        across = matrix.transpose(0, 2, 1)  # [P, L, R]
        vector = (across @ (weighted @ right)[..., 0]).reshape(pairs, width)
        coupling = (across @ (weighted @ shapes).reshape(pairs, self.rows, -1)).reshape(pairs, width, -1)
        flat, flat_weighted = shapes.reshape(pairs, -1, 2 * ERROR_SHAPES), (shapes * weights)
        flat_weighted = flat_weighted.reshape(flat.shape).transpose(0, 2, 1)
        own = flat_weighted @ flat + np.eye(2 * ERROR_SHAPES) * common_weight[:, None]
        own_vector = (flat_weighted @ right.reshape(pairs, -1, 1))[..., 0]
        # The common errors of a pair meet only that pair's equations: they are eliminated pair by pair.
        eliminated = np.linalg.solve(own, np.concatenate([coupling.transpose(0, 2, 1), own_vector[..., None]], axis=2))
        normal = normal - coupling @ eliminated[..., :-1]
        vector = vector - (coupling @ eliminated[..., -1:])[..., 0]
        path = self._assembled(normal, vector, first, stiff)
        knots = (np.arange(pairs) * KNOTS + first + MARGIN)[:, None] + np.arange(length)
        local = path[knots].reshape(pairs, width, 1)
        common = eliminated[..., -1] - (eliminated[..., :-1] @ local)[..., 0]
        return path, common

    def _assembled(self, normal: Array, vector: Array, first: int, stiff: Array) -> Array:
        """Add up the equations of all pairs, with the pull of the path towards straight lines, and solve them."""
        width = normal.shape[1]
        size = BLOCK * COORDINATES
        blocks = -(-((self.pairs + 4) * KNOTS + 2 * MARGIN) // BLOCK)
        both = np.zeros((blocks, 2 * size, 2 * size))
        right = np.zeros(blocks * size)
        for pair in range(self.pairs):
            start = pair * KNOTS + first + MARGIN
            block, offset = start // BLOCK, start % BLOCK * COORDINATES
            both[block, offset : offset + width, offset : offset + width] += normal[pair]
            right[start * COORDINATES : start * COORDINATES + width] += vector[pair]
        second = np.array([1.0, -2.0, 1.0])
        straight = np.kron(np.outer(second, second), np.diag(stiff))
        for start in range(blocks * BLOCK - 2):
            block, offset = start // BLOCK, start % BLOCK * COORDINATES
            both[block, offset : offset + len(straight), offset : offset + len(straight)] += straight
        diagonal = both[:, :size, :size].copy()
        diagonal[1:] += both[:-1, size:, size:]
        # Where the path as a whole lies is arbitrary.
        diagonal += np.eye(size) * (1e-6 * stiff.mean() + 1e-9)
        solution = solve_block_tridiagonal(diagonal, both[:-1, size:, :size], right.reshape(blocks, size))
        return solution.reshape(-1, COORDINATES)

    # --- everything else ---

    def fit(
        self,
        gamma: float,
        start: Fit | None,
        *,
        stiff: Array,
        rounds: int,
        error: float | None = None,
    ) -> Fit:
        """Fit the motion at a gamma, by turns: the path, the gains and drifts, the weights.

        Args:
            gamma: negative for a scan that runs upwards.
            start: a fit at a gamma nearby, or None.
            stiff: `[4]`, pull of the path's second differences towards 0.
            rounds: how many turns.
            error: typical error of a cell, where fits are to be compared; found anew if None.
        """
        matrix, first = self.steps_matrix(gamma)
        fit = self._empty() if start is None else start
        fit = replace(fit, error=fit.error if error is None else error)
        for _ in range(rounds):
            fields = self.fields(fit.gain, fit.bend)
            pull = np.full((self.pairs, 2 * ERROR_SHAPES), 1.0 / COMMON**2)
            path, common = self._solve(matrix, first, fields, self.shift - fit.drift, fit.weight, pull, stiff)
            steps = self._steps(path, matrix, first)
            fit = self._settled(replace(fit, path=path, steps=steps, common=common))
            left = self._left(fit)
            size = np.sqrt((left**2).sum(-1))
            if error is None:
                counted = size[self.weight > 0.05]
                fit = replace(fit, error=max(SMALLEST_ERROR, float(np.median(counted)) / 1.18 if counted.size else 1.0))
            ratio = (size / (CUTOFF * fit.error)) ** 2
            fit = replace(fit, weight=self.weight / (1.0 + ratio) ** 2, cost=self._cost(fit, ratio, path, stiff))
        return fit

    def _empty(self) -> Fit:
        nothing = np.zeros_like(self.shift)
        zeros = np.zeros((self.pairs, self.cells, COORDINATES))
        common = np.zeros((self.pairs, 2 * ERROR_SHAPES))
        return Fit(
            np.zeros((0, COORDINATES)), zeros, self.weight, nothing, nothing, 0.3, 0.3, common,
            np.zeros(self.pairs),
        )  # fmt: skip

    def _common(self, fit: Fit) -> Array:
        """The errors in common at each cell: `[P, C, 2]`."""
        by_component = fit.common.reshape(self.pairs, 2, ERROR_SHAPES)
        return product(self.error_shapes, by_component.transpose(0, 2, 1))

    def _left(self, fit: Fit) -> Array:
        moved = np.einsum("pckd,pcd->pck", self.fields(fit.gain, fit.bend), fit.steps)
        left: Array = self.shift - fit.drift - moved - self._common(fit)
        return left

    def _cost(self, fit: Fit, ratio: Array, path: Array, stiff: Array) -> Array:
        """Robust cost of the cells, of the errors in common, and of the path's bends, shared out among the pairs."""
        cells = (self.weight * ratio / (1.0 + ratio)).sum(1) * CUTOFF**2
        common = ((fit.common / (COMMON * fit.error)) ** 2).sum(1)
        bends = (stiff * np.diff(path, 2, axis=0) ** 2).sum(1) / fit.error**2  # [N - 2]
        owner = np.clip((np.arange(len(bends)) + 1 - MARGIN) // KNOTS, 0, self.pairs - 1)
        cost: Array = cells + common + np.bincount(owner, bends, self.pairs)
        return cost

    def _settled(self, fit: Fit) -> Fit:
        """The bend of the picture, then gains and drifts, from what the path leaves over."""
        x, y, steps, weight = self.x, self.y, fit.steps, fit.weight[..., None]
        bent = np.stack(
            [x**2 * steps[..., 0] + x * y * steps[..., 1], x * y * steps[..., 0] + y**2 * steps[..., 1]], axis=-1
        )
        change = (weight * bent * self._left(fit)).sum() / ((weight * bent**2).sum() + 1e-3 * self.weight.sum() + 1e-9)
        fit = replace(fit, bend=float(np.clip(fit.bend + change, 0.0, LARGEST_BEND)))
        left = self._left(replace(fit, gain=np.zeros_like(fit.gain), drift=np.zeros_like(fit.drift)))
        gain, drift = np.zeros_like(fit.gain), np.zeros_like(fit.drift)
        own = fit.error**2
        for part in (0, 1):
            speed, wanted = steps[..., part], left[..., part]
            count, mean, square, to_drift, to_gain = (
                self._smoothed(fit.weight * values)
                for values in (np.ones_like(speed), speed, speed**2, wanted, speed * wanted)
            )
            count, square = count + own / DRIFT_SPREAD**2, square + own / GAIN_SPREAD**2
            determinant = count * square - mean**2
            drift[..., part] = (square * to_drift - mean * to_gain) / determinant
            gain[..., part] = (count * to_gain - mean * to_drift) / determinant
        return replace(fit, gain=gain, drift=drift)

    def _smoothed(self, values: Array) -> Array:
        """Sums over the neighbourhood in time and space: `[P, C]`."""
        frames, rows, columns = self._smoothing
        grid = product(frames, values).reshape(self.pairs, self.rows, self.columns)
        return product(rows, product(grid, columns)).reshape(self.pairs, self.cells)


def _gaussian(count: int, spread: float) -> Array:
    distance = np.arange(count)[:, None] - np.arange(count)
    return np.exp(-0.5 * (distance / spread) ** 2)
