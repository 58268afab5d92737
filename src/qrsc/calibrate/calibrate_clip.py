"""The readout of a clip on disk, from as many of its frames as it takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from qrsc.backend.threads import at_most_threads
from qrsc.calibrate.cell_motions import MotionReader
from qrsc.calibrate.estimate import Calibration, estimate_readout
from qrsc.calibrate.grey_frames import ClipSource
from qrsc.timing import Scan

# Frame pairs after which an estimate is made. The second is made only if the first interval is too wide.
LOOKS = (119, 239)
MOST_FRAMES = LOOKS[-1] + 1  # that are ever read
ENOUGH = 0.035  # half width of an interval that is narrow enough


def calibrate_clip(
    clip: ClipSource,
    *,
    scan: Scan | None = None,
    either_axis: bool = False,
    around: float | None = None,
    advance: Callable[[], None] | None = None,
) -> Calibration:
    """Estimate the readout of a clip from its first frames, and from more of them if the interval is wide.

    Args:
        clip: from `open_clip`.
        scan: the direction, if it is known.
        either_axis: consider scans along the longer side of the frame, too.
        around: a rough value of gamma, if one is known: the search is limited to its surroundings.
        advance: called for every frame that is read.
    """
    estimate = partial(estimate_readout, scan=scan, either_axis=either_axis, around=around)
    reader = MotionReader(clip.size)
    found: Calibration | None = None
    looked_at = 0
    # Pairs are processed in parallel already, so more threads within each only wait for each other: with two threads,
    # one DIS flow takes 14.5 ms of processor time in place of 10.5 ms.
    with at_most_threads(1):
        for frame in clip.grey_frames(MOST_FRAMES, advance):
            reader.take(frame)
            if reader.pairs in LOOKS:
                found, looked_at = estimate(reader.motions()), reader.pairs
                if found.determined and found.half_width <= ENOUGH:
                    return found
    if found is None or reader.pairs > 1.2 * looked_at:
        found = estimate(reader.motions())
    return found
