"""What a correction did, in three lines or in one of JSON."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from qrsc.pipeline import Corrected


@dataclass
class Summary:
    """Figures gathered frame by frame."""

    frames: int = 0
    unchanged: int = 0
    cuts: int = 0
    repeated: int = 0
    mean_px: float = 0.0  # sums over frames, until they are asked for
    unsure: float = 0.0
    filled: float = 0.0
    unseen: float = 0.0
    largest_px: float = 0.0
    started: float = field(default_factory=time.perf_counter)

    def add(self, corrected: Corrected) -> None:
        """Takes note of one frame."""
        self.frames += 1
        self.unchanged += corrected.unchanged
        self.cuts += corrected.after_cut
        self.repeated += corrected.repeats
        if corrected.unchanged:
            return
        # Written out: `norm` over two channels takes ten times as long.
        length = corrected.correction_field.square().sum(0).sqrt()  # [h, w]
        self.mean_px += float(length.mean())
        self.largest_px = max(self.largest_px, float(length.max()))
        self.unsure += corrected.unsure
        self.filled += corrected.filled
        self.unseen += 1.0 - float(corrected.valid.float().mean())

    def figures(self, spent: Mapping[str, float]) -> dict[str, float | int | dict[str, float]]:
        """All figures by name; times are seconds per frame."""
        count = max(1, self.frames)
        return {
            "frames": self.frames,
            "unchanged": self.unchanged,
            "cuts": self.cuts,
            "repeated": self.repeated,
            "mean_px": self.mean_px / count,
            "largest_px": self.largest_px,
            "unsure": self.unsure / count,
            "filled": self.filled / count,
            "unseen": self.unseen / count,
            "seconds_per_frame": (time.perf_counter() - self.started) / count,
            "seconds_by_work": {name: seconds / count for name, seconds in spent.items()},
        }

    def text(self, what: str, spent: Mapping[str, float]) -> str:
        """The same for people; `what` was done with how many frames, into which file."""
        figures = self.figures(spent)
        lines = [
            f"{self.frames} frame{'s' * (self.frames != 1)} {what}: {figures['mean_px']:.2f} px on average, "
            f"{self.largest_px:.2f} px at most, {figures['seconds_per_frame']:.2f} s per frame"
        ]
        if self.frames == self.unchanged:
            lines = [f"{self.frames} frame{'s' * (self.frames != 1)} {what}: none needed a correction"]
        elif self.frames:
            lines.append(
                f"pixels: {self.unsure / self.frames:.1%} of unsure motion, {self.filled / self.frames:.1%} not in "
                f"their own frame, {self.unseen / self.frames:.1%} in none; {_counted(self.cuts, 'scene cut')}, "
                f"{_counted(self.repeated, 'repeated frame')}, {_counted(self.unchanged, 'frame')} left as they came"
            )
        if spent and self.frames:
            parts = ", ".join(f"{name} {1000 * seconds / self.frames:.0f}" for name, seconds in spent.items())
            lines.append(f"milliseconds per frame, side by side in threads: {parts}")
        return "\n".join(lines)


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"
