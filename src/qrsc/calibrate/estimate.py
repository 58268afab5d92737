"""Gamma from the motions of a clip: the one at which a single camera motion fits all rows best.

Convention
    A signed gamma runs along an axis: positive for `top-down` and `left-right`, negative for `bottom-up` and
    `right-left`. Costs are sums of squared residuals in units of the noise of a cell, so that a cost curve that rises
    by a few tens within its range is a sharp one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qrsc.backend.threads import at_most_threads
from qrsc.calibrate.camera_model import CameraModel
from qrsc.calibrate.cell_motions import ClipMotions
from qrsc.calibrate.coarse_search import MAX_GAMMA, Axis, CoarseSearch, best_axis, coarse_search
from qrsc.calibrate.fit_camera import fit_camera
from qrsc.calibrate.gauss_newton import MAX_GAMMA as MAX_FITTED
from qrsc.calibrate.gauss_newton import MIN_GAMMA as MIN_FITTED
from qrsc.calibrate.retiming import retiming
from qrsc.calibrate.shear_regression import (
    Slope,
    contradicting_slope,
    doubt,
    linear_motions,
    shear_change,
    shear_slopes,
)
from qrsc.timing import Readout, Scan

Array = npt.NDArray[np.float64]

SCAN_OF: dict[tuple[Axis, bool], Scan] = {
    ("rows", False): "top-down",
    ("rows", True): "bottom-up",
    ("columns", False): "left-right",
    ("columns", True): "right-left",
}

MIN_PAIRS = 10
COARSE_GAMMAS = np.linspace(-1.05, 1.05, 13)
AROUND_RANGE = 0.25  # of the search to either side of a gamma that is known approximately
FIT_RANGE, EDGE = (MIN_FITTED, MAX_FITTED), 0.005
INTERVAL = 2.0  # standard errors on either side of the estimate
# A clip with a wider interval to either side, or a motion that changes by fewer pixels from frame to frame, does not
# determine gamma. Of 176 simulated clips, 93 are within it, and 95 % of these at most 0.027 off.
MAX_HALF_WIDTH = 0.05
MIN_CHANGE = 0.25
# A global shutter need not be known that well: a readout within a tenth of a frame leaves little to correct.
MAX_HALF_WIDTH_GLOBAL = 0.1
# Gammas below are a global shutter. So are those whose interval begins below and ends within a tenth of a frame: the
# clip cannot tell them from 0, and hardly any rolling shutter is that quick.
GLOBAL_GAMMA = 0.04
# A global shutter within a wider interval to either side is not believed of a picture whose shear changes by more px
# from frame to frame. That change is 0.3 px in a real clip with a global shutter. Of 21 simulated clips that were taken
# for one, on which this was chosen, four had been stabilised, with 0.7 to 10 px and intervals of 0.05 and more; two
# with a global shutter are lost, with a crowd and much parallax.
SHARP_GLOBAL, MAX_SHEAR_CHANGE = 0.03, 0.6
NO_SINGLE_READOUT = (
    "so that no single readout explains the clip: it was probably stabilised or re-timed, in the camera or later"
)


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
        fastest: motion that 99 % of the textured cells stay below, in pixels per frame; infinite if there are none.
        error: standard error of gamma.
        pairs: number of pairs of frames used.
        curve_gammas, curve_costs: `[N]`, signed gammas along the axis of `scan`, and the residual cost at each.
        altered: whether its frames seem to have been moved or re-timed since they were recorded, so that no single
            readout explains them.
        witnessed: whether its shear tells enough to contradict the estimate.
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
    altered: bool = False
    witnessed: bool = True
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

    @property
    def against_scan(self) -> bool:
        """Whether the rows are read against the scan that was given."""
        return self.measured and self.least < 0.0 and self.high <= 0.0

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
    retimed = retiming(motions, repeated)
    if retimed:
        motions = motions.kept(~repeated)
    elif repeated.any():
        # After a repeated frame the picture moves by what was missed: neither pair says how fast.
        motions = motions.without(repeated | np.roll(repeated, 1))
    found = _estimate(motions, scan, either_axis, around)
    return _retimed(found, retimed) if retimed else found


def _estimate(motions: ClipMotions, scan: Scan | None, either_axis: bool, around: float | None) -> Calibration:
    """The readout from motions over equal intervals of time; arguments as for `estimate_readout`."""
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
            coarse_search(axis, motions if axis == "rows" else motions.transposed(), _candidates(axis, scan, around))
            for axis in _axes(scan, None if either_axis else motions.size)
        ]
        best, clear_axis = best_axis(searches)
        along_rows = motions if best.axis == "rows" else motions.transposed()
        gamma, error = _refined(best, along_rows)
        linear = linear_motions(along_rows)
        slopes = shear_slopes(linear)
        contradiction = contradicting_slope(slopes, gamma, error)
        error = math.hypot(error, doubt(slopes, gamma))
    half = INTERVAL * error
    is_global = half <= MAX_HALF_WIDTH_GLOBAL and _is_global(abs(gamma), abs(gamma) - half, abs(gamma) + half)
    reversed_scan = bool(gamma < 0 and abs(gamma) >= GLOBAL_GAMMA and not is_global)
    along = (-gamma if Readout(0.0, scan).backwards else gamma) if scan is not None else abs(gamma)
    clear = _Clear(clear_axis or is_global, best.clear_direction or is_global)
    against = scan is not None and not is_global and along + half < 0.0
    objection = objection_to_interval(along, half) or _objection_to_scan(clear)
    sheared = shear_change(linear) if is_global and half > SHARP_GLOBAL else 0.0
    altered = contradiction is not None or sheared > MAX_SHEAR_CHANGE
    if contradiction is not None:
        objection = _objection_to_shear(gamma, error, contradiction)
    elif altered:
        objection = (
            "the picture moves as with a global shutter, but its shear changes by "
            f"{sheared:.1f} px from frame to frame, {NO_SINGLE_READOUT}, or near things pass by"
        )
    elif against:
        objection = (
            f"the rows are read in the direction opposite to the given one (gamma {abs(gamma):.2f} ± {half:.2f})"
        )
    least, high = (-1.0, 1.0) if altered else _interval(along, half, clear)
    return Calibration(
        gamma=float(np.clip(along, 0.0, 1.0)),
        low=float(np.clip(least, 0.0, 1.0)),
        high=float(np.clip(high, 0.0, 1.0)),
        least=float(np.clip(least, -1.0, 1.0)),
        scan=scan or SCAN_OF[best.axis, reversed_scan],
        determined=not objection,
        reason=objection or explanation(change),
        speed=speed,
        change=change,
        fastest=_fastest(motions),
        error=error,
        pairs=motions.pairs,
        curve_gammas=best.gammas,
        curve_costs=best.costs,
        altered=altered,
        witnessed=bool(slopes),
    )


def _interval(along: float, half: float, clear: _Clear) -> tuple[float, float]:
    """Ends of the interval around a gamma along its scan."""
    # Along the wrong axis gamma means nothing: unless one axis is clearly better, it could be anything.
    if not clear.axis or along - half > 1.0:
        return -1.0, 1.0
    along = min(along, 1.0)  # the possible value that is nearest
    least, high = along - half, along + half
    return (least if clear.direction else min(least, -high)), high


def _fastest(motions: ClipMotions) -> float:
    """The motion that 99 % of the textured cells stay below, in pixels per frame; infinite if there are none."""
    lengths = np.hypot(motions.shift[..., 0], motions.shift[..., 1])[motions.weight > 0.05]
    return float(np.quantile(lengths, 0.99)) if lengths.size else math.inf


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


class _Clear(NamedTuple):
    """What the coarse search leaves no doubt about."""

    axis: bool
    direction: bool


def _refined(search: CoarseSearch, motions: ClipMotions) -> tuple[float, float]:
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


def _objection_to_shear(gamma: float, error: float, slope: Slope) -> str:
    """What a regression of shear that contradicts the estimate says."""
    estimate = f"{gamma:.2f} ± {INTERVAL * error:.2f}" if math.isfinite(error) else "none from -1 to 1"
    return (
        f"the picture is sheared as by a gamma of {slope.gamma:.2f} ± {INTERVAL * slope.error:.2f} where its motion "
        f"suggests {estimate}, {NO_SINGLE_READOUT}"
    )


def _retimed(found: Calibration, how: str) -> Calibration:
    """An estimate from frames that do not lie at the times that they were recorded at."""
    reason = f"{how}: the clip was re-timed, and its frames do not lie at the times that they were recorded at"
    least = min(found.least, 0.0)
    return replace(found, determined=False, low=0.0, least=least, high=1.0, reason=reason, altered=True)


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
