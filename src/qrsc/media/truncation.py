"""Whether a video file is all there, from the sizes that its format states."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

from qrsc.media.boxes import walk_boxes
from qrsc.media.ebml import UNKNOWN_SIZE, read_number

_SEGMENT = 0x18538067


def missing_bytes(path: Path) -> int:
    """How many bytes at least are missing at the end of an MP4, QuickTime, Matroska, WebM or AVI file.

    0 for a whole file, and for formats that do not state their size (transport and elementary streams).
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(64)
        if head[:4] == b"RIFF" and len(head) >= 12:
            return max(0, struct.unpack("<I", head[4:8])[0] + 8 - size) if size < 1 << 32 else 0
        if head[4:8] in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip"):
            return max(0, max((box.end for box in walk_boxes(file, 0, size)), default=0) - size)
        if head[:4] == b"\x1a\x45\xdf\xa3":
            return _after_segment(file, size)
    return 0


def _after_segment(file: BinaryIO, size: int) -> int:
    """Read the size of a Matroska file's segment, which holds everything but a short header."""
    start = 0
    while start < size:
        file.seek(start)
        head = file.read(12)
        kind, kind_length = read_number(head, keep_marker=True)
        length, length_length = read_number(head[kind_length:], keep_marker=False)
        if kind_length == 0 or length_length == 0:
            return 0
        if length == UNKNOWN_SIZE:  # a live recording
            return 0
        end = start + kind_length + length_length + length
        if kind == _SEGMENT:
            return max(0, end - size)
        start = end
    return 0
