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
SHORTEST_READOUT = 0.15  # of a frame interval; shorter ones tell hardly anything about the change within frames
ONE_SIDED = 2.0  # with a neighbour on one side only, the step has to be this many times as large


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
    before: PairMotion | None, pair: PairMotion | None, after: PairMotion | None, gamma: float
) -> bool:
    """Whether a pair of frames does not continue the motion of the pairs before and after it, as far as known."""
    if pair is None or (before is None and after is None):
        return False
    steps = []
    if before is not None:
        steps.append(float((pair.early - before.late).norm()))
    if after is not None:
        steps.append(float((after.early - pair.late).norm()))
    known = [each.change for each in (before, pair, after) if each is not None]
    # Bands are compared within a frame, over this time, and from one pair to the next, over the rest of the interval.
    within = (1.0 - 1.0 / BANDS) * max(gamma, SHORTEST_READOUT)
    limit = LEAST_STEP + LARGEST_CHANGE * (1.0 - within) / within * max(known)
    if before is None or after is None:
        return min(steps) > ONE_SIDED * limit
    # Where near things fill one band, the change within a frame may look too small. But a motion halfway between those
    # before and after it goes on, however fast it changes.
    apart = float((pair.middle - 0.5 * (before.middle + after.middle)).norm())
    return min(*steps, apart) > limit
