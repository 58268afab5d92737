"""The camera, the scene and gamma that explain the motions of a clip: Gauss-Newton steps, then gamma by its likelihood.

Gamma is a shear over an acceleration, and a path that is merely the likeliest bends less than the true one: gamma then
comes out too large, by up to 0.13 on simulated clips. So the path and the scene are integrated out. At gammas beside
each other, with the weights of the cells held, the logarithm of the determinant of the equations is added to what is
left unexplained; the sum is twice the logarithm of the likelihood of gamma but for its sign. Its lowest place is the
estimate, and its curvature says how sure that is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from qrsc.calibrate.bending import learned_filters
from qrsc.calibrate.rigid import BLOCK, COORDINATES, KNOTS, MARGIN, Look, RigidFit, RigidModel, System
from qrsc.calibrate.spline import factored, log_determinant, solve_factored

Array = npt.NDArray[np.float64]

LEAST, MOST = -0.12, 1.1  # gammas that are tried
SMALLEST_ERROR = 0.03  # pixels
SAME_ERROR = 0.03  # change of the error of a cell that no longer matters
LARGEST_BEND = 1.2
LONGEST_STEP = 0.1
CALM = 1e-3  # steps of gamma that no longer matter, three in a row
SETTLED = 0.05  # what a step explains more, in squared errors, that no longer matters
ROUNDS = 6
APART = 0.04  # gammas whose likelihoods are compared
FURTHEST_MOVE = 2.5 * APART
THREADS = 2
PARTS = 12  # of the clip, whose disagreement also says how sure the estimate is
# Neighbouring flows err alike in ways that no fit of one clip can see: in simulated clips of 59 pairs, gamma is off by
# about this part of a cell's error, taken over how much the motion changes from frame to frame.
SHARED = 0.25
SHARED_PAIRS = 59
# Even with the largest motions and the least noise, gamma is off by about as much.
LEAST_DOUBT = 0.008


@dataclass(frozen=True)
class _Likelihood:
    """How unlikely a gamma is, and the fit there."""

    fit: RigidFit
    unlikely: float


def fit_camera(model: RigidModel, gamma: float) -> tuple[RigidFit, float]:
    """Camera, scene and gamma from a gamma nearby, and the standard error of gamma."""
    nearness = np.tile(model.depth.expected, (model.blocks, 1))
    fit = RigidFit(np.zeros((model.blocks * BLOCK, COORDINATES)), nearness, 0.3, gamma, model.weight, 0.3)
    # The path alone, then the scene with it, then gamma.
    fit = _settled(model, fit, 2, damping=1e6, free=(False, False), anew=True)
    fit = _settled(model, fit, 10, free=(False, True), anew=True)
    fit = _settled(model, fit, 8, anew=True)
    fit = _settled(model, fit, 8)
    seen = fit.path[MARGIN : MARGIN + model.pairs * KNOTS + 2]
    model.expect(learned_filters(seen, model.proportions))
    fit = _settled(model, fit, 4, free=(False, True))
    best, width = _likeliest(model, fit)
    shared = SHARED * fit.error / model.change * math.sqrt(SHARED_PAIRS / model.pairs)
    return best, max(LEAST_DOUBT, math.hypot(max(width, _disagreement(model, best)), shared))


def _likeliest(model: RigidModel, fit: RigidFit) -> tuple[RigidFit, float]:
    """The fit at the likeliest gamma, and the standard error of gamma by how likely those beside it are."""
    known: dict[float, _Likelihood] = {}

    def look_at(gammas: list[float]) -> list[_Likelihood]:
        new = [gamma for gamma in gammas if gamma not in known]
        fits = [one.fit for one in known.values()] or [fit]
        starts = [min(fits, key=lambda one: abs(one.gamma - gamma)) for gamma in new]
        with ThreadPoolExecutor(THREADS) as threads:
            known.update(zip(new, threads.map(partial(_likelihood, model), starts, new), strict=True))
        return [known[gamma] for gamma in gammas]

    gamma, width = fit.gamma, math.inf
    for _ in range(8):
        gamma = round(float(np.clip(gamma, LEAST + APART, MOST - APART)), 6)
        low, middle, high = (one.unlikely for one in look_at([gamma - APART, gamma, gamma + APART]))
        curvature = (low - 2.0 * middle + high) / APART**2
        if curvature > 0.0:
            move, width = (low - high) / (2.0 * APART) / curvature, math.sqrt(2.0 / curvature)
        else:
            move, width = math.copysign(FURTHEST_MOVE, low - high), math.inf
        gamma += float(np.clip(move, -FURTHEST_MOVE, FURTHEST_MOVE))
        if abs(move) < 0.7 * APART:
            break
    return look_at([round(gamma, 6)])[0].fit, width


def _likelihood(model: RigidModel, fit: RigidFit, gamma: float) -> _Likelihood:
    """How unlikely a gamma is, from a fit nearby; the weights of the cells stay as they are."""
    fit = replace(fit, gamma=gamma)
    fit = _settled(model, fit, ROUNDS, damping=0.01, free=(False, True), hold=True)
    look = model.look(fit)
    system = model.system(fit, look)
    determinant = system.log_determinant + log_determinant(factored(system.diagonal, system.below))
    return _Likelihood(fit, look.held + determinant)


def _settled(
    model: RigidModel,
    fit: RigidFit,
    rounds: int,
    *,
    damping: float = 1.0,
    free: tuple[bool, bool] = (True, True),
    anew: bool = False,
    hold: bool = False,
) -> RigidFit:
    """Steps until gamma is calm, or, with weights held, until they explain no more.

    Args:
        model: of the clip.
        fit: to start from.
        rounds: most steps.
        damping: what holds the scene where it is, in the beginning; steps that do not help are held more.
        free: whether gamma and the bend may change.
        anew: whether the error of a cell is found anew after every step.
        hold: whether the weights of the cells stay as they are.
    """
    look = model.look(fit)
    if not hold:
        fit = replace(fit, weight=look.weight)
        look = model.look(fit)
    cost: Callable[[Look], float] = (lambda seen: seen.held) if hold else (lambda seen: seen.cost)
    calm = 0
    for _ in range(rounds):
        system = model.system(fit, look)
        for _ in range(6):
            moved = _moved(model, fit, system, damping, np.array(free))
            seen = model.look(moved)
            if cost(seen) <= cost(look):
                break
            damping *= 8.0
        else:
            return fit
        calm = calm + 1 if abs(moved.gamma - fit.gamma) < CALM else 0
        damping = max(damping / 4.0, 1e-3)
        if hold:
            settled = cost(look) - cost(seen) < SETTLED
            fit, look = moved, seen
        else:
            settled = calm == 3
            fit = replace(moved, weight=seen.weight)
            if anew:
                error = _typical_error(model, seen)
                settled = abs(error / fit.error - 1.0) < SAME_ERROR
                fit = replace(fit, error=error)
            look = model.look(fit)
        if settled:
            break
    return fit


def _typical_error(model: RigidModel, look: Look) -> float:
    size = np.sqrt((look.own**2).sum(-1))[model.weight > 0.05]
    return max(SMALLEST_ERROR, float(np.median(size)) / 1.18 if size.size else 1.0)


def _disagreement(model: RigidModel, fit: RigidFit) -> float:
    """Standard error of gamma by how far parts of the clip pull it to either side."""
    look = model.look(fit)
    system = model.system(fit, look)
    answers, matrix, _ = _answers(model, fit, system, 0.0)
    by_bend = matrix[1, 0] / matrix[1, 1]
    curvature = float(matrix[0, 0] - matrix[0, 1] * by_bend)
    if curvature <= 0.0:
        return math.inf
    answer = answers[..., 1] - answers[..., 2] * by_bend
    path = look.values @ model.at_pairs(answer[:, : BLOCK * COORDINATES].reshape(-1, COORDINATES))
    near = model.depth.at_cells(answer[:, BLOCK * COORDINATES :])
    # What gamma does to each cell that nothing else could do.
    alone = system.by_gamma - by_bend * system.by_bend - near[..., None] * system.by_nearness
    alone -= (look.fields @ path[..., None])[..., 0]
    pulls = (fit.weight[..., None] * alone * look.own).sum((1, 2))
    parts = np.array([part.sum() for part in np.array_split(pulls - pulls.mean(), PARTS)])
    return math.sqrt(float((parts**2).sum())) / curvature


def _answers(model: RigidModel, fit: RigidFit, system: System, damping: float) -> tuple[Array, Array, Array]:
    """How path and nearness answer to residual, gamma and bend, `[N, M, 3]`; equations left for the last two."""
    diagonal = system.diagonal.copy()
    held = np.arange(BLOCK * COORDINATES, diagonal.shape[1])
    diagonal[:, held, held] += damping * fit.error**2
    answers = solve_factored(factored(diagonal, system.below), system.below, system.right)
    corner = system.corner - np.tensordot(system.right, answers, ((0, 1), (0, 1)))
    return answers, corner[1:, 1:] + np.diag([0.0, 1e-6 * model.weight.sum()]), corner[1:, 0]


def _moved(model: RigidModel, fit: RigidFit, system: System, damping: float, free: Array) -> RigidFit:
    """A fit one step further."""
    answers, matrix, vector = _answers(model, fit, system, damping)
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
