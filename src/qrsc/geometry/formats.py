"""Files for other programs from the readout and the camera's motion: text formats, written and documented here.

Each function returns the text of a file; `qrsc.geometry.export` writes them.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt

from qrsc.geometry.camera_motion import CameraMotion
from qrsc.timing import Readout, Scan

Array = npt.NDArray[np.float64]

GYRO_SAMPLES = 10  # per frame interval
# Gyroflow's numbers for the direction of the readout.
_GYROFLOW_DIRECTIONS: dict[Scan, int] = {"top-down": 0, "bottom-up": 1, "left-right": 2, "right-left": 3}
_GSPLAT_SHUTTERS: dict[Scan, str] = {
    "top-down": "ROLLING_TOP_TO_BOTTOM",
    "bottom-up": "ROLLING_BOTTOM_TO_TOP",
    "left-right": "ROLLING_LEFT_TO_RIGHT",
    "right-left": "ROLLING_RIGHT_TO_LEFT",
}


def gyroflow_log(motion: CameraMotion, video: str) -> str:
    """A gyroscope log (.gcsv) with the rotation found in the picture.

    Convention
        Gyroflow counts time from the middle row of the first frame. It turns by `(-gy, gx, gz)` in axes with x to the
        right, y up and z towards the viewer, and takes each rate as the mean since the sample before. With the camera's
        rates about x (right), y (down) and z (ahead), that is `g = (-y, -x, -z)`.
    """
    fps = require_fps(motion.fps)
    step = 1.0 / GYRO_SAMPLES
    times = np.arange(-GYRO_SAMPLES, (motion.frames + 1) * GYRO_SAMPLES, dtype=np.float64) * step
    rates = motion.rates(times, step) * fps  # rad / s
    seconds = (times - motion.readout.instant("middle")) / fps
    logged = -rates[:, [1, 0, 2]]
    note = "rotation found from the picture"
    if motion.weak:
        note += f"; uncertain in frames {motion.weak_ranges.replace(',', ' and')}"  # a comma ends a field
    lines = [
        "GYROFLOW IMU LOG",
        "version,1.3",
        "id,qrsc",
        "orientation,XYZ",
        f"note,{note}",
        f"videofilename,{video}",
        f"frame_readout_time,{motion.readout.milliseconds(fps):.4f}",
        f"frame_readout_direction,{_GYROFLOW_DIRECTIONS[motion.readout.scan]}",
        "tscale,0.000001",
        "gscale,0.000001",
        "t,gx,gy,gz",
    ]
    for second, rate in zip(seconds, logged, strict=True):
        lines.append(",".join(str(round(1e6 * float(value))) for value in (second, *rate)))
    return "\n".join(lines) + "\n"


def kalibr_chain(readout: Readout, fps: float, size: tuple[int, int], focal: float | None) -> str:
    """A camera chain (.yaml) of Kalibr with the line delay in seconds.

    Kalibr knows rows read from the top alone; the delay of a picture read from the bottom is negative.
    """
    if readout.sideways:
        raise ValueError(
            f"Kalibr has no scan along columns, and this clip is read {readout.scan}: turn its frames by a quarter "
            "first, and give the scan of the turned frames."
        )
    height, width = size
    length = float(max(height, width)) if focal is None else focal
    delay = readout.milliseconds(fps) / 1000.0 / height * (-1.0 if readout.backwards else 1.0)
    note = "# focal length not known: a guess, to be calibrated" if focal is None else "# focal length as given"
    return "\n".join(
        [
            "cam0:",
            "  camera_model: pinhole",
            f"  {note}",
            f"  intrinsics: [{length:.6g}, {length:.6g}, {(width - 1) / 2:g}, {(height - 1) / 2:g}]",
            "  distortion_model: radtan",
            "  distortion_coeffs: [0.0, 0.0, 0.0, 0.0]",
            f"  resolution: [{width}, {height}]",
            "  rostopic: /cam0/image_raw",
            f"  line_delay: {delay:.9g}",
            "",
        ]
    )


def odm_settings(readout: Readout, fps: float) -> str:
    """Settings of OpenDroneMap: the readout in milliseconds, as options of its command."""
    if readout.scan != "top-down":
        raise ValueError(
            f"OpenDroneMap corrects frames that are read top-down, and this clip is read {readout.scan}: correct the "
            "frames instead (qrsc correct), or turn them."
        )
    rolling = round(readout.milliseconds(fps), 3)
    return json.dumps({"rolling-shutter": True, "rolling-shutter-readout": rolling}, indent=2) + "\n"


def gsplat_views(
    names: list[str], starts: Array, ends: Array, readout: Readout, intrinsics: Array, size: tuple[int, int]
) -> str:
    """Views of gsplat: world-to-camera matrices `[N, 4, 4]` of each frame's first and last row, as JSON.

    The keys of a frame and of `arguments` are those of `gsplat.rasterization`.
    """
    frames: list[dict[str, Any]] = [
        {"name": name, "viewmat": start.tolist(), "viewmat_rs": end.tolist()}
        for name, start, end in zip(names, starts, ends, strict=True)
    ]
    arguments = {
        "rolling_shutter": _GSPLAT_SHUTTERS[readout.scan],
        "with_ut": True,
        "with_eval3d": True,
        "width": size[1],
        "height": size[0],
        "Ks": intrinsics.tolist(),
    }
    return json.dumps({"arguments": arguments, "frames": frames}, indent=1) + "\n"


def require_fps(fps: float | None) -> float:
    """The frame rate, or an error that asks for it."""
    if fps is None:
        raise ValueError("a folder of images has no frame rate, and this format is in seconds: add --fps.")
    return fps
