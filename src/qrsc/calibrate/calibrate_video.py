"""The readout of a video or a folder of images, with its report and pictures: what `qrsc calibrate` does."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Literal

from qrsc.backend.progress import CancelToken, ProgressCallback, Stage
from qrsc.calibrate.calibrate_clip import MOST_FRAMES, calibrate_clip
from qrsc.calibrate.camera_table import CameraMode, choose_mode
from qrsc.calibrate.curve_plot import write_curve
from qrsc.calibrate.grey_frames import open_clip
from qrsc.calibrate.recorded import recorded_figures
from qrsc.calibrate.report import CalibrationReport
from qrsc.calibrate.shown_scan import stored_scan
from qrsc.calibrate.sweep import sweep_gammas, sweep_sheet
from qrsc.media.atomic import atomic_file
from qrsc.media.image_folder import write_frame
from qrsc.media.outputs import require_writable
from qrsc.media.probe import clip_info
from qrsc.timing import Scan


def calibrate_video(
    source: str | Path,
    *,
    scan: Scan | Literal["any"] | None = None,
    camera: str | None = None,
    fps: float | None = None,
    plot: str | Path | None = None,
    sweep: str | Path | None = None,
    overwrite: bool = False,
    progressive: bool = False,
    progress: ProgressCallback | None = None,
    cancel: CancelToken | None = None,
) -> CalibrationReport:
    """Estimate the readout of a clip on disk.

    Args:
        source: a video, or a folder of images.
        scan: direction in the picture as seen. None finds it along the shorter side of the frames, `any` along both.
        camera: name of a camera in the table; gamma is searched around its value.
        fps: frame rate of the recording; that of the file if None.
        plot: PNG to write the residual curve to.
        sweep: PNG to write one frame to, corrected at several gammas.
        overwrite: replace these files where they exist.
        progressive: the frames of a clip that is marked as interlaced are progressive, each from one exposure.
        progress: called for every frame that is read.
        cancel: token that stops the estimate within one frame, before anything is written.

    Raises:
        ValueError: the clip, the camera or an output is not usable; the message says why.
        OSError: a file cannot be read or written.
        Cancelled: the token was set.
    """
    source = Path(source)
    plot, sweep = (None if path is None else Path(path) for path in (plot, sweep))
    require_writable({"--plot": plot, "--sweep": sweep}, inputs=[source], overwrite=overwrite)
    info = clip_info(source, progressive=progressive)
    clip = open_clip(source, fps, info)
    mode: CameraMode | None = None
    others: list[CameraMode] = []
    if camera is not None:
        mode, others = choose_mode(camera, size=clip.size, fps=clip.fps)
    recorded = recorded_figures(clip)
    found = calibrate_clip(
        clip,
        scan=None if scan is None or scan == "any" else stored_scan(scan, clip.matrix),
        either_axis=scan == "any",
        around=None if mode is None else mode.gamma(clip.fps),
        gyro=recorded.gyro,
        advance=Stage("calibrating", MOST_FRAMES, progress, cancel).advance,
    )
    if clip.met.damaged:  # not how many: some are read twice
        warnings.warn(f"{source.name} has damaged packets, which were left out.", stacklevel=2)
    report = CalibrationReport(source, found, clip.fps, mode, tuple(others), clip.matrix, recorded)
    if plot is not None:
        write_curve(plot, report.calibration, f"{source.name}: {report.headline()}")
    if sweep is not None:
        sheet = sweep_sheet(clip, sweep_gammas(found.gamma), found.scan)
        with atomic_file(sweep) as work:
            write_frame(work, sheet)
    return report
