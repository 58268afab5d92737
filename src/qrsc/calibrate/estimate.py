"""Gamma from the motions of a clip: the one at which a single motion of the camera explains all rows best.

Convention
    A signed gamma runs along an axis: positive for `top-down` and `left-right`, negative for `bottom-up` and
    `right-left`. What is not explained is counted in squared errors of a cell, so that a curve that rises by a few
    tens within its range is a sharp one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from qrsc.backend.threads import at_most_threads
from qrsc.calibrate.cell_motions import ClipMotions
from qrsc.calibrate.fit_camera import fit_camera
from qrsc.calibrate.motion_model import COORDINATES, KNOTS, Fit, MotionModel
from qrsc.calibrate.rigid import RigidModel
from qrsc.calibrate.spline import few_threads
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
STEP = 0.06  # half width of the parabola that finds the lowest point of the rough search
# How freely the path may bend: 1 allows the accelerations seen from frame to frame, less allows more.
STIFFNESS = 0.4
BLOCKS = 12  # parts of the clip whose disagreement says how sure the choice of an axis is
# Standard errors on either side of an interval.
INTERVAL = 2.0
# An interval that is wider than this to either side, or a motion that changes by fewer pixels from frame to frame, does
# not determine gamma. Of 176 simulated clips, 93 are within it, and 95 % of these at most 0.027 off.
WIDEST = 0.05
LEAST_CHANGE = 0.25
# A global shutter need not be known that well: what is read within a tenth of a frame leaves little to correct.
WIDEST_GLOBAL = 0.1
# The other axis must explain the clip worse by so many of its own doubts.
AXIS_MARGIN = 1.5
# Gammas below are a global shutter. So are those whose interval begins below and ends within a tenth of a frame: the
# clip cannot tell them from 0, and hardly a rolling shutter is that quick.
GLOBAL = 0.04


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
        return self.determined and _global(self.gamma, self.low, self.high)

    @property
    def half_width(self) -> float:
        """Half of the interval."""
        return 0.5 * (self.high - self.low)


def estimate_readout(
    motions: ClipMotions,
    *,
    scan: Scan | None = None,
    either_axis: bool = False,
    around: float | None = None,
    reach: float = 0.25,
) -> Calibration:
    """Find the readout that explains the motions of a clip best.

    Args:
        motions: of the clip.
        scan: the direction, if it is known; if not, both along the shorter side of the frame are tried: sensors are
            read line by line along their longer side.
        either_axis: try the directions along the longer side as well.
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
    # Matrix products are many and small here. With both of two busy cores to wait for, they took five times as long.
    with at_most_threads(1):
        searches = [
            _search(axis, motions if axis == "rows" else motions.transposed(), _candidates(axis, scan, around, reach))
            for axis in _axes(scan, None if either_axis else motions.size)
        ]
        best, clear = _chosen(searches)
        gamma, doubt = _refined(best, motions if best.axis == "rows" else motions.transposed())
    half = INTERVAL * doubt
    low, high = abs(gamma) - half, abs(gamma) + half
    at_once = half <= WIDEST_GLOBAL and _global(abs(gamma), low, high)
    # Along the wrong axis gamma means nothing: without a clear one it could be anything.
    clear = clear or at_once
    reason = _objection(gamma, half, WIDEST_GLOBAL if at_once else WIDEST, clear)
    if not clear:
        low, high = 0.0, 1.0
    return Calibration(
        gamma=min(1.0, abs(gamma)),
        low=float(np.clip(low, 0.0, 1.0)),
        high=float(np.clip(high, 0.0, 1.0)),
        scan=scan or SCAN_OF[best.axis, bool(gamma < 0 and abs(gamma) >= GLOBAL and not at_once)],
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


def _global(gamma: float, low: float, high: float) -> bool:
    """Whether a gamma and its interval are those of a global shutter, as far as a clip can tell."""
    return gamma < GLOBAL or (low < GLOBAL and high <= WIDEST_GLOBAL)


def _unknown(motions: ClipMotions, reason: str, speed: float, change: float, scan: Scan | None) -> Calibration:
    nothing = np.zeros(0)
    return Calibration(0.5, 0.0, 1.0, scan or "top-down", False, reason, speed, change, motions.pairs, nothing, nothing)


def _axes(scan: Scan | None, size: tuple[int, int] | None) -> tuple[Axis, ...]:
    """Those to try; a size is that of a frame that was read along its longer side."""
    if scan is not None:
        return ("rows",) if scan in ("top-down", "bottom-up") else ("columns",)
    if size is None:
        return ("rows", "columns")
    return ("rows",) if size[0] <= size[1] else ("columns",)


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
        gammas, costs: `[N]`, the curve.
        gamma: about the lowest place.
        by_pair: `[P]`, cost of each pair there, in squared pixels, which the two axes have in common.
    """

    axis: Axis
    gammas: Array
    costs: Array
    gamma: float
    by_pair: Array


def _search(axis: Axis, motions: ClipMotions, gammas: Array) -> _Search:
    model = MotionModel(motions.liveliest(COARSE_PAIRS))
    start = model.fit(0.0, None, stiff=np.full(COORDINATES, 1e-3), rounds=4)
    # Second differences of the path that the accelerations seen from frame to frame amount to, outliers cut off.
    change = np.abs(np.diff(np.median(start.steps, axis=1), axis=0))
    change = np.minimum(change, 3.0 * np.median(change, axis=0) + 1e-9)
    stiff = STIFFNESS / (np.maximum((change**2).mean(0), 1e-4) / KNOTS**4)
    rough = [model.fit(gamma, start, stiff=stiff * start.error**2, rounds=2) for gamma in (-0.5, 0.5)]
    error = min(fit.error for fit in rough)
    fit_at = partial(model.fit, start=start, stiff=stiff * error**2, rounds=2, error=error)
    with few_threads() as threads:
        fits = list(threads.map(fit_at, gammas.tolist()))
    costs = np.array([fit.total for fit in fits])
    lowest = int(costs.argmin())
    # Costs of the two axes are compared at their lowest places, which the grid may have missed by half a step.
    gamma = _lowest(model, float(gammas[lowest]), fits[lowest], stiff, error)
    place = model.fit(gamma, fits[lowest], stiff=stiff * error**2, rounds=2, error=error)
    return _Search(axis, gammas, costs, gamma, place.cost * error**2)


def _lowest(model: MotionModel, gamma: float, fit: Fit, stiff: Array, error: float) -> float:
    """Where a parabola through the costs at a gamma and one step to either side of it is lowest."""
    places = gamma + STEP * np.array([-1.0, 0.0, 1.0])
    costs = [model.fit(float(place), fit, stiff=stiff * error**2, rounds=3, error=error).total for place in places]
    curvature = (costs[0] - 2.0 * costs[1] + costs[2]) / STEP**2
    if curvature <= 0:
        return float(places[int(np.argmin(costs))])
    move = -(costs[2] - costs[0]) / (2.0 * STEP) / curvature
    return float(np.clip(gamma + np.clip(move, -2.0 * STEP, 2.0 * STEP), -FURTHEST, FURTHEST))


def _refined(search: _Search, motions: ClipMotions) -> tuple[float, float]:
    """The signed gamma that a camera moving through a scene explains best, and its standard error."""
    upwards = search.gamma < 0
    fit, doubt = fit_camera(RigidModel(motions.mirrored() if upwards else motions), min(1.0, abs(search.gamma)))
    return (-fit.gamma if upwards else fit.gamma), doubt


def _chosen(searches: list[_Search]) -> tuple[_Search, bool]:
    """The axis that explains the clip best, and whether it does by more than the parts of the clip disagree."""
    best, *others = sorted(searches, key=lambda search: float(search.by_pair.sum()))
    for other in others:
        parts = np.array([block.sum() for block in np.array_split(other.by_pair - best.by_pair, BLOCKS)])
        if parts.sum() < AXIS_MARGIN * math.sqrt(float(((parts - parts.mean()) ** 2).sum())):
            return best, False
    return best, True


def _objection(gamma: float, half: float, widest: float, clear: bool) -> str:
    """Why the clip does not determine gamma, whose interval is that wide to either side; empty if it does."""
    if half > widest:
        wide = f"plus or minus {half:.2f}" if half < 1.0 else "anything"
        return f"the motion hardly tells the rows apart: gamma could be off by {wide}"
    if abs(gamma) >= FURTHEST - 1e-6:
        return "no gamma up to 1 fits: frames may be missing, or the clip may be edited or stabilised"
    if not clear:
        return "a scan along rows and one along columns explain the motion about as well; say which it is with --scan"
    return ""
