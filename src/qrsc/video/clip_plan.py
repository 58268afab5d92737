"""What a run would do, in words and figures."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from qrsc.names import PresetName

LONG_RUN = 600.0  # seconds from which on a quicker way is recommended
QUICKER = "--fast is the quickest preset, and --duration 5 shows a part"


@dataclass(frozen=True)
class ClipPlan:
    """What a run would do.

    Attributes:
        copied: nothing is corrected, and the clip is copied.
        frames: that would be written; None if that is not known.
        preset: of the correction.
        encoder: of a video; None for a folder.
        size: `(H, W)` of the frames.
        seconds: that it would take, after finding the readout; None if that is not known.
        bytes: that the output would have; None if that is not known.
    """

    copied: bool
    frames: int | None
    preset: PresetName
    encoder: str | None
    size: tuple[int, int]
    seconds: float | None = None
    bytes: int | None = None

    def figures(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "size": [self.size[1], self.size[0]]}

    def text(self, output: Path) -> str:
        """A few lines for people."""
        frames = "an unknown number of frames" if self.frames is None else f"{self.frames} frames"
        if self.copied:
            return f"dry run: {frames} would be copied to {output}, {in_bytes(self.bytes)}; nothing was written"
        kind = "images" if self.encoder is None else self.encoder
        lines = [
            f"dry run: {frames} would be written into {output}; nothing was written",
            f"preset {self.preset}, {self.size[1]}x{self.size[0]}, {kind}",
            f"time: {in_words(self.seconds)}; output: {in_bytes(self.bytes)}",
        ]
        if self.seconds is not None and self.seconds > LONG_RUN and self.preset != "fast":
            lines.append(QUICKER)
        return "\n".join(lines)


def in_words(seconds: float | None) -> str:
    """A time, roughly."""
    if seconds is None:
        return "unknown, since the number of frames is"
    if seconds < 90.0:
        return f"about {max(1.0, seconds):.0f} s"
    return f"about {seconds / 60:.0f} minutes" if seconds < 5400.0 else f"about {seconds / 3600:.1f} hours"


def in_bytes(count: int | None) -> str:
    """A size, roughly."""
    if count is None:
        return "of unknown size"
    for unit, many in (("GB", 1e9), ("MB", 1e6)):
        if count >= many:
            return f"about {count / many:.1f} {unit}"
    return f"about {max(1, round(count / 1000))} kB"
