"""The coarse search: which axis, which direction and roughly which gamma explain the liveliest part of a clip."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from qrsc.calibrate.cell_motions import ClipMotions
from qrsc.calibrate.linear_algebra import small_thread_pool
from qrsc.calibrate.similarity_model import COORDINATES, KNOTS, SimilarityFit, SimilarityModel

Array = npt.NDArray[np.float64]
Axis = Literal["rows", "columns"]

COARSE_PAIRS = 60  # most active pairs, for the coarse search: it only has to find the right axis and the right minimum
MAX_GAMMA = 1.05
PARABOLA_STEP = 0.06  # spacing of the parabola through the minimum of the coarse search
# Stiffness of the path, relative to the accelerations seen from frame to frame: a lower one allows more.
STIFFNESS = 0.4
CLIP_PARTS = 12  # parts of the clip whose disagreement gives the standard error of the choice of an axis
# The other axis must fit the clip worse by so many standard errors.
AXIS_MARGIN = 1.5
# The other direction must fit it worse by so many.
DIRECTION_MARGIN = 2.0


@dataclass(frozen=True)
class CoarseSearch:
    """The coarse search along one axis, over part of the clip.

    Attributes:
        axis: of the scan.
        gammas, costs: `[N]`, the cost curve.
        gamma: its minimum.
        by_pair: `[P]`, cost of each pair there, in squared pixels, comparable between the two axes.
        clear_direction: whether the best gamma of the other sign fits clearly worse, if there is one.
    """

    axis: Axis
    gammas: Array
    costs: Array
    gamma: float
    by_pair: Array
    clear_direction: bool


def coarse_search(axis: Axis, motions: ClipMotions, gammas: Array) -> CoarseSearch:
    """Compare signed gammas `[N]` along an axis by one similarity motion; a scan along it runs along y in `motions`."""
    model = SimilarityModel(motions.most_active(COARSE_PAIRS))
    start = model.fit(0.0, None, stiffness=np.full(COORDINATES, 1e-3), iterations=4)
    # Variance of the second differences of the path, from the accelerations seen from frame to frame, outliers clipped.
    change = np.abs(np.diff(np.median(start.steps, axis=1), axis=0))
    change = np.minimum(change, 3.0 * np.median(change, axis=0) + 1e-9)
    stiffness = STIFFNESS / (np.maximum((change**2).mean(0), 1e-4) / KNOTS**4)
    trials = [model.fit(gamma, start, stiffness=stiffness * start.noise**2, iterations=2) for gamma in (-0.5, 0.5)]
    noise = min(fit.noise for fit in trials)
    fit_at = partial(model.fit, start=start, stiffness=stiffness * noise**2, iterations=2, noise=noise)
    with small_thread_pool() as threads:
        fits = list(threads.map(fit_at, gammas.tolist()))
    costs = np.array([fit.total for fit in fits])
    lowest = int(costs.argmin())
    # The two axes are compared at their minima, which the coarse gammas may miss by half their spacing.
    gamma = _interpolated_minimum(model, float(gammas[lowest]), fits[lowest], stiffness, noise)
    best = model.fit(gamma, fits[lowest], stiffness=stiffness * noise**2, iterations=2, noise=noise)
    opposite = [fit for fit, other in zip(fits, gammas.tolist(), strict=True) if other * gamma < 0.0]
    clear = not opposite or _fits_better(best.cost, min(opposite, key=lambda fit: fit.total).cost, DIRECTION_MARGIN)
    return CoarseSearch(axis, gammas, costs, gamma, best.cost * noise**2, clear)


def _interpolated_minimum(
    model: SimilarityModel, gamma: float, fit: SimilarityFit, stiffness: Array, noise: float
) -> float:
    """Minimum of a parabola through the costs at a gamma and one step to either side of it."""
    gammas = gamma + PARABOLA_STEP * np.array([-1.0, 0.0, 1.0])
    costs = [
        model.fit(float(each), fit, stiffness=stiffness * noise**2, iterations=3, noise=noise).total for each in gammas
    ]
    curvature = (costs[0] - 2.0 * costs[1] + costs[2]) / PARABOLA_STEP**2
    if curvature <= 0:
        return float(gammas[int(np.argmin(costs))])
    move = -(costs[2] - costs[0]) / (2.0 * PARABOLA_STEP) / curvature
    limit = 2.0 * PARABOLA_STEP
    return float(np.clip(gamma + np.clip(move, -limit, limit), -MAX_GAMMA, MAX_GAMMA))


def best_axis(searches: list[CoarseSearch]) -> tuple[CoarseSearch, bool]:
    """The axis that fits the clip best, and whether it does so by more than the parts of the clip disagree."""
    best, *others = sorted(searches, key=lambda search: float(search.by_pair.sum()))
    return best, all(_fits_better(best.by_pair, other.by_pair, AXIS_MARGIN) for other in others)


def _fits_better(costs: Array, others: Array, margin: float) -> bool:
    """Whether costs `[P]` are lower than others by more than so many standard errors, from the parts of the clip."""
    parts = np.array([part.sum() for part in np.array_split(others - costs, CLIP_PARTS)])
    return bool(parts.sum() >= margin * math.sqrt(float(((parts - parts.mean()) ** 2).sum())))
