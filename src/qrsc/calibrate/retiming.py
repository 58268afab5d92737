"""Frames that do not lie at the times that they were recorded at, with nothing in the timestamps to show it.

A repeated frame does not move at all. After a missing one, the picture moves twice as far as over the pairs beside it,
after two missing ones three times. Where frames are missing at regular intervals, as from 30 to 25 per second, many
weak signs add up: the logarithm of the speed is larger by log 2 than the mean of the two pairs beside it, at one phase
of the period and nowhere else. Strong shake hides missing frames.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from qrsc.calibrate.cell_motions import ClipMotions

# A clip in which more pairs repeat or skip a frame was re-timed. One repeated frame, or two jumps, happen otherwise: of
# 72 simulated clips that were not re-timed, three have two jumps, where something near passes by.
MAX_PART = 0.03
MAX_REPEATED, MAX_REPEATED_OR_SKIPPED = 1, 2

PERIODS = range(3, 13)  # pairs from one dropped frame to the next
MIN_CYCLES = 4
SLOWEST_PX = 0.3  # added to speeds: below, they are noise
# Of 84 simulated clips, on which these were chosen, the four with frames dropped regularly have 3.6 to 13 standard
# errors and a median of 0.57 to 0.72. Three of the nine that were re-timed otherwise are found as well, and no others.
MIN_STANDARD_ERRORS = 3.4
MEDIANS = (0.5, 0.9)

# A jump differs from the mean of the two motions beside it by so many times what is usual in the clip, and from two to
# four times that mean by a smaller part of it.
JUMP = 4.0
MULTIPLES = (2.0, 4.0)
MULTIPLE_TOLERANCE = 0.3
MIN_SPEED_PX = 0.5


def retiming(motions: ClipMotions, repeated: npt.NDArray[np.bool_]) -> str:
    """How a clip was re-timed, in words; empty if it was not, as far as that is to be seen.

    Args:
        motions: of the clip.
        repeated: `[P]`, its pairs of equal frames.
    """
    runs = int((repeated & ~np.roll(repeated, 1)).sum())  # a picture that freezes once was not re-timed
    part = MAX_PART * motions.pairs
    repeats = f"{int(repeated.sum())} of {motions.pairs + 1} frames repeat the one before"
    if runs > max(MAX_REPEATED, part):
        return repeats
    if drops_frames(motions):
        return "frames are missing at regular intervals"
    skipped = skipped_frames(motions.kept(~repeated))
    if runs + skipped > max(MAX_REPEATED_OR_SKIPPED, part):
        return f"frames are missing in {skipped} places" + (f", and {repeats}" if runs else "")
    return ""


def skipped_frames(motions: ClipMotions) -> int:
    """The number of pairs over which the picture moves two, three or four times as far as beside them."""
    dominant = motions.dominant()
    if len(dominant) < 2 * MIN_CYCLES:
        return 0
    beside, here = 0.5 * (dominant[:-2] + dominant[2:]), dominant[1:-1]
    speed = np.hypot(*beside.T)
    change = np.hypot(*(here - beside).T)
    multiple = np.clip(np.round((here * beside).sum(1) / np.maximum(speed**2, 1e-9)), 0.0, MULTIPLES[1])
    jumps = (
        (change > JUMP * 1.2 * np.median(change))
        & (multiple >= MULTIPLES[0])
        & (np.hypot(*(here - multiple[:, None] * beside).T) < MULTIPLE_TOLERANCE * speed)
        & (speed > MIN_SPEED_PX)
    )
    return int(jumps.sum())


def drops_frames(motions: ClipMotions) -> bool:
    """Whether frames are missing at regular intervals."""
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
