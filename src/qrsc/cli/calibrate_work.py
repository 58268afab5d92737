"""What `qrsc calibrate` does between its options and its figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from qrsc.calibrate.calibrate_clip import LOOKS, calibrate_clip
from qrsc.calibrate.camera_table import choose_mode
from qrsc.calibrate.curve_plot import curve_text, write_curve
from qrsc.calibrate.estimate import Calibration
from qrsc.calibrate.grey_frames import ClipSource, open_clip
from qrsc.calibrate.sweep import sweep_gammas, sweep_sheet
from qrsc.cli.progress import progress_bar
from qrsc.media.atomic import atomic_file
from qrsc.media.image_folder import write_frame
from qrsc.media.outputs import require_writable
from qrsc.timing import Scan


def calibrate_source(
    source: Path,
    *,
    scan: Scan | Literal["any"] | None,
    camera: str | None,
    fps: float | None,
    plot: Path | None,
    sweep: Path | None,
    overwrite: bool,
    as_json: bool,
    quiet: bool,
) -> tuple[str, bool]:
    """What to print, and whether the clip determines its readout."""
    require_writable({"--plot": plot, "--sweep": sweep}, inputs=[source], overwrite=overwrite)
    clip = open_clip(source, fps)
    notes = []
    around = None
    if camera is not None:
        mode, others = choose_mode(camera, size=clip.size, fps=clip.fps)
        around = mode.gamma(clip.fps)
        notes.append(f"camera    {mode}, gamma {around:.3f}: a starting point")
        notes += [f"          or {other}" for other in others]
    with progress_bar(quiet or as_json) as progress:
        task = progress.add_task("calibrating", total=LOOKS[-1] + 1)
        found = calibrate_clip(
            clip,
            scan=None if scan == "any" else scan,
            either_axis=scan == "any",
            around=around,
            advance=lambda: progress.advance(task),
        )
    if plot is not None:
        write_curve(plot, found, f"{source.name}: {_headline(found)}")
    if sweep is not None:
        sheet = sweep_sheet(clip, sweep_gammas(found.gamma), found.scan)
        with atomic_file(sweep) as work:
            write_frame(work, sheet)
    text = as_json_text(found, clip) if as_json else "\n".join([*_lines(found, clip), *notes])
    return text, found.determined


def as_json_text(found: Calibration, clip: ClipSource) -> str:
    """The result for programs; what the clip does not determine is null."""
    milliseconds = None if clip.fps is None or not found.determined else 1000.0 * found.gamma / clip.fps
    return json.dumps(
        {
            "gamma": round(found.gamma, 4) if found.determined else None,
            "low": round(found.low, 4),
            "high": round(found.high, 4),
            "readout_ms": None if milliseconds is None else round(milliseconds, 3),
            "scan": found.scan,
            "determined": found.determined,
            "reason": found.reason,
            "fps": clip.fps,
            "frames": found.pairs + 1,
            "speed": round(found.speed, 3),
            "change": round(found.change, 3),
        },
        indent=2,
    )


def _headline(found: Calibration) -> str:
    if not found.determined:
        return f"not determined ({found.low:.2f} to {found.high:.2f})"
    return f"gamma {found.gamma:.3f} ({found.low:.3f} to {found.high:.3f}), {found.scan}"


def _lines(found: Calibration, clip: ClipSource) -> list[str]:
    lines = []
    if found.is_global:
        lines.append(f"gamma     {found.gamma:.3f} (at most {found.high:.3f}): a global shutter, nothing to correct")
    elif found.determined:
        lines.append(f"gamma     {found.gamma:.3f} ({found.low:.3f} to {found.high:.3f})")
        if clip.fps is not None:
            low, best, high = (1000.0 * value / clip.fps for value in (found.low, found.gamma, found.high))
            lines.append(f"readout   {best:.2f} ms ({low:.2f} to {high:.2f}) at {clip.fps:g} fps")
        lines.append(f"scan      {found.scan}")
    else:
        lines.append(f"gamma     not determined: somewhere from {found.low:.2f} to {found.high:.2f}")
    lines.append(f"why       {found.reason}")
    lines.append(
        f"motion    {found.speed:.1f} px per frame, changing by {found.change:.1f}, over {found.pairs + 1} frames"
    )
    curve = curve_text(found)
    if curve:
        lines += ["unexplained by gamma:", curve]
    return lines
