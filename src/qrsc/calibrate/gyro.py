"""The motion of the picture compared with a gyroscope in the file: what the camera did, independent of the pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from qrsc.calibrate.cell_motions import ClipMotions
from qrsc.calibrate.gpmf import GyroBlock

Array = npt.NDArray[np.float64]

# Clocks of camera and gyroscope differ by the readout and a little more. In frame intervals.
LAGS = np.arange(-2.0, 2.01, 0.25)
MIN_PAIRS = 30  # fewer agree by chance
FOLLOWS, IGNORES = 0.9, 0.5  # correlations


def gyro_agreement(motions: ClipMotions, interval: float, gyro: Sequence[GyroBlock]) -> float | None:
    """Correlation of the motion of the picture with the angular rates of a gyroscope; None where that says nothing.

    The dominant motion, in x and y, is regressed on the three rates, whose axes and scale need not be known: the share
    of its variance that they explain is the square of the correlation.

    Args:
        motions: of the first frames of the clip.
        interval: seconds from frame to frame.
        gyro: blocks on the clock of the video.
    """
    seen = (motions.weight > 0.05).mean(1) > 0.1
    if seen.sum() < MIN_PAIRS or not gyro:
        return None
    cells = np.where((motions.weight > 0.05)[..., None], motions.shift, np.nan)
    moved = np.nanmedian(cells[seen], axis=1)  # [N, 2]
    start = np.flatnonzero(seen).astype(np.float64)
    times, angles = _angles(gyro)
    explained = []
    for lag in LAGS:
        first, second = ((start + lag + step) * interval for step in (0.0, 1.0))
        inside = (first >= times[0]) & (second <= times[-1])
        if inside.sum() < MIN_PAIRS:
            continue
        turned = np.stack([np.interp(second, times, axis) - np.interp(first, times, axis) for axis in angles.T], 1)
        explained.append(_explained(moved[inside], turned[inside]))
    return math.sqrt(max(0.0, max(explained))) if explained else None


def gyro_in_words(correlation: float) -> str:
    """What the agreement with the gyroscope says."""
    if correlation >= FOLLOWS:
        return f"The picture moves as the file's gyroscope says (correlation {correlation:.2f})"
    if correlation >= IGNORES:
        return f"The picture moves partly as the file's gyroscope says (correlation {correlation:.2f})"
    return (
        f"The picture does not move as the file's gyroscope says (correlation {correlation:.2f}): it hardly turns, "
        "or it was stabilised"
    )


def _angles(gyro: Sequence[GyroBlock]) -> tuple[Array, Array]:
    """Times `[N]` in seconds, and the integral of the rates up to each `[N, 3]`."""
    times = np.concatenate(
        [block.start + block.duration * (np.arange(len(block.rates)) + 0.5) / len(block.rates) for block in gyro]
    )
    rates = np.concatenate([block.rates for block in gyro])
    steps = np.diff(times, prepend=times[0])
    return times, np.cumsum(rates * steps[:, None], axis=0)


def _explained(moved: Array, turned: Array) -> float:
    """Share of the variance of motions `[N, 2]` that a linear function of turns `[N, 3]` explains."""
    moved, turned = moved - moved.mean(0), turned - turned.mean(0)
    solution = np.linalg.lstsq(turned, moved, rcond=None)[0]
    left = float(((moved - turned @ solution) ** 2).sum())
    return 1.0 - left / max(float((moved**2).sum()), 1e-12)
