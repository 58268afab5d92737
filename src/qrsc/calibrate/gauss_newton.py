"""Damped Gauss-Newton steps on the path, the scene, gamma and the focal length of a `CameraModel`."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qrsc.calibrate.camera_model import COORDINATES, CameraFit, CameraModel, Evaluation
from qrsc.calibrate.cell_noise import typical_noise
from qrsc.calibrate.linear_algebra import factorised, solve_factorised
from qrsc.calibrate.normal_equations import PATH, NormalMatrix, RightHandSide, normal_matrix, right_hand_side

Array = npt.NDArray[np.float64]

MIN_GAMMA, MAX_GAMMA = -0.12, 1.1  # range of the search
MAX_INVERSE_FOCAL_SQUARED = 1.2
MAX_BORDER_STEP = 0.1  # of gamma and of the inverse squared focal length
GAMMA_TOLERANCE = 1e-3  # converged after three steps in a row that change gamma by less
NOISE_TOLERANCE = 0.03  # converged when the noise of a cell changes by a smaller fraction
MAX_TRIES = 6  # of a step, with increasing damping
FROZEN_DAMPING = 1e4  # above it the scene does not change, and more damping has no effect


class FactorisedMatrix(NamedTuple):
    """A normal matrix, factorised."""

    inverses: list[Array]  # of the pivots, see `factorised`
    below: Array  # [N - 1, M, M]
    border: Array  # [N, M, 2], of gamma and the inverse squared focal length
    response: Array  # [N, M, 2], block-tridiagonal inverse times border
    schur: Array  # [2, 2], Schur complement of the border


class Step(NamedTuple):
    """A fit one step further."""

    fit: CameraFit
    evaluation: Evaluation
    factors: FactorisedMatrix  # that the step was solved with
    damping: float


def minimise(
    model: CameraModel,
    fit: CameraFit,
    steps: int,
    *,
    damping: float = 1.0,
    free: tuple[bool, bool] = (True, True),
    update_noise: bool = False,
) -> CameraFit:
    """Minimise the robust cost by iteratively reweighted Gauss-Newton steps.

    Args:
        model: of the clip.
        fit: initialisation.
        steps: at most.
        damping: initial damping of the scene; it grows where a step does not lower the cost.
        free: whether gamma and the inverse squared focal length may change.
        update_noise: estimate the noise of a cell and set up the matrix again after every step. Otherwise the noise
            stays fixed, and the matrix is kept as long as its steps lower the cost.
    """
    evaluation = model.evaluate(fit)
    fit = replace(fit, weight=evaluation.weight)
    evaluation = model.reevaluate(fit, evaluation)
    factors: FactorisedMatrix | None = None
    small_steps = 0
    for _ in range(steps):
        step = gauss_newton_step(model, fit, evaluation, None if update_noise else factors, damping, free)
        if step is None:
            break
        moved, evaluation, factors, damping = step
        damping = max(damping / 4.0, 1e-3)
        small_steps = small_steps + 1 if abs(moved.gamma - fit.gamma) < GAMMA_TOLERANCE else 0
        converged = small_steps == 3
        fit = replace(moved, weight=evaluation.weight)
        if update_noise:
            noise = typical_noise(model, evaluation)
            converged = abs(noise / fit.noise - 1.0) < NOISE_TOLERANCE
            fit = replace(fit, noise=noise)
        evaluation = model.reevaluate(fit, evaluation)
        if converged:
            break
    return fit


def gauss_newton_step(
    model: CameraModel,
    fit: CameraFit,
    evaluation: Evaluation,
    factors: FactorisedMatrix | None,
    damping: float,
    free: tuple[bool, bool],
    *,
    fixed_weights: bool = False,
) -> Step | None:
    """A step that does not raise the cost; None if no damping gives one.

    Args:
        model: of the clip.
        fit, evaluation: to start from.
        factors: a matrix factorised before, perhaps at another fit; a new one is set up where its step fails.
        damping: of the scene; it grows where a step fails.
        free: whether gamma and the inverse squared focal length may change.
        fixed_weights: compare the weighted cost, with the weights of the cells held fixed, and not the robust cost.
    """
    matrix: NormalMatrix | None = None
    right = right_hand_side(model, fit, evaluation)
    for _ in range(MAX_TRIES):
        if factors is None:
            matrix = normal_matrix(model, fit, evaluation) if matrix is None else matrix
            factors = factorise(model, fit, matrix, damping)
        moved = _solved(fit, right, factors, free)
        reached = model.evaluate(moved)
        if fixed_weights:
            lower = reached.weighted_cost <= evaluation.weighted_cost
        else:
            lower = reached.robust_cost <= evaluation.robust_cost
        if lower:
            return Step(moved, reached, factors, damping)
        if matrix is not None and damping > FROZEN_DAMPING:
            break
        damping *= 1.0 if matrix is None else 8.0
        factors = None
    return None


def factorise(model: CameraModel, fit: CameraFit, matrix: NormalMatrix, damping: float) -> FactorisedMatrix:
    """Factorise a normal matrix; damping holds the scene where it is."""
    diagonal = matrix.diagonal.copy()
    scene = np.arange(PATH, diagonal.shape[1])
    diagonal[:, scene, scene] += damping * fit.noise**2
    inverses = factorised(diagonal, matrix.below)
    response = solve_factorised(inverses, matrix.below, matrix.border)
    schur = matrix.corner - np.tensordot(matrix.border, response, ((0, 1), (0, 1)))
    schur[1, 1] += 1e-6 * model.weight.sum()
    return FactorisedMatrix(inverses, matrix.below, matrix.border, response, schur)


def changed(fit: CameraFit, change: Array, border_change: Array) -> CameraFit:
    """A fit with changes `[N, M]` added to path and scene, and `[2]` to gamma and the inverse squared focal length."""
    focal = np.clip(fit.inverse_focal_squared + border_change[1], 0.0, MAX_INVERSE_FOCAL_SQUARED)
    return replace(
        fit,
        path=fit.path + change[:, :PATH].reshape(-1, COORDINATES),
        inverse_depth=fit.inverse_depth + change[:, PATH:],
        gamma=float(np.clip(fit.gamma + border_change[0], MIN_GAMMA, MAX_GAMMA)),
        inverse_focal_squared=float(focal),
    )


def _solved(fit: CameraFit, right: RightHandSide, factors: FactorisedMatrix, free: tuple[bool, bool]) -> CameraFit:
    """The fit that the normal equations lead to; `free` as in `minimise`."""
    solution = solve_factorised(factors.inverses, factors.below, right.blocks)
    border_step, chosen = np.zeros(2), np.array(free)
    if chosen.any():
        reduced = right.border - np.tensordot(factors.border, solution, ((0, 1), (0, 1)))
        border_step[chosen] = np.linalg.solve(factors.schur[np.ix_(chosen, chosen)], reduced[chosen])
    border_step = np.clip(border_step, -MAX_BORDER_STEP, MAX_BORDER_STEP)
    return changed(fit, solution - factors.response @ border_step, border_step)
