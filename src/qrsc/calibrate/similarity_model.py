"""One continuous-time similarity motion of the picture, fitted to the motions of a clip at a given gamma.

It is the model of the coarse search over gamma; `camera_model` refines the result.

Convention
    Row `y` of frame `k` is exposed at `k + gamma y / H`; gamma is negative for a scan that runs upwards. A cell at
    position p of frame k that moves by d was therefore observed at two known times t1 and t2, and

        d = J(p + d / 2) [S(t2) - S(t1)] + drift + error,     S = path of (x, y, roll, scale), a cubic spline of time

    J is the image Jacobian: that of a rotating camera, which depends on its focal length f through 1 / f², times a
    gain that stands for the depth of the cell. Gain and drift vary slowly over the clip and from cell to cell: they
    absorb what the depth of the scene does to the speed, and steady motion. What remains to determine gamma is that
    rows observe the same motion at different times.

    The errors of the flow are correlated between cells. Per pair of frames, each component has three correlated error
    modes (shear, curvature and stretch), as large as the noise of a cell. Without them 192 cells count as 192
    independent observations, and the spline follows their common errors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from qrsc.calibrate.cell_motions import ClipMotions
from qrsc.calibrate.linear_algebra import product, solve_block_tridiagonal
from qrsc.calibrate.spline import SUPPORT, bspline_values

Array = npt.NDArray[np.float64]

# Per frame interval. 3 and 4 follow faster shakes of the hand, but also more of the errors of the flow: a global
# shutter, for one, is then no longer recognised.
KNOTS = 2
COORDINATES = 4  # x, y in pixels; roll and scale in pixels at half a width from the centre
BLOCK = 16  # knots in a block of the normal equations; the times of one pair never reach over more than two blocks
MARGIN = 12  # knots before the first frame
OUTSIDE = 0.1  # fraction of the frame by which a point may land outside it

# Standard deviations of the Gaussian window over which gain and drift are smoothed, in frames and in cells.
WINDOW = 6.0
NEIGHBOURS = 1.0
# Their prior standard deviations; that of the drift in pixels per frame.
GAIN_STD = 0.15
DRIFT_STD = 0.3
INITIAL_INVERSE_FOCAL_SQUARED = 0.3
INITIAL_NOISE = 0.3  # pixels
MIN_NOISE = 0.02
CUTOFF = 2.0  # residual, in noise standard deviations, at which a cell has a quarter of its weight (Geman-McClure)
ERROR_MODES = 3  # correlated error modes per component: shear, curvature, stretch
MAX_INVERSE_FOCAL_SQUARED = 0.9
# Prior standard deviation of these modes at the edge of the picture, in units of the noise of one cell. Against the
# true flows of simulated clips, DIS has shears of 0.06 to 0.16 px where its cells are off by as much.
MODE_STD = 1.0


@dataclass(frozen=True)
class SimilarityFit:
    """A motion fitted at one gamma.

    Attributes:
        path: `[N, 4]`, coefficients of the spline.
        steps: `[P, C, 4]`, S(t2) - S(t1) of each cell.
        weight: `[P, C]`, texture times robust weight.
        gain: `[P, C, 2]`, deviation from 1 of the gain of x and y.
        drift: `[P, C, 2]`, pixels.
        inverse_focal_squared: 1 / f², focal length f in half widths.
        noise: noise standard deviation of a cell in pixels.
        modes: `[P, 6]`, amplitudes of the correlated errors of x, then of y, in pixels.
        cost: `[P]`, robust cost of each pair, in units of the noise squared.
    """

    path: Array
    steps: Array
    weight: Array
    gain: Array
    drift: Array
    inverse_focal_squared: float
    noise: float
    modes: Array
    cost: Array

    @property
    def total(self) -> float:
        """Robust cost of all pairs."""
        return float(self.cost.sum())


class SimilarityModel:
    """The motions of a clip, ready to be fitted at any gamma; the scan runs along y."""

    def __init__(self, motions: ClipMotions) -> None:
        height, width = motions.size
        self.pairs, self.cells = motions.weight.shape
        self.rows, self.columns = motions.grid
        self.shift = motions.shift  # [P, C, 2]
        half = 0.5 * max(height, width)
        middle = np.array([(width - 1) / 2, (height - 1) / 2])
        self.x, self.y = np.moveaxis((motions.position + 0.5 * motions.shift - middle) / half, -1, 0)  # [P, C] each
        start = (motions.position[..., 1] + 0.5) / height
        end = start + motions.shift[..., 1] / height
        self.weight = np.where((end > -OUTSIDE) & (end < 1.0 + OUTSIDE), motions.weight, 0.0)
        # A row of cells is exposed within a fraction of a cell, so that its equations can be merged.
        self.start, self.end = (  # [P, R] each
            self._row_means(np.clip(part, -OUTSIDE, 1.0 + OUTSIDE)) for part in (start, end)
        )
        frames, rows, columns = (
            _gaussian(count, deviation)
            for count, deviation in ((self.pairs, WINDOW), (self.rows, NEIGHBOURS), (self.columns, NEIGHBOURS))
        )
        self._smoothing = (frames, rows, columns)
        self.error_modes = self._error_modes()  # [P, C, 3]

    def _row_means(self, values: Array) -> Array:
        weight = self.weight.reshape(self.pairs, self.rows, self.columns) + 1e-9
        means: Array = (values.reshape(weight.shape) * weight).sum(2) / weight.sum(2)
        return means

    def _error_modes(self) -> Array:
        u, v = 1.5 * self.y, self.x  # about -1 to 1 over the picture
        return np.stack([u, u**2 - 1.0 / 3.0, v], axis=-1)

    def steps_matrix(self, gamma: float) -> tuple[Array, int]:
        """Spline basis of the step of each row, `[P, R, L]`, and `first`: pair `k` begins at knot `k KNOTS + first`."""
        reach = abs(gamma) * (OUTSIDE + 0.01)
        first = int(np.floor((min(0.0, gamma) - reach) * KNOTS)) - 1
        last = int(np.floor((1.0 + max(0.0, gamma) + reach) * KNOTS)) + 2
        matrix = np.zeros((self.pairs * self.rows, last - first + 1))
        every = np.arange(len(matrix))
        for times, sign in ((1.0 + gamma * self.end, 1.0), (gamma * self.start, -1.0)):
            spline = bspline_values(times.reshape(-1) * KNOTS)
            for part in range(SUPPORT):
                matrix[every, spline.first - first + part] += sign * spline.values[:, part]
        return matrix.reshape(self.pairs, self.rows, -1), first

    def jacobian(self, gain: Array, inverse_focal_squared: float) -> Array:
        """Image Jacobian of each cell by the coordinates of the path: `[P, C, 2, 4]`."""
        x, y = self.x, self.y
        cross = inverse_focal_squared * x * y
        along_x = np.stack([1.0 + inverse_focal_squared * x**2 + gain[..., 0], cross, -y, x], axis=-1)
        along_y = np.stack([cross, 1.0 + inverse_focal_squared * y**2 + gain[..., 1], x, y], axis=-1)
        return np.stack([along_x, along_y], axis=-2)

    def _steps(self, path: Array, matrix: Array, first: int) -> Array:
        knots = (np.arange(self.pairs) * KNOTS + first + MARGIN)[:, None] + np.arange(matrix.shape[2])
        return np.repeat(matrix @ path[knots], self.columns, axis=1)

    def _solve(
        self, matrix: Array, first: int, jacobian: Array, wanted: Array, weight: Array, stiffness: Array
    ) -> tuple[Array, Array]:
        """The path, and the amplitudes of the correlated errors of each pair, `[P, 6]`, by least squares."""
        pairs, length = self.pairs, matrix.shape[2]
        width = length * COORDINATES
        by_row = (pairs, self.rows, 2 * self.columns)
        weights = np.repeat(weight, 2, axis=1).reshape(*by_row, 1)
        rows = jacobian.reshape(*by_row, COORDINATES)
        by_component = np.zeros((pairs, self.cells, 2, 2, ERROR_MODES))
        by_component[:, :, 0, 0] = by_component[:, :, 1, 1] = self.error_modes
        modes = by_component.reshape(*by_row, 2 * ERROR_MODES)
        right = wanted.reshape(*by_row, 1)
        weighted = (rows * weights).transpose(0, 1, 3, 2)
        outer = (matrix[..., :, None] * matrix[..., None, :]).reshape(pairs, self.rows, -1).transpose(0, 2, 1)
        normal = (outer @ (weighted @ rows).reshape(pairs, self.rows, -1)).reshape(
            pairs, length, length, COORDINATES, COORDINATES
        )
        normal = normal.transpose(0, 1, 3, 2, 4).reshape(pairs, width, width)
        across = matrix.transpose(0, 2, 1)  # [P, L, R]
        vector = (across @ (weighted @ right)[..., 0]).reshape(pairs, width)
        coupling = (across @ (weighted @ modes).reshape(pairs, self.rows, -1)).reshape(pairs, width, -1)
        flat, flat_weighted = modes.reshape(pairs, -1, 2 * ERROR_MODES), (modes * weights)
        flat_weighted = flat_weighted.reshape(flat.shape).transpose(0, 2, 1)
        own = flat_weighted @ flat + np.eye(2 * ERROR_MODES) / MODE_STD**2
        own_vector = (flat_weighted @ right.reshape(pairs, -1, 1))[..., 0]
        # The correlated errors of a pair occur in its equations only: they are eliminated pair by pair.
        eliminated = np.linalg.solve(own, np.concatenate([coupling.transpose(0, 2, 1), own_vector[..., None]], axis=2))
        normal = normal - coupling @ eliminated[..., :-1]
        vector = vector - (coupling @ eliminated[..., -1:])[..., 0]
        path = self._assembled_path(normal, vector, first, stiffness)
        knots = (np.arange(pairs) * KNOTS + first + MARGIN)[:, None] + np.arange(length)
        local = path[knots].reshape(pairs, width, 1)
        return path, eliminated[..., -1] - (eliminated[..., :-1] @ local)[..., 0]

    def _assembled_path(self, normal: Array, vector: Array, first: int, stiffness: Array) -> Array:
        """Add up the normal equations of all pairs and the smoothness prior, and solve for the path."""
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
        prior = np.kron(np.outer(second, second), np.diag(stiffness))
        for start in range(blocks * BLOCK - 2):
            block, offset = start // BLOCK, start % BLOCK * COORDINATES
            both[block, offset : offset + len(prior), offset : offset + len(prior)] += prior
        diagonal = both[:, :size, :size].copy()
        diagonal[1:] += both[:-1, size:, size:]
        # The origin of the path is arbitrary: a small ridge fixes it.
        diagonal += np.eye(size) * (1e-6 * stiffness.mean() + 1e-9)
        solution = solve_block_tridiagonal(diagonal, both[:-1, size:, :size], right.reshape(blocks, size))
        return solution.reshape(-1, COORDINATES)

    def fit(
        self,
        gamma: float,
        start: SimilarityFit | None,
        *,
        stiffness: Array,
        iterations: int,
        noise: float | None = None,
    ) -> SimilarityFit:
        """Fit the motion at a gamma by alternating minimisation: the path, gains and drifts, the robust weights.

        Args:
            gamma: negative for a scan that runs upwards.
            start: initialisation, a fit at a gamma nearby.
            stiffness: `[4]`, precision of the path's second differences, times the noise squared.
            iterations: number of alternations.
            noise: of a cell, where costs of several fits are to be compared; estimated if None.
        """
        matrix, first = self.steps_matrix(gamma)
        fit = self._initial() if start is None else start
        fit = replace(fit, noise=fit.noise if noise is None else noise)
        for _ in range(iterations):
            jacobian = self.jacobian(fit.gain, fit.inverse_focal_squared)
            path, modes = self._solve(matrix, first, jacobian, self.shift - fit.drift, fit.weight, stiffness)
            steps = self._steps(path, matrix, first)
            fit = self._with_gains(replace(fit, path=path, steps=steps, modes=modes))
            size = np.sqrt((self._residual(fit) ** 2).sum(-1))
            if noise is None:
                textured = size[self.weight > 0.05]
                fit = replace(fit, noise=max(MIN_NOISE, float(np.median(textured)) / 1.18 if textured.size else 1.0))
            ratio = (size / (CUTOFF * fit.noise)) ** 2
            fit = replace(fit, weight=self.weight / (1.0 + ratio) ** 2, cost=self._cost(fit, ratio, path, stiffness))
        return fit

    def _initial(self) -> SimilarityFit:
        return SimilarityFit(
            path=np.zeros((0, COORDINATES)),
            steps=np.zeros((self.pairs, self.cells, COORDINATES)),
            weight=self.weight,
            gain=np.zeros_like(self.shift),
            drift=np.zeros_like(self.shift),
            inverse_focal_squared=INITIAL_INVERSE_FOCAL_SQUARED,
            noise=INITIAL_NOISE,
            modes=np.zeros((self.pairs, 2 * ERROR_MODES)),
            cost=np.zeros(self.pairs),
        )

    def _correlated_errors(self, fit: SimilarityFit) -> Array:
        """The correlated errors at each cell: `[P, C, 2]`."""
        by_component = fit.modes.reshape(self.pairs, 2, ERROR_MODES)
        return product(self.error_modes, by_component.transpose(0, 2, 1))

    def _residual(self, fit: SimilarityFit) -> Array:
        """`[P, C, 2]`, correlated errors removed."""
        jacobian = self.jacobian(fit.gain, fit.inverse_focal_squared)
        moved = np.einsum("pckd,pcd->pck", jacobian, fit.steps)
        residual: Array = self.shift - fit.drift - moved - self._correlated_errors(fit)
        return residual

    def _cost(self, fit: SimilarityFit, ratio: Array, path: Array, stiffness: Array) -> Array:
        """Robust cost of the cells, and prior costs of correlated errors and path, attributed to the pairs."""
        cells = (self.weight * ratio / (1.0 + ratio)).sum(1) * CUTOFF**2
        modes = ((fit.modes / (MODE_STD * fit.noise)) ** 2).sum(1)
        accelerations = (stiffness * np.diff(path, 2, axis=0) ** 2).sum(1) / fit.noise**2  # [N - 2]
        owner = np.clip((np.arange(len(accelerations)) + 1 - MARGIN) // KNOTS, 0, self.pairs - 1)
        cost: Array = cells + modes + np.bincount(owner, accelerations, self.pairs)
        return cost

    def _with_gains(self, fit: SimilarityFit) -> SimilarityFit:
        """Update the inverse squared focal length, then gains and drifts, from the residual of the path."""
        x, y, steps, weight = self.x, self.y, fit.steps, fit.weight[..., None]
        focal = np.stack(
            [x**2 * steps[..., 0] + x * y * steps[..., 1], x * y * steps[..., 0] + y**2 * steps[..., 1]], axis=-1
        )
        change = (weight * focal * self._residual(fit)).sum()
        change /= (weight * focal**2).sum() + 1e-3 * self.weight.sum() + 1e-9
        changed = float(np.clip(fit.inverse_focal_squared + change, 0.0, MAX_INVERSE_FOCAL_SQUARED))
        fit = replace(fit, inverse_focal_squared=changed)
        residual = self._residual(replace(fit, gain=np.zeros_like(fit.gain), drift=np.zeros_like(fit.drift)))
        gain, drift = np.zeros_like(fit.gain), np.zeros_like(fit.drift)
        variance = fit.noise**2
        for part in (0, 1):
            speed, wanted = steps[..., part], residual[..., part]
            count, mean, square, to_drift, to_gain = (
                self._smoothed(fit.weight * values)
                for values in (np.ones_like(speed), speed, speed**2, wanted, speed * wanted)
            )
            count, square = count + variance / DRIFT_STD**2, square + variance / GAIN_STD**2
            determinant = count * square - mean**2
            drift[..., part] = (square * to_drift - mean * to_gain) / determinant
            gain[..., part] = (count * to_gain - mean * to_drift) / determinant
        return replace(fit, gain=gain, drift=drift)

    def _smoothed(self, values: Array) -> Array:
        """Sums over a Gaussian window in time and space: `[P, C]`."""
        frames, rows, columns = self._smoothing
        grid = product(frames, values).reshape(self.pairs, self.rows, self.columns)
        return product(rows, product(grid, columns)).reshape(self.pairs, self.cells)


def _gaussian(count: int, deviation: float) -> Array:
    distance = np.arange(count)[:, None] - np.arange(count)
    return np.exp(-0.5 * (distance / deviation) ** 2)
