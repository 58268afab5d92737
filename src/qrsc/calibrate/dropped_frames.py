"""Frames that were dropped at regular intervals, as from 30 to 25 frames per second, with nothing in the timestamps.

The picture moves twice as far over every nth pair of frames. The logarithm of its speed is then larger by log 2 than
the mean of the two pairs beside it, at one phase of the period and nowhere else.
"""

from __future__ import annotations

import math

import numpy as np

from qrsc.calibrate.cell_motions import ClipMotions

PERIODS = range(3, 13)  # pairs from one dropped frame to the next
MIN_CYCLES = 4
SLOWEST_PX = 0.3  # added to speeds: below, they are noise
# Of 84 simulated clips, on which these were chosen, the four with frames dropped regularly have 3.6 to 13 standard
# errors and a median of 0.57 to 0.72. Three of the nine that were re-timed otherwise are found as well, and no others.
MIN_STANDARD_ERRORS = 3.4
MEDIANS = (0.5, 0.9)


def drops_frames(motions: ClipMotions) -> bool:
    """Whether frames are missing at regular intervals, as far as that is to be seen: strong shake hides it."""
    weight = np.where(motions.weight > 0.05, motions.weight, 0.0)[..., None]
    mean = (weight * motions.shift).sum(1) / np.maximum(weight.sum(1), 1e-9)
    speeds = np.log(np.hypot(mean[:, 0], mean[:, 1]) + SLOWEST_PX)
    if len(speeds) < MIN_CYCLES * PERIODS[0]:
        return False
    excess = speeds[1:-1] - 0.5 * (speeds[:-2] + speeds[2:])
    spread = 1.48 * float(np.median(np.abs(excess - np.median(excess))))
    number = np.arange(len(excess))
    clearest = 0.0  # in standard errors
    for period in PERIODS:
        for phase in range(period):
            values = excess[number % period == phase]
            median = float(np.median(values)) if len(values) >= MIN_CYCLES else 0.0
            if MEDIANS[0] < median < MEDIANS[1]:
                # The standard error of a median is 1.25 times that of a mean.
                clearest = max(clearest, median * math.sqrt(len(values)) / max(1.25 * spread, 1e-9))
    return clearest > MIN_STANDARD_ERRORS
