"""What a video file itself says about its camera and readout, as many cameras and phones write it.

GoPro's metadata and Apple's readout time are read here. Other makes (Sony, DJI, Canon, Insta360, Blackmagic, Google's
CAMM) are read by the optional package `telemetry-parser`, the extra `camera`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from qrsc.calibrate.gpmf import GyroBlock, read_gpmf
from qrsc.calibrate.grey_frames import ClipSource, full_name

_APPLE_MICROSECONDS = "com.apple.quicktime.camera.framereadouttimeinmicroseconds"
# Names under which the package gives a readout time, in lower case and without underscores.
_READOUT_NAMES = ("framereadouttime", "sensorreadouttime", "readouttime", "rollingshutterskew")
_MOST_SAMPLES = 20_000  # of a gyroscope: ten seconds at 2 kHz
_FASTEST_MS = 0.3  # no camera reads a frame faster; a smaller figure has another unit


@dataclass(frozen=True)
class RecordedFigures:
    """What a file says about its recording.

    Attributes:
        readout_ms: readout time in milliseconds; None if the file does not say.
        camera: maker and model, or an empty string.
        stabilisation: the name of the electronic stabilisation that was on; empty if none is mentioned.
        origin: which metadata say so.
        gyro: blocks of a gyroscope track; empty if there is none.
    """

    readout_ms: float | None = None
    camera: str = ""
    stabilisation: str = ""
    origin: str = ""
    gyro: tuple[GyroBlock, ...] = ()


def recorded_figures(clip: ClipSource) -> RecordedFigures:
    """What a video says about its camera, readout and stabilisation; nothing for a folder of images."""
    if clip.path.is_dir():
        return RecordedFigures()
    gopro = read_gpmf(clip.path)
    if gopro is not None:
        camera = full_name("GoPro", gopro.model) or _parsed(clip).camera  # models before HERO6 do not write their name
        return RecordedFigures(gopro.readout_ms, camera, gopro.stabilisation, "GoPro metadata", gopro.gyro)
    apple = readout_milliseconds(clip.metadata.get(_APPLE_MICROSECONDS), clip.fps)
    if apple is not None:
        return RecordedFigures(apple, clip.camera, origin="QuickTime metadata")
    return _parsed(clip)


def stabilisation_warning(recorded: RecordedFigures) -> str:
    """That a plain correction is wrong for a clip that the camera has stabilised, with what its file says."""
    readout = "" if recorded.readout_ms is None else f"; its readout of {recorded.readout_ms:.2f} ms no longer holds"
    return (
        f"the camera stabilised this clip ({recorded.stabilisation}, by {recorded.origin}{readout}): its "
        "frames were moved and bent after they were read, so that a plain rolling-shutter correction is wrong for it."
    )


def readout_milliseconds(value: Any, fps: float | None) -> float | None:
    """A readout time in milliseconds, from a figure in milliseconds, microseconds or nanoseconds; None if it is none.

    A readout is longer than 0.3 ms and fits between two frames, so that only one of the three units is possible.
    """
    try:
        figure = float(value)
    except (TypeError, ValueError):
        return None
    longest = 1000.0 / (fps or 24.0)
    return next((figure / unit for unit in (1.0, 1e3, 1e6) if _FASTEST_MS <= figure / unit <= 1.001 * longest), None)


def _parsed(clip: ClipSource) -> RecordedFigures:
    """What `telemetry-parser` finds; nothing without the package, or for a file without telemetry."""
    try:
        import telemetry_parser
    except ImportError:
        return RecordedFigures()
    try:
        parser = telemetry_parser.Parser(str(clip.path))
        telemetry, motion = parser.telemetry(), parser.normalized_imu()
    except Exception:  # the package raises whatever its reader meets; a file without telemetry is the usual case
        return RecordedFigures()
    camera = full_name(str(parser.camera or ""), str(parser.model or ""))
    figures = (
        readout_milliseconds(value, clip.fps) for name, value in _named_values(telemetry) if name in _READOUT_NAMES
    )
    readout = next((figure for figure in figures if figure is not None), None)
    return RecordedFigures(readout, camera, origin="the file's telemetry", gyro=_gyro(motion))


def _gyro(samples: Any) -> tuple[GyroBlock, ...]:
    """The angular rates of the package, which are in degrees per second, each with its time in milliseconds."""
    timed = [(sample["timestamp_ms"], sample["gyro"]) for sample in samples or () if sample.get("gyro")][:_MOST_SAMPLES]
    if len(timed) < 2:
        return ()
    times, rates = zip(*timed, strict=True)
    duration = (times[-1] - times[0]) / 1000.0 * len(times) / (len(times) - 1)
    return (GyroBlock(times[0] / 1000.0, duration, np.radians(np.array(rates, dtype=np.float64))),)


def _named_values(tree: Any) -> Iterator[tuple[str, Any]]:
    """All names in nested dictionaries and lists, in lower case and without underscores, with their values."""
    if isinstance(tree, Mapping):
        for name, value in tree.items():
            yield str(name).replace("_", "").casefold(), value
            yield from _named_values(value)
    elif isinstance(tree, (list, tuple)):
        for value in tree[:50]:  # samples of one kind repeat; the first ones tell
            yield from _named_values(value)
