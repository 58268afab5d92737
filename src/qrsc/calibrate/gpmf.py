"""GoPro's metadata (GPMF) in MP4 files: the readout time, the model, electronic stabilisation and the gyroscope.

Convention
    GPMF is a sequence of entries: a key of four letters, one letter for the type, the size of a value in bytes, the
    number of values, then the values, padded to four bytes. An entry of type 0 holds further entries. Cameras write
    settings of the whole recording into the box `moov/udta/GPMF`, and one block per second into the track `gpmd`.
    Readout times (`SROT`) are in milliseconds.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from qrsc.media.boxes import walk_boxes
from qrsc.media.probe import opened

_NESTED = 0
_MOST_BLOCKS = 12  # of the track that are read, one per second: more than the frames that are looked at
_DEEPEST = 8  # levels of nested entries; cameras write three
# What cameras write for stabilisation that is off, and that is on without a name.
_OFF, _ON = ("", "N", "NO", "OFF", "N/A"), ("Y", "YES", "ON")


@dataclass(frozen=True)
class GyroBlock:
    """Angular rates of one block of the metadata track.

    Attributes:
        start, duration: seconds on the clock of the video.
        rates: `[N, 3]`, radians per second, in the camera's own order of axes.
    """

    start: float
    duration: float
    rates: npt.NDArray[np.float64]


@dataclass(frozen=True)
class GpmfFigures:
    """What GoPro's metadata say about a recording.

    Attributes:
        readout_ms: readout time; None if the camera did not write it.
        model: name of the camera, or an empty string.
        stabilisation: the name of the electronic stabilisation that was on; empty if it was off or is not mentioned.
        gyro: blocks of the gyroscope in order.
    """

    readout_ms: float | None
    model: str
    stabilisation: str
    gyro: tuple[GyroBlock, ...]


def read_gpmf(path: Path) -> GpmfFigures | None:
    """The figures in GoPro's metadata of a video; None if it has none."""
    settings: dict[bytes, bytes] = {}
    gyro: list[GyroBlock] = []
    found = False
    for start, duration, block in [(None, None, _settings_box(path)), *_track_blocks(path)]:
        found = found or bool(block)
        scale = 1.0
        for key, kind, size, content in _entries(block):
            if key in (b"SROT", b"EISE", b"EISA", b"MINF") and content:
                settings.setdefault(key, content)
            elif key == b"SCAL" and kind == b"s" and len(content) >= 2:
                scale = float(struct.unpack(">h", content[:2])[0]) or 1.0
            elif key == b"GYRO" and kind == b"s" and size == 6 and start is not None and duration:
                rates = np.frombuffer(content[: len(content) // 6 * 6], dtype=">i2").reshape(-1, 3) / scale
                gyro.append(GyroBlock(start, duration, rates))
    if not found:
        return None
    readout = settings.get(b"SROT", b"")
    milliseconds = float(struct.unpack(">f", readout[:4])[0]) if len(readout) >= 4 else 0.0
    return GpmfFigures(
        readout_ms=milliseconds if 0.0 < milliseconds < 1000.0 else None,
        model=_text(settings.get(b"MINF", b"")),
        stabilisation=_stabilisation(_text(settings.get(b"EISE", b"")), _text(settings.get(b"EISA", b""))),
        gyro=tuple(gyro),
    )


def _stabilisation(enabled: str, kind: str) -> str:
    """The name of the stabilisation, from the flag `EISE`, which older cameras do not write, and the name `EISA`."""
    if enabled.upper() in _OFF[1:] or (kind.upper() in _OFF and enabled.upper() not in _ON):
        return ""
    return "electronic stabilisation" if kind.upper() in (*_OFF, *_ON) else kind


def _entries(block: bytes, depth: int = 0) -> Iterator[tuple[bytes, bytes, int, bytes]]:
    """Key, type, size of a value and content of all entries, nested ones in their place, up to one that is cut off."""
    place = 0
    while place + 8 <= len(block):
        key, kind, size, count = struct.unpack_from(">4scBH", block, place)
        length = size * count
        content = block[place + 8 : place + 8 + length]
        if key == b"\0\0\0\0" or len(content) < length:
            return
        if kind[0] == _NESTED:
            if depth < _DEEPEST:
                yield from _entries(content, depth + 1)
        else:
            yield key, kind, size, content
        place += 8 + (length + 3) // 4 * 4


def _settings_box(path: Path) -> bytes:
    """The content of the box `moov/udta/GPMF`, or nothing."""
    with path.open("rb") as file:
        parts = [(0, file.seek(0, 2))]
        for wanted in (b"moov", b"udta", b"GPMF"):  # there may be several boxes `udta`
            boxes = [box for start, end in parts for box in walk_boxes(file, start, end) if box.end <= end]
            parts = [(box.start, box.end) for box in boxes if box.kind == wanted]
        if not parts:
            return b""
        file.seek(parts[0][0])
        return file.read(parts[0][1] - parts[0][0])


def _track_blocks(path: Path) -> Iterator[tuple[float, float, bytes]]:
    """Start, duration (seconds) and content of the blocks of the metadata track."""
    with opened(path) as container:
        # Other data tracks hold timecode and file descriptions; blocks of this one start with the key of a device.
        streams = list(container.streams.data)
        blocks = 0
        for packet in container.demux(streams) if streams else ():
            if packet.pts is None or not packet.size:
                continue
            content = bytes(packet)
            if content[:4] == b"DEVC":
                tick = float(packet.time_base or 0.0)
                yield packet.pts * tick, (packet.duration or 0) * tick, content
                blocks += 1
                if blocks == _MOST_BLOCKS:
                    return


def _text(content: bytes) -> str:
    return content.split(b"\0")[0].decode("latin-1").strip()
