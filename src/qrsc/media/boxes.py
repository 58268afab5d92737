"""The boxes (atoms) that MP4 and QuickTime files consist of."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple


class Box(NamedTuple):
    """A box: its kind, where its content starts, and where it ends, which may be beyond the end of a truncated file."""

    kind: bytes
    start: int
    end: int


def walk_boxes(file: BinaryIO, start: int, end: int) -> Iterator[Box]:
    """The boxes that follow each other from `start` to `end`; each states its size. Ends at one that makes no sense."""
    while start + 8 <= end:
        file.seek(start)
        size, kind = struct.unpack(">I4s", file.read(8))
        head = 8
        if size == 1:
            wide = file.read(8)
            if len(wide) < 8:
                yield Box(kind, end, end + 8 - len(wide))
                return
            size, head = struct.unpack(">Q", wide)[0], 16
        size = size or end - start
        if size < head:
            return
        yield Box(kind, start + head, start + size)
        start += size
