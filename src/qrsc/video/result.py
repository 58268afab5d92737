"""What a correction found, counted and timed: as an object, in a few lines, or as JSON."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qrsc.backend.fallback import separated
from qrsc.calibrate.estimate import Calibration
from qrsc.pipeline import Corrected
from qrsc.timing import Readout, Scan
from qrsc.video.clip_plan import ClipPlan
from qrsc.video.result_check import CheckedResult

_COUNTS = ("frames", "unchanged", "cuts", "repeated")
MEANS = ("mean_px", "unsure", "filled", "unseen")  # figures of a result that are means over its frames


@dataclass(frozen=True)
class VideoResult:
    """What became of a clip.

    Attributes:
        output: the file or folder that was written.
        compare: the comparison that was written beside it, if one was asked for.
        readout: what the stored frames were corrected with.
        scan: direction of the readout in the picture as seen.
        readout_from: where that comes from, in words.
        calibration: what the clip shows about its readout, in terms of the picture as seen; None if it was not asked.
        notes: everything a user should know, in the order in which it was noticed.
        left_out: tracks of the input that the output cannot hold.
        damaged: packets of the video that could not be decoded.
        truncated: the input ends before its own header says that it does; what is there was corrected.
        verified: what of the output was read again and confirmed, in words; empty if nothing was.
        mended_timestamps: frames whose timestamps were missing, repeated, or jumped back.
        fallbacks: where something else was done than was asked for, each with its reason and how often.
        frames: how many were written.
        unchanged: of these, how many were written as they came.
        copied: the output is the input, byte for byte: nothing was to be corrected.
        checked: whether the result is less distorted than the input, by points that were followed from frame to frame.
            If the correction was lessened to nothing, of the last one that was tried. None if nothing was to be
            corrected from the start.
        plan: of a dry run, in which nothing is written; None otherwise.
        strength: of the correction, 0 to 1: as asked for, or less if that was no better than the input.
        cuts, repeated: scene cuts, and frames that only repeat the one before.
        mean_px, largest_px: length of the correction over all pixels.
        unsure: share of the pixels whose flows contradict each other.
        filled: share of the pixels that their own frame does not show.
        unseen: share of the pixels that no frame shows.
        seconds: for everything.
        seconds_by_work: for each kind of work; work in different threads overlaps.
    """

    output: Path
    readout: Readout
    readout_from: str
    frames: int
    unchanged: int
    cuts: int
    repeated: int
    mean_px: float
    largest_px: float
    unsure: float
    filled: float
    unseen: float
    seconds: float
    seconds_by_work: Mapping[str, float]
    compare: Path | None = None
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    damaged: int = 0
    truncated: bool = False
    copied: bool = False
    verified: str = ""
    mended_timestamps: int = 0
    fallbacks: tuple[str, ...] = ()
    scan: Scan | None = None
    checked: CheckedResult | None = None
    strength: float = 1.0
    plan: ClipPlan | None = None
    calibration: Calibration | None = None

    def figures(self) -> dict[str, Any]:
        """Everything that fits into JSON; times are seconds per frame."""
        count = max(1, self.frames)
        return {
            "output": str(self.output),
            "gamma": self.readout.gamma,
            "scan": self.scan or self.readout.scan,
            "readout_from": self.readout_from,
            "strength": self.strength,
            "check": None if self.checked is None else self.checked.figures(),
            "plan": None if self.plan is None else self.plan.figures(),
            "frames": self.frames,
            "unchanged": self.unchanged,
            "copied": self.copied,
            "cuts": self.cuts,
            "repeated": self.repeated,
            "mean_px": self.mean_px,
            "largest_px": self.largest_px,
            "unsure": self.unsure,
            "filled": self.filled,
            "unseen": self.unseen,
            "damaged": self.damaged,
            "truncated": self.truncated,
            "verified": self.verified,
            "mended_timestamps": self.mended_timestamps,
            "left_out": list(self.left_out),
            "fallbacks": list(self.fallbacks),
            "seconds_per_frame": self.seconds / count,
            "seconds_by_work": {name: seconds / count for name, seconds in self.seconds_by_work.items()},
        }

    def text(self, verb: str = "corrected into") -> str:
        """A few lines for people; `verb` says what was done with the frames."""
        if self.plan is not None:
            return self.plan.text(self.output)
        many = f"{_counted(self.frames, 'frame')} {verb} {self.output}"
        if self.copied:
            why = "nothing to correct" if self.checked is None else "no correction made them better"
            lines = [f"{_counted(self.frames, 'frame')} copied to {self.output}: {why}"]
        elif self.frames == self.unchanged:
            lines = [f"{many}: none needed a correction"]
        else:
            lines = [
                f"{many}: {self.mean_px:.2f} px on average, {self.largest_px:.2f} px at most, "
                f"{self.seconds / max(1, self.frames):.2f} s per frame",
                f"pixels: {self.unsure:.1%} of unsure motion, {self.filled:.1%} not in their own frame, "
                f"{self.unseen:.1%} in none; {_counted(self.cuts, 'scene cut')}, "
                f"{_counted(self.repeated, 'repeated frame')}, {_counted(self.unchanged, 'frame')} left as they came",
            ]
            if self.checked is not None:
                lines.append(f"checked: {self.checked.text()}")
        if self.seconds_by_work and self.frames:
            each = {name: 1000 * seconds / self.frames for name, seconds in self.seconds_by_work.items()}
            parts = ", ".join(f"{name} {milliseconds:.0f}" for name, milliseconds in each.items())
            lines.append(f"milliseconds per frame, side by side in threads: {parts}")
        if self.verified:
            lines.append(f"verified: {self.verified}")
        return "\n".join(lines)


@dataclass
class Tally:
    """Figures gathered while a clip is worked on.

    Attributes:
        on_note: hears every note at once.
        on_frame: gets every frame of the output as it is counted.
        lessened: why less was corrected than asked for, in words; empty if it was not.
    """

    on_note: Callable[[str], None] | None = None
    on_frame: Callable[[Corrected], None] | None = None
    notes: list[str] = field(default_factory=list)
    frames: int = 0
    unchanged: int = 0
    cuts: int = 0
    repeated: int = 0
    largest_px: float = 0.0
    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(MEANS, 0.0))  # over frames
    reasons: Counter[str] = field(default_factory=Counter)  # for fallbacks, in frames
    started: float = field(default_factory=time.perf_counter)
    lessened: str = ""

    def restart(self, why: str) -> None:
        """Count from the beginning: the clip is worked on again, with less of a correction. Notes stay."""
        self.frames = self.unchanged = self.cuts = self.repeated = 0
        self.largest_px = 0.0
        self.sums = dict.fromkeys(MEANS, 0.0)
        self.reasons.clear()
        self.lessened = why

    def note(self, line: str) -> None:
        """Keep something that a user should know; said once, however often the clip is worked on."""
        if line in self.notes:
            return
        self.notes.append(line)
        if self.on_note is not None:
            self.on_note(line)

    def warn(self, line: str) -> None:
        """Keep something that a user must know, however quiet everything else is."""
        self.notes.append(line)
        warnings.warn(line, stacklevel=2)

    def add(self, corrected: Corrected) -> None:
        """Count one frame."""
        self.frames += 1
        self.unchanged += corrected.unchanged
        self.cuts += corrected.after_cut
        self.repeated += corrected.repeats
        self.reasons.update(separated(corrected.fallback) if corrected.fallback else ())
        if self.on_frame is not None:
            self.on_frame(corrected)
        if corrected.unchanged:
            return
        # Written out: `norm` over two channels takes ten times as long.
        length = corrected.correction_field.square().sum(0).sqrt()  # [h, w]
        self.largest_px = max(self.largest_px, float(length.max()))
        self.sums["mean_px"] += float(length.mean())
        self.sums["unsure"] += corrected.unsure
        self.sums["filled"] += corrected.filled
        self.sums["unseen"] += 1.0 - float(corrected.valid.float().mean())

    @property
    def seconds(self) -> float:
        """Since the work began."""
        return time.perf_counter() - self.started

    def counted(self) -> dict[str, Any]:
        """What was counted, for JSON."""
        return {name: getattr(self, name) for name in _COUNTS} | {
            "largest_px": self.largest_px,
            "sums": dict(self.sums),
            "reasons": dict(self.reasons),
        }

    def merge(self, counted: Mapping[str, Any], seconds: float) -> None:
        """Add what was `counted` elsewhere, in so many seconds."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + counted[name])
        self.largest_px = max(self.largest_px, counted["largest_px"])
        for name, total in counted["sums"].items():
            self.sums[name] += total
        self.reasons.update(counted["reasons"])
        self.started -= seconds

    def result(self, **known: Any) -> VideoResult:
        """The result, with what only the caller knows."""
        count = max(1, self.frames)
        means: dict[str, Any] = {name: total / count for name, total in self.sums.items()}
        return VideoResult(
            frames=self.frames,
            unchanged=self.unchanged,
            cuts=self.cuts,
            repeated=self.repeated,
            largest_px=self.largest_px,
            notes=tuple(self.notes),
            fallbacks=(
                *([self.lessened] if self.lessened else []),
                *(f"{reason} ({_counted(many, 'frame')})" for reason, many in self.reasons.items()),
            ),
            seconds=self.seconds,
            **means,
            **known,
        )


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"
