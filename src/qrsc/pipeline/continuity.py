"""Whether the motion of a pair of frames continues that of its neighbours: a dropped frame or a jump does not.

Rows are read one after the other, so consecutive pairs of frames overlap in time: what the last rows of one pair saw of
the motion, the first rows of the next pair see almost at the same time. Shake changes the motion within frames, too,
and is no discontinuity. A jump between two frames shows in all rows of one pair alike, and not in its neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from qrsc.motion.fill import TrustedFlow
from qrsc.timing import Readout

# Pixels with less confidence do not count, and a band of which fewer are left is unknown.
CONFIDENT, LEAST_CONFIDENT = 0.5, 0.05
BANDS = 3  # parts of a frame along the readout; the first and the last are compared
# A step is a discontinuity beyond this part of the frame's width, and this many times the change that goes on at the
# rate within frames. See benchmarks/difficult_frames.py for the clips that these separate.
LEAST_STEP = 0.004
LARGEST_CHANGE = 1.5
OWN_SHARE = 0.5  # of the pair's own change that counts: a pair that spans two intervals changes twice as much
# With one or two frames missing, a pair moves as far as neighbours that much further away predict, to within this part
# of the difference from a motion without a gap. None of 36,000 pairs of a simulated shaking camera is taken for a gap
# (readout ratios from 0.3 to 1, shake up to 0.35 cycles per frame), and 83 % of the gaps that show are found, where
# steps alone find 73 %. With shorter readouts, the change within a frame says too little.
MISSING, MISFIT, LEAST_GAMMA = (1, 2), 0.2, 0.3
SHORTEST_READOUT = 0.15  # of a frame interval; shorter ones tell hardly anything about the change within frames
# With a neighbour on one side only, the step has to be this many times as large, unless the picture freezes after it.
ONE_SIDED = 2.0


@dataclass(frozen=True)
class PairMotion:
    """The typical motion of a pair of frames `[2]`, in parts of the frame's width per frame interval.

    Attributes:
        early, late: of the rows that are read first and last.
    """

    early: Tensor
    late: Tensor

    @property
    def middle(self) -> Tensor:
        """Between the two, `[2]`."""
        return 0.5 * (self.early + self.late)

    @property
    def change(self) -> float:
        """How much it changes while a frame is read."""
        return float((self.late - self.early).norm())


def pair_motion(flow: TrustedFlow, interval: float, readout: Readout) -> PairMotion | None:
    """The motion that a flow `[1, 2, h, w]` shows; None if too little of it is trusted.

    Args:
        flow: from the first frame of the pair to the second.
        interval: the time between them, in frame intervals.
        readout: its scan says which rows are read first.
    """
    vertical = readout.scan in ("top-down", "bottom-up")
    motion, confident = flow.flow[0], flow.confidence[0, 0] > CONFIDENT
    if not vertical:
        motion, confident = motion.transpose(1, 2), confident.T
    if readout.backwards:
        motion, confident = motion.flip(1), confident.flip(0)
    rows = max(1, motion.shape[1] // BANDS)
    found = []
    for band in (slice(None, rows), slice(-rows, None)):
        inside = confident[band] & torch.isfinite(motion[:, band]).all(dim=0)
        if float(inside.float().mean()) < LEAST_CONFIDENT:
            return None
        found.append(motion[:, band][:, inside].median(dim=1).values / (flow.flow.shape[-1] * interval))
    return PairMotion(*found)


def is_discontinuous(
    before: PairMotion | None,
    pair: PairMotion | None,
    after: PairMotion | None,
    gamma: float,
    *,
    freezes: bool = False,
) -> bool:
    """Whether a pair of frames does not continue the motion of the pairs before and after it, as far as known.

    Args:
        before, pair, after: their motions.
        gamma: of the readout.
        freezes: the frame that the pair ends with is repeated at least twice.
    """
    if pair is None or (before is None and after is None):
        return False
    steps = []
    if before is not None:
        steps.append(float((pair.early - before.late).norm()))
    if after is not None:
        steps.append(float((after.early - pair.late).norm()))
    changes = [each.change for each in (before, after) if each is not None] + [OWN_SHARE * pair.change]
    # Bands are compared within a frame, over this time, and from one pair to the next, over the rest of the interval.
    within = (1.0 - 1.0 / BANDS) * max(gamma, SHORTEST_READOUT)
    limit = LEAST_STEP + LARGEST_CHANGE * (1.0 - within) / within * max(changes)
    if before is None or after is None:
        return min(steps) > (1.0 if freezes else ONE_SIDED) * limit
    # Where near things fill one band, the change within a frame may look too small. But a motion halfway between those
    # before and after it goes on, however fast it changes.
    apart = float((pair.middle - 0.5 * (before.middle + after.middle)).norm())
    if min(*steps, apart) > limit:
        return True
    return gamma >= LEAST_GAMMA and min(steps) > LEAST_STEP and _spans_gap(before, pair, after, gamma)


def _spans_gap(before: PairMotion, pair: PairMotion, after: PairMotion, gamma: float) -> bool:
    """Whether frames missing within a pair explain its motion by far better than an even course of all three pairs."""
    misfits = [float((pair.middle - _between(before, after, gamma, missing)).norm()) for missing in (0, *MISSING)]
    return misfits[0] > LEAST_STEP and min(misfits[1:]) < MISFIT * misfits[0]


def _between(before: PairMotion, after: PairMotion, gamma: float, missing: int) -> Tensor:
    """The motion `[2]` of a pair with some frames missing that continues its neighbours.

    With time counted from the middle of the pair, a parabola through the mean of the bands next to it and that of the
    bands further away, averaged over the interval. Constant differences between bands, as from depth, cancel.
    """
    intervals = missing + 1
    near, far = 0.5 * (before.late + after.early), 0.5 * (before.early + after.late)
    apart = 0.5 * (intervals + 1)  # from the middle of the pair to those of its neighbours
    half = 0.5 * (1.0 - 1.0 / BANDS) * gamma  # from the middle of a pair to either band
    square = (intervals**2 - 1) / 12 + half**2  # mean square of the times that the pair's motion is averaged over
    onward = ((apart - half) ** 2 - square) / (4.0 * apart * half)
    return intervals * (near + onward * (near - far))
