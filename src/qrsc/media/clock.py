"""Two kinds of time: timestamps for the container, which must rise, and times for the motion, which must be true.

Files repeat timestamps, jump back (two recordings joined), or have none at all. A frame is then given a timestamp that
rises, and where the file does not say how much time has passed, a new shot starts: motion is never measured over an
unknown interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

# A step of less than this part of the usual frame interval is no interval: the timestamp is a repeat.
LEAST_STEP = 0.25
# Seconds. A timestamp that is further ahead than this is damaged: no camera waits for more than a day.
LONGEST_STEP = 86400.0


@dataclass
class ClockReport:
    """What was wrong with the timestamps of a clip, in frames."""

    missing: int = 0
    repeated: int = 0
    jumps: int = 0
    ahead: int = 0

    @property
    def mended(self) -> int:
        """How many frames got another timestamp than the file gives them."""
        return self.missing + self.repeated + self.jumps + self.ahead

    def message(self, name: str) -> str:
        """One sentence on what was mended; empty if nothing was."""
        parts = [
            f"{count} {what}"
            for count, what in (
                (self.missing, "missing and made from the frame rate"),
                (self.repeated, "repeated"),
                (self.jumps, "jumping back"),
                (self.ahead, "more than a day ahead"),
            )
            if count
        ]
        if not parts:
            return ""
        told = f"timestamps of {name}: {', '.join(parts)}"
        return told if not self.repeated + self.jumps + self.ahead else f"{told}; motion is not followed across those"


@dataclass(frozen=True)
class Placed:
    """When a frame is.

    Attributes:
        stamp: for the container, in its time base; rises from frame to frame.
        time: for the motion, in frame intervals.
        restarts: the time since the previous frame is unknown.
    """

    stamp: int
    time: float
    restarts: bool


class Clock:
    """Places the frames of a clip in time; rounding of timestamps is not taken for uneven motion.

    Args:
        start: timestamp of the first frame, if it has none of its own.
        time_base: unit of timestamps, in seconds.
        interval: the usual time from frame to frame, in seconds.
        slack: by how many seconds a timestamp may be off because it was rounded.
        report: counts what was mended.
    """

    def __init__(self, start: int, time_base: Fraction, interval: float, slack: float, report: ClockReport) -> None:
        self._start = start
        self._ticks = interval / float(time_base)  # of a frame interval
        self._longest = LONGEST_STEP / interval
        self._slack = slack / interval
        self._report = report
        self._offset = 0  # by which later timestamps are moved after jumps back
        self._found: int | None = None  # of the frame before, with the offset
        self._stamp = 0
        self._time = 0.0

    def place(self, pts: int | None) -> Placed:
        """Place the next frame, whose timestamp is `pts`; None if it has none."""
        usual = max(1, round(self._ticks))
        if self._found is None:
            self._report.missing += pts is None
            self._found = self._stamp = self._start if pts is None else pts
            return Placed(self._stamp, 0.0, False)
        if pts is None:
            self._report.missing += 1
            return self._placed(self._found + usual, restarts=False)
        found = pts + self._offset
        steps = (found - self._found) / self._ticks
        if LEAST_STEP <= steps <= self._longest:
            return self._placed(found, restarts=False)
        if abs(steps) < LEAST_STEP:
            self._report.repeated += 1
            # Half an interval on: room for a frame that follows at once, and for one that follows after a whole one.
            self._stamp = max(self._stamp, found) + max(1, usual // 2)
            self._time += 1.0
            self._found = found
            return Placed(self._stamp, self._time, True)
        self._report.jumps += steps < 0
        self._report.ahead += steps > 0
        self._offset += self._found + usual - found
        return self._placed(self._found + usual, restarts=True)

    def _placed(self, found: int, *, restarts: bool) -> Placed:
        assert self._found is not None  # the first frame has been placed
        steps = (found - self._found) / self._ticks
        whole = max(1.0, round(steps))
        self._time += whole if restarts or abs(steps - whole) <= self._slack else steps
        self._found = found
        self._stamp = max(found, self._stamp + 1)
        return Placed(self._stamp, self._time, restarts)
