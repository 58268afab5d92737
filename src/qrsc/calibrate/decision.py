"""The readout of a clip when none is given: from the clip itself, else from its camera, else a typical value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from qrsc.calibrate.calibrate_clip import calibrate_clip
from qrsc.calibrate.camera_table import CameraMode, choose_mode
from qrsc.calibrate.estimate import Calibration
from qrsc.calibrate.grey_frames import ClipSource, open_clip
from qrsc.media.probe import ClipInfo
from qrsc.timing import Readout, Scan

# In the middle of the readouts of phones (0.3 to 0.9 at 30 fps), which makes the mean error smallest.
GUESS = 0.6


@dataclass(frozen=True)
class ChosenReadout:
    """A readout, with one sentence on where it comes from.

    Attributes:
        readout: to correct with.
        message: what was taken and why.
        nothing_to_correct: the clip comes from a global shutter, or was corrected before.
    """

    readout: Readout
    message: str
    nothing_to_correct: bool = False


def readout_for_clip(
    source: Path,
    *,
    camera: str | None,
    scan: Scan | None,
    fps: float | None,
    info: ClipInfo | None = None,
    advance: Callable[[], None] | None = None,
) -> ChosenReadout:
    """The readout that a clip should be corrected with.

    Args:
        source: a video, or a folder of images.
        camera: its camera, if the user named one; the estimate is then limited to values near the camera's.
        scan: its direction, if known; estimated if not.
        fps: its frame rate, in place of the file's own or where there is none.
        info: of a video that has been probed before.
        advance: called for every frame that is read.
    """
    clip = open_clip(source, fps, info)
    if camera is not None:
        mode, others = choose_mode(camera, size=clip.size, fps=clip.fps)
        found = calibrate_clip(clip, scan=scan, around=mode.gamma(clip.fps), advance=advance)
        return _by_camera(mode, others, found, clip, scan)
    found = calibrate_clip(clip, scan=scan, advance=advance)
    if found.is_global:
        return ChosenReadout(
            Readout(0.0, found.scan),
            f"nothing to correct: the rows of this clip are exposed together (gamma {found.gamma:.2f}, at most "
            f"{found.high:.2f}); it comes from a global shutter or was corrected before",
            nothing_to_correct=True,
        )
    if found.determined:
        return ChosenReadout(
            Readout(found.gamma, found.scan),
            f"readout found in the clip: gamma {found.gamma:.3f} ({found.low:.3f} to {found.high:.3f})"
            f"{_in_milliseconds(found.gamma, clip)}, {found.scan}",
        )
    return _undetermined(clip, found, scan)


def _by_camera(
    mode: CameraMode, others: list[CameraMode], found: Calibration, clip: ClipSource, scan: Scan | None
) -> ChosenReadout:
    known = mode.gamma(clip.fps)
    if found.determined and not found.is_global:
        return ChosenReadout(
            Readout(found.gamma, found.scan),
            f"{mode} (gamma {known:.3f}), refined by the clip to gamma {found.gamma:.3f} "
            f"({found.low:.3f} to {found.high:.3f}), {found.scan}",
        )
    also = f"; it might also be {' or '.join(f'{other.readout_ms:g} ms' for other in others[:3])}" if others else ""
    return ChosenReadout(
        Readout(known, scan or "top-down"),
        f"{mode}: gamma {known:.3f} taken as it stands in the table, since {found.reason}{also}",
    )


def _undetermined(clip: ClipSource, found: Calibration, scan: Scan | None) -> ChosenReadout:
    unknown = ""
    if clip.camera:
        try:
            mode, _ = choose_mode(clip.camera, size=clip.size, fps=clip.fps)
        except ValueError:
            unknown = f" The file names a {clip.camera}, but the table has no readout of it at this size and rate."
        else:
            known = mode.gamma(clip.fps)
            return ChosenReadout(
                Readout(known, scan or "top-down"),
                f"the clip does not determine its readout ({found.reason}); the file names a {clip.camera}: "
                f"{mode}, gamma {known:.3f}",
            )
    return ChosenReadout(
        Readout(GUESS, scan or "top-down"),
        f"the clip does not determine its readout: {found.reason}.{unknown} gamma {GUESS} is assumed, and it matters "
        "little where the motion is steady or small; give --readout, --gamma or --camera if you know better",
    )


def _in_milliseconds(gamma: float, clip: ClipSource) -> str:
    return "" if clip.fps is None else f", {1000.0 * gamma / clip.fps:.2f} ms at {clip.fps:g} fps"
