"""The pixel aspect ratio of a finished Matroska, WebM or AVI file.

FFmpeg writes it for a stream that has one, and PyAV can set it for an encoder only: H.264 then holds it, FFV1, VP8 and
VP9 do not. The headers of these formats have unused bytes, which the missing element takes. Nothing behind them moves.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from fractions import Fraction
from math import ceil
from pathlib import Path

from qrsc.media.ebml import Element, element, least_size_length, unsigned, walk_elements, with_checksum

_HEADER = 1 << 20  # bytes in which the header of a file is looked for
_SEGMENT, _SEEK_HEAD, _VOID, _INFO, _TRACKS, _CLUSTER = (
    0x18538067, 0x114D9B74, 0xEC, 0x1549A966, 0x1654AE6B, 0x1F43B675,
)  # fmt: skip
_SEEK, _SEEK_POSITION, _TRACK, _VIDEO = 0x4DBB, 0x53AC, 0xAE, 0xE0
_DISPLAY_WIDTH, _DISPLAY_HEIGHT, _DISPLAY_UNIT = 0x54B0, 0x54BA, 0x54B2
_PIXEL_WIDTH, _PIXEL_HEIGHT = 0xB0, 0xBA
_LEAST_VOID = 9  # an identifier and a size of eight bytes


def set_pixel_aspects(path: Path, container: str, aspects: Mapping[int, Fraction]) -> bool:
    """Write pixel aspect ratios into the header of a finished file.

    Args:
        path: the file.
        container: FFmpeg's name of its format; formats whose muxer writes the ratio itself are left alone.
        aspects: width over height of a pixel, by the place of the track in the file, from 0.

    Returns:
        Whether the file holds them now; it is unchanged if not.
    """
    if not aspects or container not in ("matroska", "webm", "avi"):
        return True
    with path.open("r+b") as file:
        header = file.read(_HEADER)
        changed = _with_properties(header, aspects) if container == "avi" else _with_display_size(header, aspects)
        if changed is None:
            return False
        start, content = changed
        file.seek(start)
        file.write(content)
    return True


# --- Matroska and WebM ---


def _with_display_size(header: bytes, aspects: Mapping[int, Fraction]) -> tuple[int, bytes] | None:
    """Where bytes of the header are replaced, and by what; None if there is no room.

    The unused bytes lie between the list of positions and the elements that it points to: these move towards the front,
    and their positions in the list with them.
    """
    segment = next((part for part in walk_elements(header, 0, len(header)) if part.kind == _SEGMENT), None)
    if segment is None:
        return None
    found: dict[int, Element] = {}
    for part in walk_elements(header, segment.start, len(header)):
        if part.kind == _CLUSTER:
            break
        found.setdefault(part.kind, part)
    if not {_SEEK_HEAD, _VOID, _TRACKS} <= found.keys() or found[_TRACKS].end > len(header):
        return None
    seek_head, void, tracks = found[_SEEK_HEAD], found[_VOID], found[_TRACKS]
    if not seek_head.end == void.head < tracks.head:
        return None
    content = _tracks(header[tracks.start : tracks.end], aspects)
    new_tracks = element(_TRACKS, content, size_length=_size_length(tracks, content))
    moved = len(new_tracks) - (tracks.end - tracks.head)
    if moved < 0:  # positions must not grow: they may have no byte to spare
        new_tracks = element(_TRACKS, content, size_length=min(8, _size_length(tracks, content) - moved))
        moved = len(new_tracks) - (tracks.end - tracks.head)
    room = void.end - void.head - moved
    if moved < 0 or room < _LEAST_VOID:
        return None
    first, last = void.end - segment.start, tracks.head - segment.start
    positions = _moved_positions(header[seek_head.start : seek_head.end], first, last, moved)
    replaced = b"".join(
        [
            header[seek_head.head : seek_head.start],
            positions,
            element(_VOID, bytes(room - _LEAST_VOID), size_length=8),
            header[void.end : tracks.head],
            new_tracks,
        ]
    )
    return seek_head.head, replaced


def _moved_positions(content: bytes, first: int, last: int, moved: int) -> bytes:
    """The list of positions, with those from `first` to `last` moved towards the front; it keeps its length."""
    new = bytearray(content)
    for entry in walk_elements(content, 0, len(content)):
        if entry.kind != _SEEK:
            continue
        for part in walk_elements(content, entry.start, entry.end):
            position = int.from_bytes(content[part.start : part.end], "big")
            if part.kind == _SEEK_POSITION and first <= position <= last:
                new[part.start : part.end] = (position - moved).to_bytes(part.end - part.start, "big")
    return with_checksum(bytes(new))


def _tracks(content: bytes, aspects: Mapping[int, Fraction]) -> bytes:
    """The content of the list of tracks with display sizes."""
    parts, place = [], 0
    for part in walk_elements(content, 0, len(content)):
        inside = content[part.start : part.end]
        if part.kind == _TRACK:
            if place in aspects:
                inside = b"".join(
                    element(each.kind, _video(inside[each.start : each.end], aspects[place]))
                    if each.kind == _VIDEO
                    else inside[each.head : each.end]
                    for each in walk_elements(inside, 0, len(inside))
                )
            place += 1
            parts.append(element(part.kind, inside, size_length=_size_length(part, inside)))
        else:
            parts.append(content[part.head : part.end])
    return with_checksum(b"".join(parts))


def _size_length(part: Element, content: bytes) -> int:
    """Bytes for the size of an element with new content: as many as before, or as it needs."""
    before = part.start - part.head - (part.kind.bit_length() + 7) // 8
    return max(before, least_size_length(content))


def _video(content: bytes, aspect: Fraction) -> bytes:
    """The description of a video with its display size in pixels."""
    values, kept = {}, []
    for part in walk_elements(content, 0, len(content)):
        values[part.kind] = int.from_bytes(content[part.start : part.end], "big")
        if part.kind not in (_DISPLAY_WIDTH, _DISPLAY_HEIGHT, _DISPLAY_UNIT):
            kept.append(content[part.head : part.end])
    shape = aspect * Fraction(values[_PIXEL_WIDTH], values[_PIXEL_HEIGHT])
    # The display size is whole: at least as high as the frame, and of exactly that shape.
    times = ceil(values[_PIXEL_HEIGHT] / shape.denominator)
    size = unsigned(_DISPLAY_WIDTH, times * shape.numerator), unsigned(_DISPLAY_HEIGHT, times * shape.denominator)
    return b"".join([*kept, *size])


# --- AVI ---


def _with_properties(header: bytes, aspects: Mapping[int, Fraction]) -> tuple[int, bytes] | None:
    """Where bytes of the header are replaced, and by what: video properties take bytes of the unused chunk behind."""
    chunks = _chunks(header, 12, len(header))
    lists = [at for at, kind, _ in chunks if kind == b"LIST" and header[at + 8 : at + 12] == b"hdrl"]
    unused = next((chunk for chunk in chunks if chunk[1] == b"JUNK"), None)
    if not lists or unused is None or unused[0] < lists[0]:
        return None
    (start,), (junk, _, junk_size) = lists[:1], unused
    end = start + 8 + struct.unpack_from("<I", header, start + 4)[0]
    parts, place = [header[start + 8 : start + 12]], 0
    for at, kind, size in _chunks(header, start + 12, end):
        part = header[at : at + 8 + size + size % 2]
        if kind == b"LIST" and part[8:12] == b"strl":
            if place in aspects:
                part = _riff(b"LIST", part[8:] + _properties(part, aspects[place]))
            place += 1
        parts.append(part)
    content = _riff(b"LIST", b"".join(parts))
    room = junk_size - (len(content) - (end - start))
    if room < 0:
        return None
    return start, content + header[end:junk] + _riff(b"JUNK", bytes(room))


def _properties(stream: bytes, aspect: Fraction) -> bytes:
    """A `vprp` chunk: the shape of the frame on a display, after the format of the stream."""
    width, height, rate = 0, 0, 25
    for at, kind, _ in _chunks(stream, 12, len(stream)):
        if kind == b"strh":
            scale, per = struct.unpack_from("<II", stream, at + 8 + 20)
            rate = round(per / max(1, scale))
        if kind == b"strf":
            width, height = struct.unpack_from("<ii", stream, at + 8 + 4)
    shape = (aspect * Fraction(width, abs(height))).limit_denominator(0xFFFF)
    across = (0, 0, rate, width, abs(height), shape.numerator << 16 | shape.denominator, width, abs(height), 1)
    field = (abs(height), width, abs(height), width, 0, 0, 0, 0)
    return _riff(b"vprp", struct.pack("<17I", *across, *field))


def _chunks(content: bytes, start: int, end: int) -> list[tuple[int, bytes, int]]:
    """The chunks from `start` to `end`: where each starts, its kind, and the size of its content."""
    found = []
    while start + 8 <= min(end, len(content)):
        kind, size = struct.unpack_from("<4sI", content, start)
        found.append((start, kind, size))
        start += 8 + size + size % 2
    return found


def _riff(kind: bytes, content: bytes) -> bytes:
    return struct.pack("<4sI", kind, len(content)) + content + bytes(len(content) % 2)
