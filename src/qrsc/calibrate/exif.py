"""Maker and model of the camera in the metadata (EXIF) of image files: JPEG, PNG and TIFF."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import BinaryIO

_MAKER, _MODEL = 0x010F, 0x0110
_TEXT = 2  # field type ASCII: characters, terminated by a zero
_LONGEST_TEXT = 256
_MOST_FIELDS = 512
_MOST_METADATA = 1 << 20  # bytes of a block that are read
_SEGMENTS_WITHOUT_LENGTH = {0x01, *range(0xD0, 0xD9)}
_START_OF_SCAN = 0xDA
_EXIF = b"Exif\0\0"

Tags = bytes | mmap.mmap  # laid out as a TIFF file


def image_camera(path: Path) -> tuple[str, str]:
    """Maker and model in the metadata of an image file; empty strings where they are missing or damaged."""
    with path.open("rb") as file:
        try:
            tags = _metadata(file)
            texts = {} if tags is None else _texts(tags)
        except struct.error:  # the metadata is truncated
            texts = {}
    return texts.get(_MAKER, ""), texts.get(_MODEL, "")


def _metadata(file: BinaryIO) -> Tags | None:
    """The EXIF block of a file; None if there is none."""
    start = file.read(8)
    if start[:2] == b"\xff\xd8":
        file.seek(2)
        return _in_jpeg(file)
    if start == b"\x89PNG\r\n\x1a\n":
        return _in_png(file)
    if start[:4] in (b"II*\0", b"MM\0*"):
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # the fields lie anywhere in the file
    return None


def _in_jpeg(file: BinaryIO) -> bytes | None:
    while True:
        marker, kind = struct.unpack(">BB", file.read(2))
        while kind == 0xFF:  # fill bytes may precede a marker
            (kind,) = struct.unpack(">B", file.read(1))
        if marker != 0xFF or kind == _START_OF_SCAN:
            return None
        if kind in _SEGMENTS_WITHOUT_LENGTH:
            continue
        (length,) = struct.unpack(">H", file.read(2))
        content = file.read(max(0, length - 2))
        if kind == 0xE1 and content.startswith(_EXIF):
            return content[len(_EXIF) :]


def _in_png(file: BinaryIO) -> bytes | None:
    while header := file.read(8):
        length, kind = struct.unpack(">I4s", header)
        if kind == b"eXIf":
            return file.read(min(length, _MOST_METADATA))
        file.seek(length + 4, 1)  # the content and its checksum
    return None


def _texts(tags: Tags) -> dict[int, str]:
    """Maker and model among the fields of the first directory, by tag."""
    order = {b"II": "<", b"MM": ">"}.get(tags[:2])
    if order is None:
        return {}
    (place,) = struct.unpack_from(f"{order}I", tags, 4)
    (count,) = struct.unpack_from(f"{order}H", tags, place)
    found = {}
    for index in range(min(count, _MOST_FIELDS)):
        field = place + 2 + 12 * index
        tag, kind, length = struct.unpack_from(f"{order}HHI", tags, field)
        if kind == _TEXT and tag in (_MAKER, _MODEL):
            # Up to four bytes are stored in the field itself, longer texts at the offset that it holds.
            start = field + 8 if length <= 4 else struct.unpack_from(f"{order}I", tags, field + 8)[0]
            text = tags[start : start + min(length, _LONGEST_TEXT)].split(b"\0")[0]
            found[tag] = text.decode("utf-8", errors="replace").strip()
    return found
