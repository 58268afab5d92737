"""The parts that a video file consists of: boxes, elements, chunks, packets and units, each with its place.

Own parsers of a few lines each: those of the package are what is being tested.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

TS_PACKET = 188
_MP4_PARENTS = frozenset(b"moov trak mdia minf stbl edts dinf udta mvex moof traf tref".split())
_RIFF_PARENTS = frozenset((b"RIFF", b"LIST"))
# IDs of EBML elements that hold other elements: segment, seek head, information, cluster, block group, tracks, entry,
# video, audio, cues, cue point, positions, chapters, edition, atom, display, tags, tag, simple tag, header.
_EBML_PARENTS = frozenset(
    bytes.fromhex(each)
    for each in (
        *("18538067", "114d9b74", "4dbb", "1549a966", "1f43b675", "a0", "1654ae6b", "ae", "e0", "e1", "1c53bb6b", "bb"),
        *("b7", "1043a770", "45b9", "b6", "80", "1254c367", "7373", "67c8", "1a45dfa3"),
    )
)


@dataclass(frozen=True)
class Part:
    """A part of a file.

    Attributes:
        kind: its type or ID.
        start: where its header starts.
        size_at: where its size is stored, and in how many bytes; 0 bytes if the format stores none.
        content: where its content starts.
        end: where it ends.
        parents: the parts that it lies in, the outermost first.
    """

    kind: bytes
    start: int
    size_at: tuple[int, int]
    content: int
    end: int
    parents: tuple[Part, ...] = field(default=(), repr=False)
    holds_parts: bool = False


@dataclass(frozen=True)
class Format:
    """How files of a kind are taken apart, and how a size is written into one.

    Attributes:
        parts: all parts of a file, parents before what they hold.
        stored_size: the bytes of a size field, given the size of a part's content, its header and the field's length.
    """

    parts: Callable[[bytes], list[Part]]
    stored_size: Callable[[int, int, int], bytes]


def format_of(content: bytes) -> Format | None:
    """The format of a file, by its first bytes; None if it has no parts that are known here."""
    if content[4:8] in (b"ftyp", b"moov", b"mdat", b"wide", b"free"):
        return Format(mp4_boxes, lambda size, head, length: _clipped(size + head, length, "big"))
    if content[:4] == b"\x1a\x45\xdf\xa3":
        return Format(ebml_elements, lambda size, head, length: _vint(size, length))
    if content[:4] == b"RIFF":
        return Format(riff_chunks, lambda size, head, length: _clipped(size, length, "little"))
    if is_transport_stream(content):
        return Format(ts_packets, lambda size, head, length: b"")
    if content[:3] == b"\0\0\1" or content[:4] == b"\0\0\0\1":
        return Format(start_code_units, lambda size, head, length: b"")
    return None


def is_transport_stream(content: bytes) -> bool:
    return content[:1] == b"\x47" and content[TS_PACKET : TS_PACKET + 1] == b"\x47"


def mp4_boxes(content: bytes) -> list[Part]:
    return list(_mp4(content, 0, len(content), ()))


def _mp4(content: bytes, start: int, end: int, parents: tuple[Part, ...]) -> Iterator[Part]:
    while start + 8 <= end:
        size, kind = int.from_bytes(content[start : start + 4], "big"), content[start + 4 : start + 8]
        if size < 8 or start + size > end:
            return
        part = Part(kind, start, (start, 4), start + 8, start + size, parents, kind in _MP4_PARENTS)
        yield part
        if part.holds_parts:
            yield from _mp4(content, part.content, part.end, (*parents, part))
        start = part.end


def riff_chunks(content: bytes) -> list[Part]:
    return list(_riff(content, 0, len(content), ()))


def _riff(content: bytes, start: int, end: int, parents: tuple[Part, ...]) -> Iterator[Part]:
    while start + 8 <= end:
        kind, size = content[start : start + 4], int.from_bytes(content[start + 4 : start + 8], "little")
        stop = min(start + 8 + size, end)
        holds = kind in _RIFF_PARENTS
        part = Part(kind, start, (start + 4, 4), start + 8 + 4 * holds, stop, parents, holds)
        yield part
        if holds:
            yield from _riff(content, part.content, part.end, (*parents, part))
        start = stop + size % 2


def ebml_elements(content: bytes) -> list[Part]:
    return list(_ebml(content, 0, len(content), ()))


def _ebml(content: bytes, start: int, end: int, parents: tuple[Part, ...]) -> Iterator[Part]:
    while start + 2 <= end:
        kind_length, size_at = _vint_length(content[start]), start
        size_at += kind_length
        if size_at >= end:
            return
        size_length = _vint_length(content[size_at])
        size = int.from_bytes(content[size_at : size_at + size_length], "big") & ((1 << (7 * size_length)) - 1)
        inside = size_at + size_length
        if kind_length > 4 or size_length > 8:
            return
        kind, stop = content[start:size_at], min(inside + size, end)
        part = Part(kind, start, (size_at, size_length), inside, stop, parents, kind in _EBML_PARENTS)
        yield part
        if part.holds_parts:
            yield from _ebml(content, part.content, part.end, (*parents, part))
        start = stop


def ts_packets(content: bytes) -> list[Part]:
    places = range(0, len(content) - TS_PACKET + 1, TS_PACKET)
    return [Part(content[at + 1 : at + 3], at, (at, 0), at + 4, at + TS_PACKET) for at in places]


def start_code_units(content: bytes) -> list[Part]:
    """NAL units of a raw stream, or the units of an MPEG stream: each begins with 0, 0, 1."""
    starts = [found.start() for found in re.finditer(b"\x00\x00\x01", content)]
    ends = [*starts[1:], len(content)]
    return [
        Part(content[at + 3 : at + 4], at, (at, 0), min(at + 4, end), end) for at, end in zip(starts, ends, strict=True)
    ]


def _vint_length(first: int) -> int:
    return 9 - first.bit_length()


def _vint(value: int, length: int) -> bytes:
    most = (1 << (7 * length)) - 1
    return (min(max(value, 0), most) | 1 << (7 * length)).to_bytes(length, "big")


def _clipped(value: int, length: int, order: str) -> bytes:
    most = (1 << (8 * length)) - 1
    return min(max(value, 0), most).to_bytes(length, "big" if order == "big" else "little")
