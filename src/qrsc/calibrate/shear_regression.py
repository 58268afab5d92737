"""A check on the readout: the shear of the picture regressed on its acceleration, for slow and for fast motion.

Row y of H is exposed gamma y / H of a frame interval after row 0, so that the motion of the picture changes from row to
row as it changes with time, whatever the path:

    d motion / d (y / H) = gamma d motion / d t

The left side is the shear of the picture (what is left of its linear motion after roll and zoom), the right side comes
from the motions of the frames around it. Nothing is shared with the camera model but the motions of the cells.

One gamma has to explain all frequencies. A stabilised picture has lost a part of its motion between frames, more of it
the faster it is, but its rows still show the motion of the camera: its shear is too large, most of all for fast motion.
The jumps of a re-timed picture have no shear. Either way, the regression and the camera model, which weigh slow and
fast motion differently, contradict each other. Where too little motion is left to regress on, a stabilised clip looks
like one with a global shutter, but for a shear that changes from frame to frame.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qrsc.calibrate.cell_motions import ClipMotions

Array = npt.NDArray[np.float64]

# Half length, in frames, of the filter that differentiates motions, and the highest frequency, in cycles per frame,
# up to which it does.
REACH, HIGHEST = 6, 0.42
# Bands: a motion minus the mean of those so many frames before and after it, smoothed so many times by (1 2 1) / 4.
# They pass frequencies around 0.1 and above 0.2 cycles per frame.
SLOW, FAST = (3, 2), (1, 0)
MIN_PAIRS = 8  # that a regression needs
MIN_BLOCKS, BLOCK = 6, 6  # consecutive pairs that share an error, for standard errors
AFFINE_STEPS, SLOPE_STEPS = 8, 15  # of iteratively reweighted least squares
# Pairs whose cells deviate from the linear motion by so many times what is usual in the clip are left out: something
# near passes by, or flow fails.
UNUSUAL = 3.0
# By how much a regression may be off: a constant and a part of gamma, beside so many standard errors. Of 64 simulated
# clips that have a readout, on which these were chosen, none that determines it is further off.
TOLERANCE, RELATIVE_TOLERANCE, STANDARD_ERRORS = 0.15, 0.1, 3.0
# Less than that, but alike for slow and for fast motion, leaves a doubt: what both are off by, beyond this tolerance
# and so many standard errors, is added to the error of the estimate.
DOUBT_TOLERANCE, DOUBT_ERRORS = 0.1, 2.0


class LinearMotions(NamedTuple):
    """The linear motion of the picture from frame to frame, robustly fitted."""

    motion: Array  # [P, 2], of the middle row
    shear: Array  # [P, 2], from top to bottom
    usable: npt.NDArray[np.bool_]  # [P], pairs that such a motion describes


class Slope(NamedTuple):
    """A regression of shear on acceleration: signed gamma along the rows, and its standard error."""

    gamma: float
    error: float


def shear_slopes(linear: LinearMotions) -> list[Slope]:
    """The regressions for slow and for fast motion, as far as the clip allows them."""
    motion, shear, usable = linear
    if len(motion) <= 2 * REACH:
        return []
    acceleration = _filtered(motion, _differentiator())
    inner = slice(REACH, len(motion) - REACH)
    usable = _all_within(usable, 2 * REACH + 1)
    slopes = []
    for step, smoothing in (SLOW, FAST):
        band = _band(step, smoothing)
        kept = _all_within(usable, len(band))
        if kept.sum() >= MIN_PAIRS:
            slopes.append(_regression(_filtered(acceleration, band)[kept], _filtered(shear[inner], band)[kept]))
    return slopes


def shear_change(linear: LinearMotions) -> float:
    """By how many pixels, from top to bottom, the shear of the picture typically changes from frame to frame.

    With a global shutter, near things shear a picture as well, but mostly in the same way for a while.
    """
    changes = np.diff(linear.shear, axis=0)
    return float(np.median(np.hypot(*changes.T))) if len(changes) else 0.0


def contradicting_slope(slopes: Sequence[Slope], gamma: float, error: float) -> Slope | None:
    """The regression that contradicts an estimate most, if one does.

    Args:
        slopes: of the clip, with a scan along its rows.
        gamma: the estimate, signed.
        error: its standard error. If that is infinite, only slopes that no gamma from -1 to 1 explains contradict it.
    """

    def excess(slope: Slope) -> float:
        """By how many standard errors a slope is beyond what is tolerated."""
        if math.isfinite(error):
            apart = abs(slope.gamma - gamma) - RELATIVE_TOLERANCE * abs(gamma)
            return (apart - TOLERANCE) / math.hypot(slope.error, error)
        return (abs(slope.gamma) - 1.0 - RELATIVE_TOLERANCE - TOLERANCE) / slope.error

    slope = max(slopes, key=excess, default=None)
    return slope if slope is not None and excess(slope) > STANDARD_ERRORS else None


def doubt(slopes: Sequence[Slope], gamma: float) -> float:
    """By how much both regressions say that an estimate is off, beyond what chance and depth explain; 0 if they do not.

    Args:
        slopes: of the clip, with a scan along its rows.
        gamma: the estimate, signed.
    """
    apart = [slope.gamma - gamma for slope in slopes]
    if len(apart) < 2 or min(apart) * max(apart) <= 0.0:
        return 0.0
    pairs = zip(slopes, apart, strict=True)
    return max(0.0, min(abs(off) - DOUBT_TOLERANCE - DOUBT_ERRORS * slope.error for slope, off in pairs))


def linear_motions(motions: ClipMotions) -> LinearMotions:
    """Fit the linear motion of every pair of frames; the scan runs along the rows."""
    height, width = motions.size
    centre, half = np.array([(width - 1) / 2, (height - 1) / 2]), 0.5 * max(height, width)
    x, y = np.moveaxis((motions.position + 0.5 * motions.shift - centre) / half, -1, 0)  # [P, C] each
    terms = np.stack([np.ones_like(x), x, y, x * x, x * y, y * y], axis=-1)  # [P, C, 6]
    textured = motions.weight > 0.05
    weight = motions.weight
    for _ in range(AFFINE_STEPS):
        weighted = terms * weight[..., None]
        normal = weighted.transpose(0, 2, 1) @ terms + 1e-6 * np.eye(terms.shape[-1])
        fitted = np.linalg.solve(normal, weighted.transpose(0, 2, 1) @ motions.shift)  # [P, 6, 2]
        squared = ((motions.shift - terms @ fitted) ** 2).sum(-1)
        # The median of a squared length is 1.39 times the variance of either component.
        variance = _medians(squared, textured) / 1.39 + 1e-4
        weight = motions.weight / (1.0 + squared / (4.0 * variance[:, None])) ** 2  # Geman-McClure
    noise = np.sqrt(variance)
    usable = (noise < UNUSUAL * np.median(noise)) & (textured.mean(1) > 0.15)
    # Roll and zoom move x and y alike. What one has more of than the other is shear.
    shear = np.stack([fitted[:, 2, 0] + fitted[:, 1, 1], fitted[:, 2, 1] - fitted[:, 1, 0]], axis=-1)
    return LinearMotions(fitted[:, 0], shear * (height / half), usable)


def _medians(values: Array, chosen: npt.NDArray[np.bool_]) -> Array:
    """The median of the chosen values of each pair `[P, C]`; 1 where there are too few to tell."""
    medians = np.ones(len(values))
    enough = chosen.sum(1) > 10
    if enough.any():
        medians[enough] = np.nanmedian(np.where(chosen, values, np.nan)[enough], axis=1)
    return medians


def _differentiator() -> Array:
    """Weights `[2 REACH + 1]` of the derivative with respect to time, by least squares over all frequencies passed."""
    frequency = np.linspace(0.0, HIGHEST, 400)
    lag = np.arange(1, REACH + 1)
    half, *_ = np.linalg.lstsq(2.0 * np.sin(2.0 * np.pi * frequency[:, None] * lag), 2.0 * np.pi * frequency)
    return np.concatenate([-half[::-1], [0.0], half])


def _band(step: int, smoothing: int) -> Array:
    """Weights of a band, symmetric."""
    weights = np.zeros(2 * step + 1)
    weights[[0, step, -1]] = -0.5, 1.0, -0.5
    for _ in range(smoothing):
        weights = np.convolve(weights, [0.25, 0.5, 0.25])
    return weights


def _filtered(values: Array, weights: Array) -> Array:
    """Values `[P, 2]` filtered over time, where the filter does not reach over the ends."""
    return np.stack([np.correlate(column, weights, mode="valid") for column in values.T], axis=-1)


def _all_within(usable: npt.NDArray[np.bool_], length: int) -> npt.NDArray[np.bool_]:
    """Whether all pairs in reach of a filter of that length are usable."""
    if len(usable) < length:
        return np.zeros(0, dtype=bool)
    windows = np.lib.stride_tricks.sliding_window_view(usable, length)
    return np.asarray(windows.all(-1))


def _regression(acceleration: Array, shear: Array) -> Slope:
    """Robust regression `[N, 2]` on `[N, 2]` through the origin; its error by blocks, as errors are correlated."""
    gamma = float(np.median(acceleration * shear) / max(float(np.median(acceleration**2)), 1e-9))
    for _ in range(SLOPE_STEPS):
        residual = shear - gamma * acceleration
        scale = 1.48 * float(np.median(np.abs(residual))) + 1e-6
        weight = (1.0 + (residual / (2.5 * scale)) ** 2) ** -2.0
        curvature = max(float((weight * acceleration**2).sum()), 1e-9)
        gamma = float((weight * acceleration * shear).sum()) / curvature
    scores = (weight * acceleration * (shear - gamma * acceleration)).sum(1)
    blocks = max(MIN_BLOCKS, len(scores) // BLOCK)
    sums = np.array([part.sum() for part in np.array_split(scores, blocks)])
    return Slope(gamma, math.sqrt(float((sums**2).sum()) * blocks / (blocks - 1)) / curvature + 1e-9)
