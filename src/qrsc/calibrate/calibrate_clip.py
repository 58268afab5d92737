"""The readout of a clip on disk, from several places of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

from qrsc.backend.memory import freed_memory_kept
from qrsc.backend.threads import at_most_threads
from qrsc.calibrate.cell_motions import ClipMotions, MotionReader
from qrsc.calibrate.estimate import Calibration, estimate_readout
from qrsc.calibrate.gpmf import GyroBlock
from qrsc.calibrate.grey_frames import ClipSource
from qrsc.calibrate.gyro import gyro_agreement
from qrsc.calibrate.self_test import checked_readout, combined, tested_by_halves
from qrsc.timing import Scan

PIECE = 120  # frames of a piece of the clip
MOST_PIECES = 3
MOST_FRAMES = MOST_PIECES * PIECE  # that are ever read
ENOUGH = 0.035  # half width of an interval that is narrow enough
# Frames that start this much more or less than one interval after another, in intervals, were not recorded so.
UNEVEN = 0.1


def calibrate_clip(
    clip: ClipSource,
    *,
    scan: Scan | None = None,
    either_axis: bool = False,
    around: float | None = None,
    gyro: Sequence[GyroBlock] = (),
    advance: Callable[[], None] | None = None,
    early: Callable[[Calibration], None] | None = None,
) -> Calibration:
    """Estimate the readout of a clip from its beginning and its end, and from its middle if the interval is wide.

    Pieces at different places must agree, as must the halves of a short clip or of the only piece that moves.

    Args:
        clip: from `open_clip`.
        scan: the direction in the stored frames, if it is known.
        either_axis: consider scans along the longer side of the frame, too.
        around: a rough value of gamma, if one is known: the search is limited to its surroundings.
        gyro: of the file, to compare the motion of the picture with.
        advance: called for every frame that is read.
        early: gets a first estimate, before other pieces or the halves have been compared with it.
    """
    first_frames = piece_starts(clip.frame_count)
    most = PIECE if len(first_frames) > 1 else MOST_FRAMES
    estimate = estimate_readout if len(first_frames) > 1 else partial(checked_readout, early=early)
    found: list[Calibration] = []
    pieces: list[ClipMotions] = []
    agreement: float | None = None
    # Pairs are processed in parallel already, so more threads within each only wait for each other: with two threads,
    # one DIS flow takes 14.5 ms of processor time in place of 10.5 ms.
    with at_most_threads(1), freed_memory_kept():
        for first in first_frames:
            motions = _motions(clip, first, most, advance)
            pieces.append(motions)
            found.append(estimate(motions, scan=scan, either_axis=either_axis, around=around))
            if early is not None and len(first_frames) > 1 and first == 0 and found[0].determined:
                early(found[0])
            if first == 0 and gyro and clip.info is not None:
                agreement = gyro_agreement(motions, clip.info.interval, gyro)
            if len(found) > 1 and (together := combined(found)).determined and together.half_width <= ENOUGH:
                break
        measured = [place for place, piece in enumerate(found) if piece.measured]
        if len(measured) == 1 and len(pieces) > 1:
            only = measured[0]
            found[only] = tested_by_halves(found[only], pieces[only], known_scan=scan is not None)
    return replace(combined(found), gyro=agreement)


def piece_starts(frames: int | None) -> tuple[int, ...]:
    """The first frames of the pieces of a clip: beginning, end, middle; only the beginning if its length is unknown."""
    if frames is None or frames < 2 * PIECE:
        return (0,)
    if frames < MOST_PIECES * PIECE:
        return 0, frames - PIECE
    return 0, frames - PIECE, (frames - PIECE) // 2


def _motions(clip: ClipSource, first: int, most: int, advance: Callable[[], None] | None) -> ClipMotions:
    """The motions of a piece of a clip; pairs of frames that lie at uneven times say nothing."""
    reader = MotionReader(clip.size)
    times = []
    for frame, time in clip.timed_frames(first, most, advance):
        reader.take(frame)
        times.append(time)
    motions = reader.motions()
    uneven = np.array([not abs(after - before - 1.0) < UNEVEN for before, after in pairwise(times)])
    return motions.without(uneven) if uneven.any() else motions
