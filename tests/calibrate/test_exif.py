from __future__ import annotations

import struct
import tracemalloc
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest

from qrsc.calibrate.exif import image_camera
from qrsc.calibrate.grey_frames import open_clip


def fields(maker: str, model: str, order: str = "<") -> bytes:
    """A TIFF header and one directory with a field that is no text, the maker and the model."""
    texts = [name.encode() + b"\0" for name in (maker, model)]
    place = 8 + 2 + 3 * 12 + 4
    entries = [struct.pack(f"{order}HHIHH", 0x0112, 3, 1, 1, 0)]
    tail = b""
    for tag, text in zip((0x010F, 0x0110), texts, strict=True):
        if len(text) <= 4:
            value = text.ljust(4, b"\0")
        else:
            value, tail = struct.pack(f"{order}I", place + len(tail)), tail + text
        entries.append(struct.pack(f"{order}HHI", tag, 2, len(text)) + value)
    start = b"II*\0" if order == "<" else b"MM\0*"
    return start + struct.pack(f"{order}IH", 8, 3) + b"".join(entries) + bytes(4) + tail


def jpeg(tags: bytes | None) -> bytes:
    plain = cv2.imencode(".jpg", np.zeros((48, 64, 3), np.uint8))[1].tobytes()
    if tags is None:
        return plain
    content = b"Exif\0\0" + tags
    # Another segment of the same kind first, as editors write them.
    other = b"\xff\xe1" + struct.pack(">H", 6) + b"http"
    return plain[:2] + other + b"\xff\xe1" + struct.pack(">H", len(content) + 2) + content + plain[2:]


def png(tags: bytes) -> bytes:
    plain = cv2.imencode(".png", np.zeros((48, 64, 3), np.uint8))[1].tobytes()
    chunk = struct.pack(">I", len(tags)) + b"eXIf" + tags + struct.pack(">I", zlib.crc32(b"eXIf" + tags))
    return plain[:33] + chunk + plain[33:]  # after the signature and the header chunk


@pytest.mark.parametrize("order", ["<", ">"])
def test_maker_and_model_are_read(tmp_path: Path, order: str) -> None:
    tags = fields("GoPro", "HERO5 Black", order)
    for name, content in (("a.jpg", jpeg(tags)), ("a.png", png(tags)), ("a.tif", tags)):
        path = tmp_path / name
        path.write_bytes(content)
        assert image_camera(path) == ("GoPro", "HERO5 Black"), name


def test_short_texts_stand_in_the_field(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(jpeg(fields("LG", "G6")))
    assert image_camera(path) == ("LG", "G6")


@pytest.mark.parametrize("kept", [0, 3, 30, 70])
def test_files_without_or_with_damaged_metadata_name_none(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(jpeg(None))
    assert image_camera(path) == ("", "")
    path.write_bytes(jpeg(fields("GoPro", "HERO5 Black"))[:kept])
    assert image_camera(path)[1] == ""


def test_a_folder_of_pictures_names_its_camera(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"{number}.jpg").write_bytes(jpeg(fields("GoPro", "GoPro HERO5 Black")))
    assert open_clip(tmp_path).camera == "GoPro HERO5 Black"


def test_a_block_that_claims_four_gigabytes_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    content = png(fields("GoPro", "HERO5 Black"))
    place = content.index(b"eXIf")
    path.write_bytes(content[: place - 4] + b"\xff\xff\xff\xff" + content[place:])
    tracemalloc.start()
    assert image_camera(path) == ("GoPro", "HERO5 Black")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4 << 20


def test_a_large_tiff_file_is_not_read_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    path.write_bytes(fields("GoPro", "HERO5 Black"))
    with path.open("rb+") as file:
        file.truncate(1 << 30)  # sparse
    tracemalloc.start()
    assert image_camera(path) == ("GoPro", "HERO5 Black")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 20
