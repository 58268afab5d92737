"""The size of a picture from the header of its file, checked before anything is decoded.

A decoder allocates what the header claims, and a file of 100 bytes can claim 100,000x100,000 pixels. The formats are
those of `qrsc.media.image_folder`, told apart by their content.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

from qrsc.files.limits import MOST_PICTURE_BYTES, MOST_PIXELS
from qrsc.media.errors import MediaError

Content = bytes | mmap.mmap

_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_CRITICAL = (b"IHDR", b"PLTE", b"IDAT")
_JPEG_WITHOUT_LENGTH = {0x01, *range(0xD0, 0xD9)}
_JPEG_SIZES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # start of frame; the three are tables and extensions
_TIFF_NUMBERS = {3: "H", 4: "I", 16: "Q"}  # field types: short, long, and long of eight bytes
_TIFF_SIDES = {256: 1, 257: 0, 322: 3, 323: 2}  # width and height, and those of tiles; places in the result
_MOST_TIFF_FIELDS = 65_535


def image_size(path: Path) -> tuple[int, int]:
    """`(height, width)` of an image file, without decoding it.

    Raises:
        OSError: it is missing or cannot be opened.
        MediaError: it is no image or truncated, or claims a size beyond the limits.
    """
    with path.open("rb") as file:
        if file.seek(0, 2) == 0:
            raise _unreadable(path)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content_size(content, path)


def read_content(path: Path) -> bytes:
    """The content of an image file whose size is within the limits; a PNG file is whole.

    Raises:
        OSError: it is missing or cannot be opened.
        MediaError: it is no image or truncated, or claims a size beyond the limits.
    """
    if path.stat().st_size > MOST_PICTURE_BYTES:
        raise MediaError(f"{path} is too large for a picture: at most {MOST_PICTURE_BYTES >> 20} MB are read.")
    content = path.read_bytes()
    content_size(content, path)
    if content.startswith(_PNG) and not _whole_png(content):
        raise _unreadable(path)
    return content


def content_size(content: Content, path: Path) -> tuple[int, int]:
    """`(height, width)` from the content of an image file; `path` is for the message.

    Raises:
        MediaError: it is no image or truncated, or claims a size beyond the limits.
    """
    start = content[:16]
    parse = next((parse for matches, parse in _FORMATS if matches(start)), None)
    try:
        height, width, *tile = (0, 0) if parse is None else parse(content)
    except (struct.error, OverflowError) as error:  # a field lies beyond the end
        raise _unreadable(path) from error
    if min(height, width) < 1:
        raise _unreadable(path)
    tile_pixels = tile[0] * tile[1] if tile else 0
    if max(height * width, tile_pixels) > MOST_PIXELS:
        raise MediaError(
            f"{path} claims to have {width}x{height} pixels, and at most {MOST_PIXELS // 10**6} million are read: it "
            "is damaged, or has to be downsampled first."
        )
    return height, width


def _unreadable(path: Path) -> MediaError:
    return MediaError(f"{path} cannot be read as an image: it is damaged, or its format is not that of its suffix.")


def _png(content: Content) -> tuple[int, ...]:
    kind, width, height = struct.unpack_from(">4sII", content, 12)
    return (height, width) if kind == b"IHDR" else (0, 0)


def _whole_png(content: bytes) -> bool:
    """Whether no chunk that matters is truncated, and all their checksums are right.

    The decoder would find the same, and print a line of its own about it.
    """
    place, kind = len(_PNG), b""
    while kind != b"IEND" and place + 12 <= len(content):
        length, kind = struct.unpack_from(">I4s", content, place)
        end = place + 12 + length
        told = int.from_bytes(content[end - 4 : end], "big")
        if kind in _PNG_CRITICAL and zlib.crc32(memoryview(content)[place + 4 : end - 4]) != told:
            return False
        place = end
    return kind == b"IEND"


def _jpeg(content: Content) -> tuple[int, ...]:
    place = 2
    while True:
        place = content.find(b"\xff", place)  # decoders skip what lies between segments
        if place < 0:
            return 0, 0
        (kind,) = struct.unpack_from(">B", content, place + 1)
        if kind in (0x00, 0xFF) or kind in _JPEG_WITHOUT_LENGTH:
            place += 1 if kind == 0xFF else 2  # a fill byte may precede a marker
        elif kind in _JPEG_SIZES:
            height, width = struct.unpack_from(">HH", content, place + 5)
            return height, width
        else:
            (length,) = struct.unpack_from(">H", content, place + 2)
            place += 2 + max(2, length)


def _bmp(content: Content) -> tuple[int, ...]:
    (header,) = struct.unpack_from("<I", content, 14)
    width, height = struct.unpack_from("<HH" if header == 12 else "<ii", content, 18)
    return abs(height), width  # negative: the first row is the upper one


def _webp(content: Content) -> tuple[int, ...]:
    (kind,) = struct.unpack_from("4s", content, 12)
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", content, 26)
        return height & 0x3FFF, width & 0x3FFF
    if kind == b"VP8L":
        (packed,) = struct.unpack_from("<I", content, 21)
        return 1 + (packed >> 14 & 0x3FFF), 1 + (packed & 0x3FFF)
    if kind == b"VP8X":
        low_width, high_width, low_height, high_height = struct.unpack_from("<HBHB", content, 24)
        return 1 + low_height + (high_height << 16), 1 + low_width + (high_width << 16)
    return 0, 0


def _tiff(content: Content) -> tuple[int, ...]:
    """Height and width of the first picture, and of its tiles; 0 where there are none."""
    order = "<" if content[:1] == b"I" else ">"
    large = content[2:4] in (b"+\0", b"\0+")  # BigTIFF
    count_layout, field_layout, value = ("Q", "HHQ", 12) if large else ("H", "HHI", 8)
    (place,) = struct.unpack_from(order + ("Q" if large else "I"), content, 8 if large else 4)
    (count,) = struct.unpack_from(order + count_layout, content, place)
    place += struct.calcsize(order + count_layout)
    sides = [0, 0, 0, 0]
    for field in range(min(count, _MOST_TIFF_FIELDS)):
        at = place + field * (20 if large else 12)
        tag, kind, _ = struct.unpack_from(order + field_layout, content, at)
        if tag in _TIFF_SIDES and kind in _TIFF_NUMBERS:
            (side,) = struct.unpack_from(order + _TIFF_NUMBERS[kind], content, at + value)
            sides[_TIFF_SIDES[tag]] = max(sides[_TIFF_SIDES[tag]], side)  # of a repeated field any may count
    return tuple(sides)


_FORMATS: tuple[tuple[Callable[[bytes], bool], Callable[[Content], tuple[int, ...]]], ...] = (
    (lambda start: start[:8] == _PNG, _png),
    (lambda start: start[:3] == b"\xff\xd8\xff", _jpeg),
    (lambda start: start[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"), _tiff),
    (lambda start: start[:4] == b"RIFF" and start[8:12] == b"WEBP", _webp),
    (lambda start: start[:2] == b"BM", _bmp),
)
