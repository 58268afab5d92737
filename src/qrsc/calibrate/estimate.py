"""Gamma from the motions of a clip: the one at which a single camera motion fits all rows best.

Convention
    A signed gamma runs along an axis: positive for `top-down` and `left-right`, negative for `bottom-up` and
    `right-left`. Costs are sums of squared residuals in units of the noise of a cell, so that a cost curve that rises
    by a few tens within its range is a sharp one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from qrsc.backend.threads import at_most_threads
from qrsc.calibrate.camera_model import CameraModel
from qrsc.calibrate.cell_motions import ClipMotions
from qrsc.calibrate.dropped_frames import drops_frames
from qrsc.calibrate.fit_camera import fit_camera
from qrsc.calibrate.gauss_newton import MAX_GAMMA as MAX_FITTED
from qrsc.calibrate.gauss_newton import MIN_GAMMA as MIN_FITTED
from qrsc.calibrate.linear_algebra import small_thread_pool
from qrsc.calibrate.similarity_model import COORDINATES, KNOTS, SimilarityFit, SimilarityModel
from qrsc.timing import Readout, Scan

Array = npt.NDArray[np.float64]
Axis = Literal["rows", "columns"]

SCAN_OF: dict[tuple[Axis, bool], Scan] = {
    ("rows", False): "top-down",
    ("rows", True): "bottom-up",
    ("columns", False): "left-right",
    ("columns", True): "right-left",
}

MIN_PAIRS = 10
COARSE_GAMMAS = np.linspace(-1.05, 1.05, 13)
COARSE_PAIRS = 60  # most active pairs, for the coarse search: it only has to find the right axis and the right minimum
MAX_GAMMA = 1.05
AROUND_RANGE = 0.25  # of the search to either side of a gamma that is known approximately
FIT_RANGE, EDGE = (MIN_FITTED, MAX_FITTED), 0.005
PARABOLA_STEP = 0.06  # spacing of the parabola through the minimum of the coarse search
# Stiffness of the path, relative to the accelerations seen from frame to frame: a lower one allows more.
STIFFNESS = 0.4
CLIP_PARTS = 12  # parts of the clip whose disagreement gives the standard error of the choice of an axis
INTERVAL = 2.0  # standard errors on either side of the estimate
# A clip with a wider interval to either side, or a motion that changes by fewer pixels from frame to frame, does not
# determine gamma. Of 176 simulated clips, 93 are within it, and 95 % of these at most 0.027 off.
MAX_HALF_WIDTH = 0.05
MIN_CHANGE = 0.25
# A clip in which a larger part of the frames repeat the one before, here and there, was re-timed, as from 24 to 30
# frames per second.
MAX_REPEATED = 0.03
# A global shutter need not be known that well: a readout within a tenth of a frame leaves little to correct.
MAX_HALF_WIDTH_GLOBAL = 0.1
# The other axis must fit the clip worse by so many standard errors.
AXIS_MARGIN = 1.5
# The other direction must fit it worse by so many.
DIRECTION_MARGIN = 2.0
# Gammas below are a global shutter. So are those whose interval begins below and ends within a tenth of a frame: the
# clip cannot tell them from 0, and hardly any rolling shutter is that quick.
GLOBAL_GAMMA = 0.04


@dataclass(frozen=True)
class Calibration:
    """What a clip says about the readout of its camera.

    Attributes:
        gamma: most probable value, 0 to 1, whether or not the clip determines it.
        low, high: interval of two standard errors to either side, within 0 to 1.
        least: lower end of the interval with its sign, -1 to 1: below 0 it includes the opposite direction.
        scan: the direction that goes with it.
        determined: whether the clip determines it.
        reason: why, or why not, in a sentence.
        speed: typical motion of the picture, in pixels per frame.
        change: typical change of that motion from frame to frame, in pixels.
        fastest: motion that 99 % of the textured cells stay below, in pixels per frame.
        error: standard error of gamma.
        pairs: number of pairs of frames used.
        curve_gammas, curve_costs: `[N]`, signed gammas along the axis of `scan`, and the residual cost at each.
        gyro: correlation of the motion of the picture with a gyroscope in the file, 0 to 1; None without one.
    """

    gamma: float
    low: float
    high: float
    least: float
    scan: Scan
    determined: bool
    reason: str
    speed: float
    change: float
    fastest: float
    error: float
    pairs: int
    curve_gammas: Array
    curve_costs: Array
    gyro: float | None = None

    @property
    def is_global(self) -> bool:
        """Whether the clip shows that there is nothing to correct."""
        return self.determined and _is_global(self.gamma, self.low, self.high)

    @property
    def half_width(self) -> float:
        """Half the width of the interval."""
        return 0.5 * (self.high - self.low)

    @property
    def measured(self) -> bool:
        """Whether there was enough motion for an estimate at all."""
        return len(self.curve_costs) > 0

    @property
    def both_directions(self) -> bool:
        """Whether the clip leaves open in which of two directions its rows are read."""
        return self.least < 0.0

    def worst_change(self, gamma: float) -> float:
        """How far the fastest parts of the picture can be from where they belong, in pixels, corrected with a gamma.

        A gamma that is off by d moves the first and the last row, half a readout from the middle one, by d / 2 of their
        motion per frame. The largest d is that of the farther end of the interval.
        """
        return 0.5 * self.fastest * max(self.high - gamma, gamma - self.least)


def estimate_readout(
    motions: ClipMotions, *, scan: Scan | None = None, either_axis: bool = False, around: float | None = None
) -> Calibration:
    """Estimate the readout from the motions of a clip.

    Args:
        motions: of the clip.
        scan: the direction, if it is known. Otherwise both along the shorter side of the frame are tried: sensors are
            read line by line along their longer side.
        either_axis: try the directions along the longer side as well.
        around: gamma to search around, if it is known approximately.
    """
    repeated = motions.repeated()
    runs = int((repeated & ~np.roll(repeated, 1)).sum())  # a picture that freezes once was not re-timed
    if runs > max(1.0, MAX_REPEATED * motions.pairs):
        kept = estimate_readout(motions.kept(~repeated), scan=scan, either_axis=either_axis, around=around)
        return _retimed(kept, f"{int(repeated.sum())} of {motions.pairs + 1} frames repeat the one before")
    # After a repeated frame the picture moves by what was missed: neither pair says how fast.
    motions = motions.without(repeated | np.roll(repeated, 1)) if repeated.any() else motions
    speed, change = _speed_and_change(motions)
    if motions.pairs < MIN_PAIRS:
        reason = f"the clip is too short: {motions.pairs + 1} frames, at least {MIN_PAIRS + 1} are needed"
        return _undetermined(motions, reason, speed, change, scan)
    if change < MIN_CHANGE:
        still = "stands still" if speed < 2 * MIN_CHANGE else "moves at a steady speed"
        reason = (
            f"the picture {still} (its speed changes by {change:.2f} px per frame), so the rows cannot be told apart"
        )
        return _undetermined(motions, reason, speed, change, scan)
    # Matrix products are many and small here. With both of two busy cores to wait for, they took five times as long.
    with at_most_threads(1):
        searches = [
            _coarse_search(axis, motions if axis == "rows" else motions.transposed(), _candidates(axis, scan, around))
            for axis in _axes(scan, None if either_axis else motions.size)
        ]
        best, clear_axis = _best_axis(searches)
        gamma, error = _refined(best, motions if best.axis == "rows" else motions.transposed())
    half = INTERVAL * error
    is_global = half <= MAX_HALF_WIDTH_GLOBAL and _is_global(abs(gamma), abs(gamma) - half, abs(gamma) + half)
    reversed_scan = bool(gamma < 0 and abs(gamma) >= GLOBAL_GAMMA and not is_global)
    found_scan = scan or SCAN_OF[best.axis, reversed_scan]
    # Along a given scan, a gamma of the other sign is as good as none.
    along = (-gamma if Readout(0.0, scan).backwards else gamma) if scan is not None else abs(gamma)
    least, high = along - half, along + half
    # Along the wrong axis gamma means nothing: unless one axis is clearly better, it could be anything.
    clear = _Clear(clear_axis or is_global, best.clear_direction or is_global)
    if not clear.axis or least > 1.0:
        least, high = -1.0, 1.0
    elif not clear.direction:
        least = min(least, -high)
    objection = objection_to_interval(along, half) or _objection_to_scan(clear)
    found = Calibration(
        gamma=float(np.clip(along, 0.0, 1.0)),
        low=float(np.clip(least, 0.0, 1.0)),
        high=float(np.clip(high, 0.0, 1.0)),
        least=float(np.clip(least, -1.0, 1.0)),
        scan=found_scan,
        determined=not objection,
        reason=objection or explanation(change),
        speed=speed,
        change=change,
        fastest=_fastest(motions),
        error=error,
        pairs=motions.pairs,
        curve_gammas=best.gammas,
        curve_costs=best.costs,
    )
    return _retimed(found, "frames are missing at regular intervals") if drops_frames(motions) else found


def _fastest(motions: ClipMotions) -> float:
    """The motion that 99 % of the textured cells stay below, in pixels per frame."""
    lengths = np.hypot(motions.shift[..., 0], motions.shift[..., 1])[motions.weight > 0.05]
    return float(np.quantile(lengths, 0.99)) if lengths.size else 0.0


def _speed_and_change(motions: ClipMotions) -> tuple[float, float]:
    """Typical speed of the dominant motion and typical change of it from pair to pair, in pixels."""
    dominant = motions.dominant()
    if not len(dominant):
        return 0.0, 0.0
    changes = np.diff(dominant, axis=0)
    speed = float(np.sqrt((dominant**2).sum(1).mean()))
    # The median, because a single jump does not determine gamma; 1.48 as for a median absolute deviation.
    return speed, 1.48 * float(np.median(np.hypot(*changes.T))) if len(changes) else 0.0


def _is_global(gamma: float, low: float, high: float) -> bool:
    """Whether a gamma and its interval are those of a global shutter, as far as a clip can tell."""
    return gamma < GLOBAL_GAMMA or (low < GLOBAL_GAMMA and high <= MAX_HALF_WIDTH_GLOBAL)


def _undetermined(motions: ClipMotions, reason: str, speed: float, change: float, scan: Scan | None) -> Calibration:
    empty = np.zeros(0)
    least = 0.0 if scan is not None else -1.0
    return Calibration(
        gamma=0.5,
        low=0.0,
        high=1.0,
        least=least,
        scan=scan or SCAN_OF[_axes(None, motions.size)[0], False],
        determined=False,
        reason=reason,
        speed=speed,
        change=change,
        fastest=_fastest(motions),
        error=math.inf,
        pairs=motions.pairs,
        curve_gammas=empty,
        curve_costs=empty,
    )


def _axes(scan: Scan | None, size: tuple[int, int] | None) -> tuple[Axis, ...]:
    """The axes to try; with the size `(height, width)` of a frame, the shorter one only."""
    if scan is not None:
        return ("rows",) if scan in ("top-down", "bottom-up") else ("columns",)
    if size is None:
        return ("rows", "columns")
    return ("rows",) if size[0] <= size[1] else ("columns",)


def _candidates(axis: Axis, scan: Scan | None, around: float | None) -> Array:
    """Signed gammas to try; a known direction still allows a little of the other sign, so that 0 is not at the end."""
    tried = COARSE_GAMMAS
    if around is not None:
        low, high = around - AROUND_RANGE, around + AROUND_RANGE
        tried = np.concatenate([-np.linspace(high, low, 7), np.linspace(low, high, 7)])
    if scan is not None:
        sign = 1.0 if scan == SCAN_OF[axis, False] else -1.0
        tried = tried[tried * sign > -0.2]
    return tried[np.abs(tried) <= MAX_GAMMA]


@dataclass(frozen=True)
class _CoarseSearch:
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


class _Clear(NamedTuple):
    """What the coarse search leaves no doubt about."""

    axis: bool
    direction: bool


def _coarse_search(axis: Axis, motions: ClipMotions, gammas: Array) -> _CoarseSearch:
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
    return _CoarseSearch(axis, gammas, costs, gamma, best.cost * noise**2, clear)


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


def _refined(search: _CoarseSearch, motions: ClipMotions) -> tuple[float, float]:
    """The signed gamma of a camera moving through a scene with depth, and its standard error."""
    start = min(1.0, abs(search.gamma))
    for upwards in (search.gamma < 0, search.gamma >= 0):
        fit, error = fit_camera(CameraModel(motions.flipped() if upwards else motions), start)
        if fit.gamma > FIT_RANGE[1] - EDGE:
            break
        if fit.gamma > FIT_RANGE[0] + EDGE:
            return (-fit.gamma if upwards else fit.gamma), error
        start = -FIT_RANGE[0]  # the fit wants to go on in the other direction
    # At the end of its range a fit has not found the minimum: its interval would mean nothing.
    return search.gamma, math.inf


def _best_axis(searches: list[_CoarseSearch]) -> tuple[_CoarseSearch, bool]:
    """The axis that fits the clip best, and whether it does so by more than the parts of the clip disagree."""
    best, *others = sorted(searches, key=lambda search: float(search.by_pair.sum()))
    return best, all(_fits_better(best.by_pair, other.by_pair, AXIS_MARGIN) for other in others)


def _fits_better(costs: Array, others: Array, margin: float) -> bool:
    """Whether costs `[P]` are lower than others by more than so many standard errors, from the parts of the clip."""
    parts = np.array([part.sum() for part in np.array_split(others - costs, CLIP_PARTS)])
    return bool(parts.sum() >= margin * math.sqrt(float(((parts - parts.mean()) ** 2).sum())))


def _retimed(found: Calibration, how: str) -> Calibration:
    """An estimate from frames that do not lie at the times that they were recorded at."""
    reason = f"{how}: the clip was re-timed, and its frames do not lie at the times that they were recorded at"
    return replace(found, determined=False, low=0.0, least=min(found.least, 0.0), high=1.0, reason=reason)


def explanation(change: float) -> str:
    """Why a clip determines gamma, by how much its motion changes from frame to frame."""
    return f"the motion changes by {change:.1f} px per frame, which tells the times of the rows apart"


def objection_to_interval(gamma: float, half: float) -> str:
    """Why an estimate with this half width of its interval does not determine gamma; empty if it does."""
    is_global = half <= MAX_HALF_WIDTH_GLOBAL and _is_global(abs(gamma), abs(gamma) - half, abs(gamma) + half)
    if not math.isfinite(half) or abs(gamma) - half > 1.0:
        return "no gamma from 0 to 1 fits: frames may be missing, or the clip may be edited or stabilised"
    if half > (MAX_HALF_WIDTH_GLOBAL if is_global else MAX_HALF_WIDTH):
        uncertainty = f"plus or minus {half:.2f}" if half < 1.0 else "anything"
        return f"the motion hardly tells the rows apart: gamma could be off by {uncertainty}"
    return ""


def _objection_to_scan(clear: _Clear) -> str:
    """Which doubt about the scan is left; empty if there is none."""
    if not clear.axis:
        return "a scan along rows and one along columns fit the motion about as well; say which it is with --scan"
    if not clear.direction:
        return "a scan in one direction and one in the other fit the motion about as well; say which it is with --scan"
    return ""
