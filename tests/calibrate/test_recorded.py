from __future__ import annotations

import struct
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from qrsc.calibrate.gpmf import read_gpmf
from qrsc.calibrate.grey_frames import ClipSource
from qrsc.calibrate.recorded import readout_milliseconds, recorded_figures
from tests.videos import Recipe, make_video, texture_frames


def entry(key: bytes, kind: bytes, size: int, content: bytes) -> bytes:
    head = struct.pack(">4scBH", key, kind, size, len(content) // size)
    return head + content + b"\0" * (-len(content) % 4)


def nested(key: bytes, *entries: bytes) -> bytes:
    return entry(key, b"\0", 1, b"".join(entries))


def box(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(content), kind) + content


def with_settings(video: Path, gpmf: bytes) -> Path:
    """The video with GoPro's settings at the end of its index, which is its last box."""
    data = video.read_bytes()
    place = data.rfind(b"moov") - 4
    size = struct.unpack(">I", data[place : place + 4])[0]
    assert place + size == len(data), "the index is not the last box"
    extra = box(b"udta", box(b"GPMF", gpmf))
    video.write_bytes(data[:place] + struct.pack(">I", size + len(extra)) + data[place + 4 :] + extra)
    return video


@pytest.fixture
def video(tmp_path: Path) -> Path:
    return make_video(tmp_path / "in.mp4", Recipe(texture_frames(3)))


SETTINGS = [
    entry(b"MINF", b"c", 1, b"HERO9 Black\0\0\0"),
    entry(b"SROT", b"f", 4, struct.pack(">f", 15.25)),
    entry(b"EISE", b"c", 1, b"N"),
    entry(b"EISA", b"c", 1, b"N/A\0"),
]


def test_gopro_settings_are_read(video: Path) -> None:
    found = read_gpmf(with_settings(video, nested(b"DEVC", *SETTINGS)))
    assert found is not None
    assert (found.readout_ms, found.model, found.stabilisation, found.gyro) == (15.25, "HERO9 Black", "", ())
    figures = recorded_figures(ClipSource(video, (72, 80), 30.0, ""))
    assert (figures.readout_ms, figures.camera, figures.origin) == (15.25, "GoPro HERO9 Black", "GoPro metadata")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([entry(b"EISE", b"c", 1, b"Y"), entry(b"EISA", b"c", 1, b"HS HLevel\0")], "HS HLevel"),
        ([entry(b"EISE", b"c", 1, b"Y")], "electronic stabilisation"),
        ([entry(b"EISA", b"c", 1, b"Y")], "electronic stabilisation"),
        ([entry(b"EISA", b"c", 1, b"N")], ""),
        ([entry(b"EISE", b"c", 1, b"N"), entry(b"EISA", b"c", 1, b"HS\0\0")], ""),
        ([], ""),
    ],
)
def test_stabilisation_is_recognised(video: Path, flags: list[bytes], expected: str) -> None:
    found = read_gpmf(with_settings(video, nested(b"DEVC", entry(b"DVID", b"L", 4, b"\0\0\0\1"), *flags)))
    assert found is not None
    assert found.stabilisation == expected


def test_damaged_settings_are_no_reason_to_fail(video: Path) -> None:
    whole = nested(b"DEVC", *SETTINGS)
    deep = entry(b"SROT", b"f", 4, struct.pack(">f", 15.25))
    for _ in range(2000):
        deep = entry(b"STRM", b"\0", 1, deep) if len(deep) < 60_000 else deep
    original = video.read_bytes()
    for gpmf in (whole[:21], whole[:-5], deep, b"\xff" * 40, b""):
        video.write_bytes(original)
        found = read_gpmf(with_settings(video, gpmf))
        assert found is None or found.readout_ms in (None, 15.25)


def test_a_video_without_them_has_none(video: Path) -> None:
    assert read_gpmf(video) is None
    assert recorded_figures(ClipSource(video, (72, 80), 30.0, "")).readout_ms is None
    assert recorded_figures(ClipSource(video.parent, (72, 80), None, "")).readout_ms is None


def test_gopro_clips(real_data: Path) -> None:
    folder = real_data / "clips" / "gopro"
    if not folder.exists():
        pytest.skip("the real samples here have no GoPro clips")
    stabilised, gimbal = (read_gpmf(folder / name) for name in ("max-heromode.mp4", "karma.mp4"))
    assert stabilised is not None
    assert gimbal is not None
    assert stabilised.readout_ms == pytest.approx(20.60, abs=0.005)
    assert (stabilised.model, stabilised.stabilisation) == ("GoPro Max", "HS HLevel")
    assert (gimbal.readout_ms, gimbal.stabilisation) == (None, "")
    # The Karma's own telemetry lies beside it: 196 samples of the accelerometer, 392 of the gyroscope in a second.
    assert gimbal.gyro[0].rates.shape == (392, 3)
    assert np.abs(gimbal.gyro[0].rates).max() < 1.0


def test_apples_readout_is_read() -> None:
    clip = ClipSource(
        Path(__file__), (72, 80), 30.0, "", None, {"com.apple.quicktime.camera.framereadouttimeinmicroseconds": "8250"}
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("qrsc.calibrate.recorded.read_gpmf", lambda path: None)
        assert recorded_figures(clip).readout_ms == 8.25


@pytest.mark.parametrize(
    ("value", "expected"),
    [(20.6, 20.6), (20600, 20.6), ("20600000", 20.6), (40.0, None), (0, None), (-3, None), ("x", None), (None, None)],
)
def test_the_unit_of_a_readout_is_the_one_that_fits_between_two_frames(value: object, expected: float | None) -> None:
    assert readout_milliseconds(value, 30.0) == (None if expected is None else pytest.approx(expected))


def test_other_makes_are_read_through_the_optional_package(video: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("telemetry_parser")
    telemetry = [{"Default": {"Name": "x"}}, {"Imager": {"FrameReadoutTime": 15830.0}}]
    motion = [{"timestamp_ms": 5.0 * k, "gyro": (180.0, 0.0, 0.0)} for k in range(4)]
    parser = SimpleNamespace(
        camera="Sony", model="ILCE-7SM3", telemetry=lambda: telemetry, normalized_imu=lambda: motion
    )
    package.Parser = lambda path: parser  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "telemetry_parser", package)
    figures = recorded_figures(ClipSource(video, (72, 80), 30.0, ""))
    assert figures.readout_ms == pytest.approx(15.83)
    assert figures.camera == "Sony ILCE-7SM3"
    [block] = figures.gyro
    assert block.start == 0.0
    assert block.duration == pytest.approx(0.02)
    assert block.rates[0].tolist() == [pytest.approx(np.pi), 0.0, 0.0]

    def refuse(path: str) -> None:
        raise OSError("Unsupported file format")

    package.Parser = refuse  # type: ignore[attr-defined]
    assert recorded_figures(ClipSource(video, (72, 80), 30.0, "")).readout_ms is None
