"""Gamma from the motions of a clip: the one at which a single motion of the camera explains all rows best.

Convention
    A signed gamma runs along an axis: positive for `top-down` and `left-right`, negative for `bottom-up` and
    `right-left`. What is not explained is counted in squared errors of a cell, so that a curve that rises by a few
    tens within its range is a sharp one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from qrsc.calibrate.model import COORDINATES, KNOTS, Fit, MotionModel
from qrsc.calibrate.motions import ClipMotions
from qrsc.timing import Scan

Array = npt.NDArray[np.float64]
Axis = Literal["rows", "columns"]

SCAN_OF: dict[tuple[Axis, bool], Scan] = {
    ("rows", False): "top-down",
    ("rows", True): "bottom-up",
    ("columns", False): "left-right",
    ("columns", True): "right-left",
}

FEWEST_PAIRS = 10
COARSE = np.linspace(-1.05, 1.05, 13)
COARSE_PAIRS = 60  # the rough search looks at the liveliest so many: it only has to find the right axis and valley
FURTHEST = 1.05
STEPS = (0.06, 0.03, 0.02)  # half widths of the parabolas that close in on the lowest point
# How freely the path may bend: 1 allows the accelerations seen from frame to frame, less allows more.
STIFFNESS = 0.4
BLOCKS = 12  # parts of the clip whose disagreement says how sure the estimate is
# Errors on either side of an interval, and what is added for what all parts of a clip get wrong alike.
INTERVAL = 2.5
COMMON_DOUBT = 0.005
# An interval that is wider than this to either side, or a motion that changes by fewer pixels from frame to frame, does
# not determine gamma.
WIDEST = 0.06
LEAST_CHANGE = 0.25
# The other axis must explain the clip worse by so many of its own doubts.
AXIS_MARGIN = 1.5
GLOBAL = 0.04  # gammas below are a global shutter


@dataclass(frozen=True)
class Calibration:
    """What a clip says about the readout of its camera.

    Attributes:
        gamma: best estimate, 0 to 1, whether or not the clip determines it.
        low, high: interval that holds the true one, 0 to 1.
        scan: the direction that goes with it.
        determined: whether the clip determines it.
        reason: why, or why not, in a sentence.
        speed: typical motion of the picture, in pixels per frame.
        change: how much that changes from frame to frame, in pixels.
        pairs: how many pairs of frames were looked at.
        curve_gammas, curve_costs: `[N]`, what is left unexplained at signed gammas along the axis of `scan`.
    """

    gamma: float
    low: float
    high: float
    scan: Scan
    determined: bool
    reason: str
    speed: float
    change: float
    pairs: int
    curve_gammas: Array
    curve_costs: Array

    @property
    def is_global(self) -> bool:
        """Whether the clip shows that there is nothing to correct."""
        return self.determined and self.gamma < GLOBAL

    @property
    def half_width(self) -> float:
        """Half of the interval."""
        return 0.5 * (self.high - self.low)


def estimate_readout(
    motions: ClipMotions, *, scan: Scan | None = None, around: float | None = None, reach: float = 0.25
) -> Calibration:
    """Find the readout that explains the motions of a clip best.

    Args:
        motions: of the clip.
        scan: the direction, if it is known; all four are tried if not.
        around: gamma to look around, if something is known about it.
        reach: how far around.
    """
    speed, change = _amounts(motions)
    if motions.pairs < FEWEST_PAIRS:
        reason = f"the clip is too short: {motions.pairs + 1} frames, at least {FEWEST_PAIRS + 1} are needed"
        return _unknown(motions, reason, speed, change, scan)
    if change < LEAST_CHANGE:
        still = "stands still" if speed < 2 * LEAST_CHANGE else "moves at a steady speed"
        reason = (
            f"the picture {still} (it changes its speed by {change:.2f} px per frame), and then all rows look alike"
        )
        return _unknown(motions, reason, speed, change, scan)
    searches = [
        _search(axis, motions if axis == "rows" else motions.transposed(), _candidates(axis, scan, around, reach))
        for axis in _axes(scan)
    ]
    best = min(searches, key=lambda search: float(search.by_pair.sum()))
    gamma, doubt = _refined(best, motions if best.axis == "rows" else motions.transposed())
    reason = _objection(best, [search for search in searches if search is not best], gamma, doubt)
    half = INTERVAL * doubt + COMMON_DOUBT
    low, high = sorted((abs(gamma) - half, abs(gamma) + half)) if abs(gamma) > half else (0.0, abs(gamma) + half)
    return Calibration(
        gamma=min(1.0, abs(gamma)),
        low=float(np.clip(low, 0.0, 1.0)),
        high=float(np.clip(high, 0.0, 1.0)),
        scan=scan or SCAN_OF[best.axis, bool(gamma < 0 and abs(gamma) >= GLOBAL)],
        determined=not reason,
        reason=reason or f"the motion changes by {change:.1f} px per frame, which tells the times of the rows apart",
        speed=speed,
        change=change,
        pairs=motions.pairs,
        curve_gammas=best.gammas,
        curve_costs=best.costs,
    )


def _amounts(motions: ClipMotions) -> tuple[float, float]:
    """Typical speed of the dominant motion and typical change of it from pair to pair, in pixels."""
    dominant = motions.dominant()
    if not len(dominant):
        return 0.0, 0.0
    changes = np.diff(dominant, axis=0)
    speed = float(np.sqrt((dominant**2).sum(1).mean()))
    # Half of the changes, the smaller ones, decide: one jump is no motion that rows could be told apart by.
    return speed, 1.48 * float(np.median(np.hypot(*changes.T))) if len(changes) else 0.0


def _unknown(motions: ClipMotions, reason: str, speed: float, change: float, scan: Scan | None) -> Calibration:
    nothing = np.zeros(0)
    return Calibration(0.5, 0.0, 1.0, scan or "top-down", False, reason, speed, change, motions.pairs, nothing, nothing)


def _axes(scan: Scan | None) -> tuple[Axis, ...]:
    if scan is None:
        return ("rows", "columns")
    return ("rows",) if scan in ("top-down", "bottom-up") else ("columns",)


def _candidates(axis: Axis, scan: Scan | None, around: float | None, reach: float) -> Array:
    """Signed gammas to try; a known direction still allows for a little on the other side, where 0 lies."""
    tried = COARSE
    if around is not None:
        tried = np.concatenate(
            [-np.linspace(around + reach, around - reach, 7), np.linspace(around - reach, around + reach, 7)]
        )
    if scan is not None:
        sign = 1.0 if scan == SCAN_OF[axis, False] else -1.0
        tried = tried[tried * sign > -0.2]
    return tried[np.abs(tried) <= FURTHEST]


@dataclass(frozen=True)
class _Search:
    """The rough search along one axis, over part of the clip.

    Attributes:
        axis: along which.
        stiff: `[4]`, see `MotionModel.fit`, for an error of one pixel.
        gammas, costs: `[N]`, the curve.
        gamma: about the lowest place.
        by_pair: `[P]`, cost of each pair there, in squared pixels, which the two axes have in common.
        fit: near it.
    """

    axis: Axis
    stiff: Array
    gammas: Array
    costs: Array
    gamma: float
    by_pair: Array
    fit: Fit


def _search(axis: Axis, motions: ClipMotions, gammas: Array) -> _Search:
    model = MotionModel(motions.liveliest(COARSE_PAIRS))
    start = model.fit(0.0, None, stiff=np.full(COORDINATES, 1e-3), rounds=4)
    # Second differences of the path that the accelerations seen from frame to frame amount to, outliers cut off.
    change = np.abs(np.diff(np.median(start.steps, axis=1), axis=0))
    change = np.minimum(change, 3.0 * np.median(change, axis=0) + 1e-9)
    stiff = STIFFNESS / (np.maximum((change**2).mean(0), 1e-4) / KNOTS**4)
    rough = [model.fit(gamma, start, stiff=stiff * start.error**2, rounds=2) for gamma in (-0.5, 0.5)]
    error = min(fit.error for fit in rough)
    fits = [model.fit(float(gamma), start, stiff=stiff * error**2, rounds=2, error=error) for gamma in gammas]
    costs = np.array([fit.total for fit in fits])
    lowest = int(costs.argmin())
    valley = _Valley.around(model, float(gammas[lowest]), fits[lowest], STEPS[0], stiff, error)
    # Costs of the two axes are compared at their lowest places, which the grid may have missed by half a step.
    place = model.fit(valley.lowest, valley.fit, stiff=stiff * error**2, rounds=2, error=error)
    return _Search(axis, stiff, gammas, costs, valley.lowest, place.cost * error**2, place)


@dataclass(frozen=True)
class _Valley:
    """A parabola through the costs at three gammas.

    Attributes:
        lowest: where it is lowest, or the lowest of the three places if it is none.
        doubt: standard error of that, infinite if it is none.
        fit: at the lowest of the three places.
    """

    lowest: float
    doubt: float
    fit: Fit

    @classmethod
    def around(cls, model: MotionModel, gamma: float, fit: Fit, step: float, stiff: Array, error: float) -> _Valley:
        """Fit the motion at a gamma and one step to either side of it."""
        places = gamma + step * np.array([-1.0, 0.0, 1.0])
        fits = [model.fit(float(place), fit, stiff=stiff * error**2, rounds=3, error=error) for place in places]
        costs = np.array([one.total for one in fits])
        lowest = int(costs.argmin())
        curvature = float(costs[0] - 2.0 * costs[1] + costs[2]) / step**2
        if curvature <= 0:
            return cls(float(places[lowest]), math.inf, fits[lowest])
        move = -float(costs[2] - costs[0]) / (2.0 * step) / curvature
        slopes = (fits[2].cost - fits[0].cost) / (2.0 * step)  # [P]
        blocks = np.array([block.sum() for block in np.array_split(slopes - slopes.mean(), BLOCKS)])
        # A parabola of squared errors rises by 1 at one standard error if errors are as small and independent as they
        # are taken to be; the disagreement of the parts of the clip says how far they are not.
        doubt = max(math.sqrt(float((blocks**2).sum())) / curvature, math.sqrt(2.0 / curvature))
        place = float(np.clip(gamma + np.clip(move, -2.0 * step, 2.0 * step), -FURTHEST, FURTHEST))
        return cls(place, doubt, fits[lowest])


def _refined(search: _Search, motions: ClipMotions) -> tuple[float, float]:
    """The signed gamma at the lowest place, from all pairs, and its standard error."""
    model = MotionModel(motions)
    start = search.fit if motions.pairs == len(search.by_pair) else None
    valley = _Valley(search.gamma, math.inf, search.fit)
    fit = model.fit(search.gamma, start, stiff=search.stiff * search.fit.error**2, rounds=4)
    for step in STEPS:
        valley = _Valley.around(model, valley.lowest, fit, step, search.stiff, fit.error)
        fit = model.fit(valley.lowest, valley.fit, stiff=search.stiff * fit.error**2, rounds=2)
    return valley.lowest, valley.doubt


def _objection(best: _Search, others: list[_Search], gamma: float, doubt: float) -> str:
    """Why the clip does not determine gamma; empty if it does."""
    half = INTERVAL * doubt + COMMON_DOUBT
    if half > WIDEST:
        wide = f"plus or minus {half:.2f}" if half < 1.0 else "anything"
        return f"the motion hardly tells the rows apart: gamma could be off by {wide}"
    if abs(gamma) >= FURTHEST - 1e-6:
        return "no gamma up to 1 fits: frames may be missing, or the clip may be edited or stabilised"
    if abs(gamma) < GLOBAL:
        return ""
    for other in others:
        difference = other.by_pair - best.by_pair
        parts = np.array([block.sum() for block in np.array_split(difference, BLOCKS)])
        if parts.sum() < AXIS_MARGIN * math.sqrt(float(((parts - parts.mean()) ** 2).sum())):
            return (
                "a scan along rows and one along columns explain the motion about as well; say which it is with --scan"
            )
    return ""
