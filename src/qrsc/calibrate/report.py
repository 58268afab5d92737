"""A calibration in words and figures: text for people, a dictionary for programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qrsc.calibrate.camera_table import CameraMode
from qrsc.calibrate.curve_plot import curve_text
from qrsc.calibrate.estimate import Calibration
from qrsc.calibrate.gyro import gyro_in_words
from qrsc.calibrate.recorded import RecordedFigures, stabilisation_warning
from qrsc.calibrate.shown_scan import as_shown, scan_in_words, turning
from qrsc.media.orientation import IDENTITY, Matrix


@dataclass(frozen=True)
class CalibrationReport:
    """The calibration of a clip, with what is needed to report it.

    Attributes:
        source: the clip.
        stored: what was found, in terms of the stored frames.
        fps: frame rate of the clip; None if it is not known.
        camera: mode of the named camera whose gamma the search started from, if one was named.
        other_cameras: other modes of that camera that the clip may have been recorded in.
        matrix: how the stored frames are turned for display.
        recorded: what the file itself says.
    """

    source: Path
    stored: Calibration
    fps: float | None
    camera: CameraMode | None = None
    other_cameras: tuple[CameraMode, ...] = ()
    matrix: Matrix = IDENTITY
    recorded: RecordedFigures = field(default_factory=RecordedFigures)

    @property
    def calibration(self) -> Calibration:
        """What was found, in terms of the picture as seen."""
        return as_shown(self.stored, self.matrix)

    @property
    def readout_ms(self) -> float | None:
        """Readout time in milliseconds; None if the clip does not determine it, or its frame rate is not known."""
        found = self.calibration
        return None if self.fps is None or not found.determined else 1000.0 * found.gamma / self.fps

    def figures(self) -> dict[str, Any]:
        """The result as values that JSON can hold; what the clip does not determine is None."""
        found, milliseconds = self.calibration, self.readout_ms
        return {
            "gamma": round(found.gamma, 4) if found.determined else None,
            "low": round(found.low, 4),
            "high": round(found.high, 4),
            "least": round(found.least, 4),
            "most_probable": round(found.gamma, 4) if found.measured else None,
            "readout_ms": None if milliseconds is None else round(milliseconds, 3),
            "scan": found.scan,
            "stored_scan": self.stored.scan,
            "turned": turning(self.matrix),
            "file_readout_ms": self.recorded.readout_ms,
            "stabilisation": self.recorded.stabilisation,
            "gyro_correlation": None if found.gyro is None else round(found.gyro, 3),
            "determined": found.determined,
            "altered": found.altered,
            "reason": found.reason,
            "fps": self.fps,
            "frames": found.pairs + 1,
            "speed": round(found.speed, 3),
            "change": round(found.change, 3),
        }

    def headline(self) -> str:
        """The result in one line."""
        found = self.calibration
        if not found.determined:
            return f"not determined ({found.least:.2f} to {found.high:.2f})"
        return f"gamma {found.gamma:.3f} ({found.low:.3f} to {found.high:.3f}), {found.scan}"

    def text(self) -> str:
        """The result in a few lines, with the residual curve."""
        found = self.calibration
        lines = [
            *self._gamma_lines(),
            *self._file_lines(),
            f"why       {found.reason}",
            f"motion    {found.speed:.1f} px per frame, changing by {found.change:.1f}, over {found.pairs + 1} frames",
        ]
        curve = curve_text(found)
        if curve:
            lines += ["residual by gamma:", curve]
        if self.camera is not None:
            lines.append(f"camera    {self.camera}, gamma {self.camera.gamma(self.fps):.3f}: a starting point")
            lines += [f"          or {other}" for other in self.other_cameras]
        return "\n".join(lines)

    def _gamma_lines(self) -> list[str]:
        found = self.calibration
        if found.is_global:
            return [f"gamma     {found.gamma:.3f} (at most {found.high:.3f}): a global shutter, nothing to correct"]
        if found.altered:
            return ["gamma     not determined: no single readout explains this clip"]
        if not found.determined:
            against = f"; below 0 is against {found.scan}" if found.both_directions else ""
            lines = [f"gamma     not determined: somewhere from {found.least:.2f} to {found.high:.2f}{against}"]
            if found.measured:
                lines.append(
                    f"          most probable {found.gamma:.3f}, {scan_in_words(self.stored.scan, self.matrix)}"
                )
            return lines
        lines = [f"gamma     {found.gamma:.3f} ({found.low:.3f} to {found.high:.3f})"]
        if self.fps is not None:
            low, best, high = (1000.0 * value / self.fps for value in (found.low, found.gamma, found.high))
            lines.append(f"readout   {best:.2f} ms ({low:.2f} to {high:.2f}) at {self.fps:g} fps")
        return [*lines, f"scan      {scan_in_words(self.stored.scan, self.matrix)}"]

    def _file_lines(self) -> list[str]:
        """What the file itself says, and whether the clip agrees."""
        lines, recorded = [], self.recorded
        if recorded.readout_ms is not None:
            gamma = "" if self.fps is None else f", gamma {recorded.readout_ms * self.fps / 1000.0:.3f}"
            lines.append(f"file      {recorded.readout_ms:.2f} ms{gamma} ({recorded.origin})")
        if self.stored.gyro is not None:
            lines.append(f"gyro      {gyro_in_words(self.stored.gyro)}")
        if recorded.stabilisation:
            lines.append(f"warning   {stabilisation_warning(recorded)}")
        return lines
