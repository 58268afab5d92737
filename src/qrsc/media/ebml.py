"""The elements that Matroska and WebM files consist of (EBML)."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import NamedTuple

UNKNOWN_SIZE = -1
_CRC = 0xBF
_CRC_BYTES = 6


class Element(NamedTuple):
    """An element: its kind, where its header starts, where its content starts, and where it ends."""

    kind: int
    head: int
    start: int
    end: int


def read_number(content: bytes, *, keep_marker: bool) -> tuple[int, int]:
    """A number of variable length, and how many bytes it takes; 0 bytes if there is none."""
    if not content or content[0] == 0:
        return 0, 0
    length = 9 - content[0].bit_length()
    if len(content) < length:
        return 0, 0
    value = int.from_bytes(content[:length], "big")
    if keep_marker:
        return value, length
    payload = value & ((1 << (7 * length)) - 1)
    return (UNKNOWN_SIZE if payload == (1 << (7 * length)) - 1 else payload), length


def walk_elements(content: bytes, start: int, end: int) -> Iterator[Element]:
    """The elements that follow each other from `start` to `end`; ends at one that makes no sense."""
    while start < end:
        kind, kind_length = read_number(content[start : start + 4], keep_marker=True)
        at = start + kind_length
        size, size_length = read_number(content[at : at + 8], keep_marker=False)
        if kind_length == 0 or size_length == 0 or size == UNKNOWN_SIZE:
            return
        yield Element(kind, start, at + size_length, at + size_length + size)
        start = at + size_length + size


def least_size_length(content: bytes) -> int:
    """How many bytes the size of an element with that content takes at least."""
    return next(length for length in range(1, 9) if len(content) < (1 << (7 * length)) - 1)


def element(kind: int, content: bytes, *, size_length: int | None = None) -> bytes:
    """An element; its size takes as few bytes as it can, or `size_length`."""
    length = size_length or least_size_length(content)
    size = (len(content) | 1 << (7 * length)).to_bytes(length, "big")
    return kind.to_bytes((kind.bit_length() + 7) // 8, "big") + size + content


def unsigned(kind: int, value: int) -> bytes:
    """An element that holds a whole number."""
    return element(kind, value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big"))


def with_checksum(content: bytes) -> bytes:
    """The content of an element, with the checksum at its beginning brought up to date if there is one."""
    if content[:1] != _CRC.to_bytes(1, "big"):
        return content
    return element(_CRC, zlib.crc32(content[_CRC_BYTES:]).to_bytes(4, "little")) + content[_CRC_BYTES:]
