"""The readout of a clip when none is given: from the file, else the clip, else the table of cameras, else little.

Convention
    Scans in messages are those of the picture as seen; those of a `Readout` are of the stored frames.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from qrsc.calibrate.calibrate_clip import calibrate_clip
from qrsc.calibrate.camera_table import CameraMode, choose_mode
from qrsc.calibrate.estimate import GLOBAL_GAMMA, INTERVAL, Calibration
from qrsc.calibrate.grey_frames import ClipSource, open_clip
from qrsc.calibrate.gyro import gyro_in_words
from qrsc.calibrate.recorded import RecordedFigures, recorded_figures, stabilisation_warning
from qrsc.calibrate.shown_scan import scan_in_words
from qrsc.media.probe import ClipInfo
from qrsc.timing import Readout, Scan

# Where nothing is known: the low end of the readouts of phones (0.3 to 0.9 at 30 fps). It leaves less distortion than
# there was for every gamma above 0.15, where a typical 0.6 needs one above 0.3.
LITTLE = 0.3
# A figure of the file agrees with the clip within its interval and this much beside it: figures are rounded, and count
# blank rows or not.
FILE_TOLERANCE = 0.03
NEGLIGIBLE_PX = 0.5  # by which rows may be off for gamma to matter little


@dataclass(frozen=True)
class ChosenReadout:
    """A readout, with one sentence on where it comes from.

    Attributes:
        readout: to correct with.
        message: what was taken and why.
        nothing_to_correct: the clip is better left as it is: it comes from a global shutter, was corrected or
            stabilised before, or too little is known about it.
        found: what the clip itself shows, in terms of its stored frames; None if it was not asked.
    """

    readout: Readout
    message: str
    nothing_to_correct: bool = False
    found: Calibration | None = None


def readout_for_clip(
    source: Path,
    *,
    camera: str | None,
    scan: Scan | None,
    fps: float | None,
    info: ClipInfo | None = None,
    advance: Callable[[], None] | None = None,
    early: Callable[[ChosenReadout], None] | None = None,
) -> ChosenReadout:
    """The readout that a clip should be corrected with.

    Args:
        source: a video, or a folder of images.
        camera: its camera, if the user named one; the estimate is then limited to values near the camera's.
        scan: its direction in the stored frames, if known; estimated if not.
        fps: its frame rate, in place of the file's own or where there is none.
        info: of a video that has been probed before.
        advance: called for every frame that is read.
        early: gets what would be chosen by a first estimate of the clip, before that has been tested.
    """
    clip = open_clip(source, fps, info)
    recorded = recorded_figures(clip)
    if camera is not None:
        mode, others = choose_mode(camera, size=clip.size, fps=clip.fps)
        found = calibrate_clip(clip, scan=scan, around=mode.gamma(clip.fps), gyro=recorded.gyro, advance=advance)
        return replace(_with_gyro(_by_camera(mode, others, found, clip), found), found=found)
    if recorded.stabilisation:
        return _left_alone(f"{stabilisation_warning(recorded)} It is left as it is; --readout corrects it nevertheless")

    def chosen(found: Calibration) -> ChosenReadout:
        return replace(_with_gyro(_by_clip(clip, recorded, found), found), found=found)

    def tell(found: Calibration) -> None:
        if early is not None:
            early(chosen(found))

    return chosen(calibrate_clip(clip, scan=scan, gyro=recorded.gyro, advance=advance, early=tell))


def _by_clip(clip: ClipSource, recorded: RecordedFigures, found: Calibration) -> ChosenReadout:
    """The choice from the file's own figure and what was found in the clip."""
    if found.is_global:
        return _left_alone(
            f"nothing to correct: the rows of this clip are exposed together (gamma {found.gamma:.2f}, at most "
            f"{found.high:.2f}); it comes from a global shutter or was corrected before{_beside_the_clip(recorded)}"
        )
    if recorded.readout_ms is not None and clip.fps is not None:
        gamma = recorded.readout_ms * clip.fps / 1000.0
        if gamma <= 1.0:
            return _by_file(recorded, gamma, found, clip)
    if found.determined:
        return ChosenReadout(Readout(found.gamma, found.scan), f"readout found in the clip: {_in_words(found, clip)}")
    return _undetermined(clip, recorded, found)


def _by_camera(mode: CameraMode, others: list[CameraMode], found: Calibration, clip: ClipSource) -> ChosenReadout:
    known = mode.gamma(clip.fps)
    if found.determined and not found.is_global:
        return ChosenReadout(
            Readout(found.gamma, found.scan),
            f"{mode} (gamma {known:.3f}), refined by the clip to {_in_words(found, clip)}",
        )
    also = f"; it might also be {' or '.join(f'{other.readout_ms:g} ms' for other in others[:3])}" if others else ""
    shows = "the clip shows no readout at all" if found.is_global else found.reason
    return ChosenReadout(
        Readout(known, found.scan),
        f"{mode}: gamma {known:.3f} taken as it stands in the table, {scan_in_words(found.scan, clip.matrix)}, since "
        f"{shows}{also}",
    )


def _by_file(recorded: RecordedFigures, gamma: float, found: Calibration, clip: ClipSource) -> ChosenReadout:
    """The file's own figure, checked against the clip."""
    said = f"readout by the file itself ({recorded.origin}): {recorded.readout_ms:.2f} ms, gamma {gamma:.3f}"
    scan = scan_in_words(found.scan, clip.matrix)
    if not found.determined:
        return ChosenReadout(
            Readout(gamma, found.scan), f"{said}, {scan}; the clip cannot confirm it, since {found.reason}"
        )
    if found.low - FILE_TOLERANCE <= gamma <= found.high + FILE_TOLERANCE:
        return ChosenReadout(Readout(gamma, found.scan), f"{said}; the clip agrees: {_in_words(found, clip)}")
    # Either may be wrong: the file's where it means the whole sensor, the clip's where its motion misleads.
    less = min(gamma, found.gamma)
    return ChosenReadout(
        Readout(less, found.scan),
        f"{said}; the clip disagrees: {_in_words(found, clip)}. The smaller one is used, which is safer; give "
        "--readout if you know better",
    )


def _undetermined(clip: ClipSource, recorded: RecordedFigures, found: Calibration) -> ChosenReadout:
    """The table's value if the file names its camera, else the most probable one, else little or nothing."""
    opening = f"the clip does not determine its readout: {found.reason}."
    if found.altered and found.both_directions:
        return _left_alone(
            f"{opening} A plain correction is wrong for such a clip. It is left as it is; --readout corrects it "
            "nevertheless"
        )
    if found.against_scan:
        return _left_alone(
            f"{found.reason}. The clip is left as it is: leave --scan out to have it corrected as it was read, or give "
            "--readout as well to insist"
        )
    if found.worst_change(0.0) < NEGLIGIBLE_PX:
        return _left_alone(f"{opening} It is left as it is; {_consequence(found, 0.0)}")
    named = clip.camera or recorded.camera
    if named:
        try:
            mode, _ = choose_mode(named, size=clip.size, fps=clip.fps)
        except ValueError:
            opening += f" The file names a {named}, but the table has no readout of it at this size and rate."
        else:
            known = mode.gamma(clip.fps)
            if found.low <= known <= found.high:
                return ChosenReadout(
                    Readout(known, found.scan),
                    f"{opening} The file names a {named}, whose readout is in the table: {mode}, gamma {known:.3f}, "
                    f"{scan_in_words(found.scan, clip.matrix)}; {_consequence(found, known)}",
                )
            opening += f" The table's readout of a {named}, gamma {known:.2f}, is not within what the clip allows."
    gamma, why = _safest(clip, found)
    if gamma < GLOBAL_GAMMA:
        return _left_alone(f"{opening} {why}; {_consequence(found, 0.0)}; give --readout, --gamma or --camera")
    return ChosenReadout(
        Readout(gamma, found.scan),
        f"{opening} {why}: gamma {gamma:.2f}, {scan_in_words(found.scan, clip.matrix)}; {_consequence(found, gamma)}; "
        "give --readout, --gamma or --camera if you know better",
    )


def _safest(clip: ClipSource, found: Calibration) -> tuple[float, str]:
    """The gamma with the smallest error on average, and why it is that one."""
    if not found.both_directions and found.measured:
        return found.gamma, f"The most probable one ({found.low:.2f} to {found.high:.2f}) is used"
    if found.measured:
        # The positive-part James-Stein estimator: less error on average than the most probable value, and none where
        # that is within one standard error of 0.
        error = (found.gamma - found.least) / INTERVAL
        part = max(0.0, 1.0 - (error / max(found.gamma, 1e-6)) ** 2)
        why = f"Even the direction is open ({found.least:.2f} to {found.high:.2f}, negative against the scan), so that "
        if part * found.gamma < GLOBAL_GAMMA:
            return 0.0, why + "leaving the clip as it is is safest"
        return part * found.gamma, why + f"a part of the most probable {found.gamma:.2f} is safest"
    if found.both_directions and clip.turned_in_pixels:
        return 0.0, "It was probably turned in its pixels, either way, so that leaving it as it is is safest"
    return LITTLE, "A small correction is safest: it improves the clips of nearly all cameras"


def _consequence(found: Calibration, gamma: float) -> str:
    """How much it matters that gamma is not known, by the measured motion."""
    worst = found.worst_change(gamma)
    if not math.isfinite(worst):
        return "how far rows are off is not known, since nothing in it could be followed"
    if worst < NEGLIGIBLE_PX:
        return f"it matters little: whatever the readout is, rows are at most {worst:.2f} px off"
    return f"depending on the true readout, rows of the fastest parts may be up to {worst:.1f} px off"


def _with_gyro(chosen: ChosenReadout, found: Calibration) -> ChosenReadout:
    return chosen if found.gyro is None else replace(chosen, message=f"{chosen.message}. {gyro_in_words(found.gyro)}")


def _left_alone(message: str) -> ChosenReadout:
    return ChosenReadout(Readout(0.0), message, nothing_to_correct=True)


def _in_words(found: Calibration, clip: ClipSource) -> str:
    milliseconds = "" if clip.fps is None else f"{1000.0 * found.gamma / clip.fps:.2f} ms at {clip.fps:g} fps, "
    interval = f"gamma {found.gamma:.3f} ({found.low:.3f} to {found.high:.3f})"
    return f"{milliseconds}{interval}, {scan_in_words(found.scan, clip.matrix)}"


def _beside_the_clip(recorded: RecordedFigures) -> str:
    """What the file says where the clip shows no readout."""
    if recorded.readout_ms is None:
        return ""
    return f", although its file gives a readout of {recorded.readout_ms:.2f} ms ({recorded.origin})"
