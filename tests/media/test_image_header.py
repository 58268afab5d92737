"""Sizes from the headers of pictures, and pictures that claim what they cannot hold."""

from __future__ import annotations

import resource
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from qrsc.files.limits import MOST_PIXELS
from qrsc.media import image_header
from qrsc.media.errors import MediaError
from qrsc.media.image_folder import SUFFIXES, read_frame, write_frame
from qrsc.media.image_header import content_size, image_size


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("size", [(1, 1), (7, 300), (257, 3)])
def test_the_header_says_what_the_decoder_finds(suffix: str, size: tuple[int, int], tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    write_frame(path, torch.rand(3, *size, generator=torch.Generator().manual_seed(0)))
    assert image_size(path) == size == tuple(read_frame(path).frame.shape[-2:])


@pytest.mark.parametrize("settings", [[], ["progressive"]])
def test_jpeg_and_lossy_webp(settings: list[str], tmp_path: Path) -> None:
    import cv2

    pixels = np.zeros((30, 50, 3), np.uint8)
    options = [cv2.IMWRITE_JPEG_PROGRESSIVE, 1] if settings else []
    for suffix, chosen in ((".jpg", options), (".webp", [cv2.IMWRITE_WEBP_QUALITY, 50])):
        content = cv2.imencode(suffix, pixels, chosen)[1].tobytes()
        assert content_size(content, tmp_path) == (30, 50)


def png(width: int, height: int) -> bytes:
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(bytes(99)))]
    made = b"\x89PNG\r\n\x1a\n"
    for kind, body in [*chunks, (b"IEND", b"")]:
        made += struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    return made


def jpeg(width: int, height: int) -> bytes:
    size = struct.pack(">HBHHB", 17, 8, height, width, 3) + bytes(9)
    return b"\xff\xd8\xff\xe0\x00\x04ab" + b"\xff\xff\xc0" + size + b"\xff\xd9"


def bmp(width: int, height: int) -> bytes:
    return b"BM" + bytes(12) + struct.pack("<IiiHHI", 40, width, height, 1, 24, 0) + bytes(64)


def webp(width: int, height: int) -> bytes:
    canvas = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return b"RIFF" + struct.pack("<I", 30) + b"WEBPVP8X" + struct.pack("<II", 10, 0) + canvas


def tiff(width: int, height: int, *, tile: int = 0, order: str = "<") -> bytes:
    fields = [(256, width), (257, height), *([(322, tile), (323, tile)] if tile else [])]
    made = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(f"{order}IH", 8, len(fields))
    return made + b"".join(struct.pack(f"{order}HHII", tag, 4, 1, value) for tag, value in fields) + bytes(4)


def big_tiff(width: int, height: int) -> bytes:
    made = b"II+\0" + struct.pack("<HHQQ", 8, 0, 16, 2)
    return made + b"".join(struct.pack("<HHQQ", tag, 16, 1, value) for tag, value in ((256, width), (257, height)))


WRITERS: dict[str, Callable[[int, int], bytes]] = {
    "png": png,
    "jpg": jpeg,
    "bmp": bmp,
    "webp": webp,
    "tif": tiff,
    "tif, big-endian": lambda width, height: tiff(width, height, order=">"),
    "big tif": big_tiff,
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_picture_beyond_the_limit_is_refused_before_it_is_decoded(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{name.split()[-1] if name.startswith('big') else name[:4].strip(',')}"
    path.write_bytes(WRITERS[name](320, 240))
    assert image_size(path) == (240, 320)
    side = 65_000 if name == "jpg" else 100_000
    path.write_bytes(WRITERS[name](side, side))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for read in (image_size, read_frame):
        with pytest.raises(MediaError, match=f"claims to have {side}x{side} pixels, and at most 134 million") as caught:
            read(path)
        assert path.name in str(caught.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # kB
    assert side * side > MOST_PIXELS


DAMAGED: dict[str, bytes] = {
    "empty": b"",
    "one byte": b"\x89",
    "text": b"this is no picture at all",
    "another format": b"GIF89a" + bytes(50),
    "png, start alone": png(3, 3)[:20],
    "png, no width": png(0, 3),
    "png, wrong checksum": png(3, 5)[:-20] + b"x" + png(3, 5)[-19:],
    "png, truncated": png(3, 3)[:-12],
    "png, no header": png(3, 3).replace(b"IHDR", b"JHDR"),
    "jpg, start alone": b"\xff\xd8\xff",
    "jpg, no size": b"\xff\xd8\xff\xe0\x00\x04ab\xff\xd9",
    "jpg, segments without end": b"\xff\xd8" + b"\xff\xe0\x00\x00" * 1000,
    "bmp, start alone": b"BM",
    "bmp, negative width": bmp(-3, 3),
    "tif, far away": b"II*\0\xff\xff\xff\xff",
    "tif, no fields": b"II*\0" + struct.pack("<IH", 8, 0),
    "tif, further than memory": b"II+\0" + struct.pack("<HHQ", 8, 0, 2**64 - 1),
    "tif, more fields than bytes": b"II*\0" + struct.pack("<IH", 8, 65535),
    "webp, start alone": b"RIFF\0\0\0\0WEBP",
    "webp, unknown": b"RIFF\0\0\0\0WEBPVP9 " + bytes(40),
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_picture_is_refused_by_name(
    content: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(content)
    with pytest.raises(MediaError, match=r"a\.png cannot be read as an image"):
        read_frame(path)
    assert capfd.readouterr() == ("", "")


def test_tiles_beyond_the_limit(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match="at most 134 million"):
        content_size(tiff(32, 24, tile=100_000), tmp_path)


def test_a_file_too_large_for_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_header, "MOST_PICTURE_BYTES", 1 << 20)
    with (tmp_path / "a.png").open("wb") as file:
        file.truncate(2 << 20)
    with pytest.raises(MediaError, match=r"a\.png is too large for a picture: at most 1 MB are read"):
        read_frame(tmp_path / "a.png")


def test_what_the_decoder_raises_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import cv2

    def failing(*_: object) -> None:
        raise cv2.error("some assertion")

    write_frame(tmp_path / "a.png", torch.zeros(3, 4, 4))
    monkeypatch.setattr(cv2, "imdecode", failing)
    with pytest.raises(MediaError, match=r"a\.png cannot be read as an image"):
        read_frame(tmp_path / "a.png")
