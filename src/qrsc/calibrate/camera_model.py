"""Continuous-time camera motion through a scene with depth: the model fitted to the motions of a clip, with gamma.

Convention
    Row `y` of frame `k` is exposed at `k + gamma y / H`, so that a cell at position p of frame k that moves by d was
    observed at two times t1 and t2 that depend on gamma, and

        d = [R(p + d / 2) + inverse_depth T(p + d / 2)] [S(t2) - S(t1)] + error,     S = spline of time

    S has six coordinates: rotation (pan and tilt in pixels at the centre, roll in pixels at half a width from it) and
    translation (right, down, forward; in the same units at an inverse depth of 1), each in the camera frame of its
    time. R and T are the image Jacobians of rotation and translation. With positions in half widths, R depends on the
    focal length f through 1 / f²: a pan moves the edges of the picture by more than its centre. Gamma runs downwards
    here: motions of other scans are flipped or transposed first.

    The errors of the flow are correlated between cells: per pair of frames, each component has three correlated error
    modes (shear, curvature and stretch) with a prior of their own.

`normal_equations` linearises the model, `gauss_newton` minimises its cost, and `marginal_likelihood` estimates gamma.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qrsc.calibrate.cell_motions import ClipMotions
from qrsc.calibrate.inverse_depth import InverseDepthGrids
from qrsc.calibrate.linear_algebra import product
from qrsc.calibrate.path_prior import innovations, path_precision, white_filters
from qrsc.calibrate.spline import bspline, bspline_derivative

Array = npt.NDArray[np.float64]

KNOTS = 2  # per frame interval
COORDINATES = 6
# The first knot in reach of a pair of frames, how many knots the pair reaches and how many either frame reaches, for
# gammas from -0.12 to 1.1.
FIRST_KNOT, PAIR_KNOTS, FRAME_KNOTS = -2, 9, 7
BLOCK = 16  # knots from one inverse depth grid to the next: the unknowns of one block of the normal equations
MARGIN = 12  # knots before the first frame
OUTSIDE = 0.1  # fraction of the frame by which a point may land outside it

# Initial prior of the path, relative to the accelerations seen from frame to frame: a lower stiffness allows more.
STIFFNESS = 0.4
# Standard deviations of roll and of translations, relative to pan and tilt.
ROLL, TRANSLATION = 0.3, 0.3
CUTOFF = 2.0  # residual, in noise standard deviations, at which a cell has a quarter of its weight (Geman-McClure)
ERROR_MODES = 3  # correlated error modes per component: shear, curvature, stretch
# Their prior standard deviation at the edge of the picture, in units of the noise of one cell.
MODE_STD = 0.3


@dataclass(frozen=True)
class CameraFit:
    """An estimate of camera path, scene and gamma.

    Attributes:
        path: `[N BLOCK, 6]`, coefficients of the spline.
        inverse_depth: `[N, G]`, grids of `InverseDepthGrids`.
        inverse_focal_squared: 1 / f², focal length f in half widths.
        gamma: readout ratio.
        weight: `[P, C]`, texture times robust weight of each cell.
        noise: noise standard deviation of a cell in pixels.
    """

    path: Array
    inverse_depth: Array
    inverse_focal_squared: float
    gamma: float
    weight: Array
    noise: float


class Evaluation(NamedTuple):
    """The model evaluated at a fit. Cells come last: operations on all of them then run through memory in order."""

    basis: Array  # [P, 9, C], spline basis at the second time of each cell minus that at the first
    basis_slope: Array  # [P, 9, C], its derivative by gamma
    steps: Array  # [P, 6, C], S(t2) - S(t1)
    jacobian: Array  # [P, 2, 6, C], of the displacement of each cell by the coordinates of its step
    residual: Array  # [P, 2, C], correlated errors included
    own_residual: Array  # [P, 2, C], correlated errors removed
    weight: Array  # [P, C], texture times robust weight by these residuals
    robust_cost: float
    weighted_cost: float  # with the weights of the fit held fixed


class CameraModel:
    """The motions of a clip, ready to be fitted from a gamma nearby; the scan runs downwards."""

    def __init__(self, motions: ClipMotions, translation: float = TRANSLATION) -> None:
        """Set up the model; `translation` is the standard deviation of translations relative to pan and tilt."""
        height, width = motions.size
        self.pairs, self.cells = motions.weight.shape
        self.grid = motions.grid
        self.shift = np.ascontiguousarray(motions.shift.transpose(0, 2, 1))  # [P, 2, C]
        middle = np.array([(width - 1) / 2, (height - 1) / 2])
        position = (motions.position + 0.5 * motions.shift - middle) / (0.5 * max(height, width))
        self.x, self.y = (np.ascontiguousarray(position[..., part]) for part in (0, 1))  # [P, C] each
        start = (motions.position[..., 1] + 0.5) / height
        end = start + motions.shift[..., 1] / height
        self.weight = np.where((end > -OUTSIDE) & (end < 1.0 + OUTSIDE), motions.weight, 0.0)
        self.start, self.end = (np.clip(part, -OUTSIDE, 1.0 + OUTSIDE) for part in (start, end))
        down = 1.5 * self.y  # about -1 to 1 over the picture, as x is
        self.error_modes = np.stack([down, down**2 - 1.0 / 3.0, self.x], axis=1)  # [P, 3, C]
        self.first = np.arange(self.pairs) * KNOTS + FIRST_KNOT + MARGIN
        self.blocks = -(-((self.pairs + 4) * KNOTS + 2 * MARGIN) // BLOCK)
        times = (np.arange(self.blocks) * BLOCK - FIRST_KNOT - MARGIN) / KNOTS
        self.depth = InverseDepthGrids(motions, self.first, times, BLOCK)
        across, down = _acceleration_variances(motions)
        larger = max(across, down)
        variances = np.array([across, down, ROLL**2 * larger, *[translation**2 * larger] * 3])
        self.proportions = np.sqrt(variances / larger)  # [6], of the coordinates' accelerations
        self.knots = self.first[:, None] + np.arange(PAIR_KNOTS)  # [P, 9], in reach of each pair
        self.set_path_prior(white_filters(variances / (STIFFNESS * KNOTS**4)))
        # Gamma mostly stays as it is from one evaluation to the next; both likelihoods begin with the same three.
        self._basis = lru_cache(maxsize=6)(self._basis_at)

    def set_path_prior(self, filters: Array) -> None:
        """Set the whitening filters `[6, L]` of the path prior."""
        self.filters = filters
        self.path_precision = path_precision(filters, self.blocks, BLOCK)  # [N, 2 K, 2 K], K coefficients in a block

    def at_pairs(self, path: Array) -> Array:
        """The coefficients of a path in reach of each pair: `[P, 6, 9]`."""
        local: Array = path[self.knots].transpose(0, 2, 1)
        return local

    def _basis_at(self, gamma: float) -> tuple[Array, Array]:
        """`Evaluation.basis` and `Evaluation.basis_slope`."""
        values = np.zeros((self.pairs, PAIR_KNOTS, self.cells))
        slopes = np.zeros_like(values)
        numbers = FIRST_KNOT + np.arange(FRAME_KNOTS, dtype=np.float64)[:, None]
        # The second frame reaches the same knots as the first, one frame interval later.
        for rows, reached, sign in ((self.start, slice(FRAME_KNOTS), -1.0), (self.end, slice(KNOTS, None), 1.0)):
            offset = (KNOTS * gamma) * rows[:, None] - numbers  # [P, 7, C]
            values[:, reached] += sign * bspline(offset)
            slopes[:, reached] += (sign * KNOTS) * rows[:, None] * bspline_derivative(offset)
        return values, slopes

    def _jacobian(self, inverse_depth: Array, inverse_focal_squared: float) -> Array:
        """`Evaluation.jacobian`, from the inverse depth of each cell, `[P, C]`."""
        x, y, near = self.x, self.y, inverse_depth
        cross, nothing = inverse_focal_squared * x * y, np.zeros_like(x)
        along_x = [1.0 + inverse_focal_squared * x**2, cross, -y, near, nothing, near * x]
        along_y = [cross, 1.0 + inverse_focal_squared * y**2, x, nothing, near, near * y]
        return np.stack(along_x + along_y, axis=1).reshape(self.pairs, 2, COORDINATES, self.cells)

    def evaluate(self, fit: CameraFit) -> Evaluation:
        """Evaluate steps, Jacobian, residuals and costs at a fit."""
        basis, slope = self._basis(fit.gamma)
        steps = product(self.at_pairs(fit.path), basis)
        jacobian = self._jacobian(self.depth.at_cells(fit.inverse_depth), fit.inverse_focal_squared)
        # A quarter of the time of a product that is summed up afterwards, as everywhere that cells come last.
        residual = self.shift - np.einsum("pkdc,pdc->pkc", jacobian, steps)
        return self._evaluated(fit, basis, slope, steps, jacobian, residual)

    def reevaluate(self, fit: CameraFit, last: Evaluation) -> Evaluation:
        """Evaluate a fit that differs from the one of `last` in its weights and its noise only."""
        return self._evaluated(fit, last.basis, last.basis_slope, last.steps, last.jacobian, last.residual)

    def _evaluated(
        self, fit: CameraFit, basis: Array, slope: Array, steps: Array, jacobian: Array, residual: Array
    ) -> Evaluation:
        weighted = self.error_modes * fit.weight[:, None]
        normal = product(weighted, self.error_modes.transpose(0, 2, 1)) + np.eye(ERROR_MODES) / MODE_STD**2
        right = product(weighted, residual.transpose(0, 2, 1))
        amplitudes = np.linalg.solve(normal, right).astype(np.float64)  # [P, 3, 2], of the correlated errors
        own = residual - product(amplitudes.transpose(0, 2, 1), self.error_modes)
        ratio = (own**2).sum(1) / (CUTOFF * fit.noise) ** 2
        deviation = self.depth.deviation(fit.inverse_depth)
        priors = (
            ((amplitudes / (MODE_STD * fit.noise)) ** 2).sum()
            + (innovations(fit.path, self.filters) ** 2).sum()
            + (deviation[:, None] @ self.depth.precision @ deviation[..., None]).sum()
        )
        robust, weighted_cost = (
            float(priors + CUTOFF**2 * cells.sum())
            for cells in (self.weight * ratio / (1.0 + ratio), fit.weight * ratio)
        )
        weight = self.weight / (1.0 + ratio) ** 2
        return Evaluation(basis, slope, steps, jacobian, residual, own, weight, robust, weighted_cost)


def _acceleration_variances(motions: ClipMotions) -> Array:
    """Mean squared change of the dominant motion from frame to frame, `[2]`, outliers clipped."""
    change = np.abs(np.diff(motions.dominant(), axis=0))
    squares: Array = (np.minimum(change, 3.0 * np.median(change, axis=0) + 1e-9) ** 2).mean(0)
    return np.maximum(squares, 1e-4)
