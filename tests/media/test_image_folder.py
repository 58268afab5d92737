from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from qrsc.media.errors import MediaError
from qrsc.media.image_folder import SUFFIXES, list_frames, natural_key, read_frame, read_frames, write_frame

OPENCV = tuple(int(part) for part in cv2.__version__.split(".")[:2])

Pixels = npt.NDArray[Any]
Depth = type[np.uint8] | type[np.uint16]


def random_pixels(dtype: Depth, *shape: int) -> Pixels:
    return np.random.default_rng(7).integers(0, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)


def decoded(path: Path) -> Pixels:
    pixels = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    assert pixels is not None
    return pixels


KEPT_EXACTLY = [
    *((suffix, channels, np.uint8) for suffix in (".png", ".tif", ".tiff", ".bmp") for channels in (1, 3, 4)),
    *((suffix, channels, np.uint16) for suffix in (".png", ".tif", ".tiff") for channels in (1, 3, 4)),
    *((".webp", channels, np.uint8) for channels in (3, 4)),
]


@pytest.mark.parametrize(("suffix", "channels", "dtype"), KEPT_EXACTLY)
def test_untouched_frame_comes_back_bit_for_bit(tmp_path: Path, suffix: str, channels: int, dtype: Depth) -> None:
    if suffix == ".bmp" and channels == 4 and OPENCV < (4, 13):
        pytest.skip("OpenCV reads the fourth channel of a BMP since 4.13")
    shape = (9, 14) if channels == 1 else (9, 14, channels)
    pixels = random_pixels(dtype, *shape)
    if suffix == ".webp" and channels == 4:
        pixels[..., 3] |= 1  # the colour under transparent pixels is not kept by the format's writer
    source, target = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    lossless = [cv2.IMWRITE_WEBP_QUALITY, 101] if suffix == ".webp" else []
    assert cv2.imwrite(str(source), pixels, lossless)

    stored = read_frame(source)
    assert stored.frame.shape == (3, 9, 14)
    assert stored.frame.dtype == torch.float32
    assert (stored.bits, stored.channels) == (8 * pixels.itemsize, channels)
    write_frame(target, stored.frame, like=stored)

    np.testing.assert_array_equal(decoded(target), pixels)
    assert decoded(target).dtype == pixels.dtype


def test_channels_are_red_green_blue_in_unit_range(tmp_path: Path) -> None:
    blue_green_red = np.zeros((2, 2, 3), np.uint16)
    blue_green_red[..., 0], blue_green_red[..., 2] = 13107, 65535
    cv2.imwrite(str(tmp_path / "a.png"), blue_green_red)
    frame = read_frame(tmp_path / "a.png").frame
    torch.testing.assert_close(frame[:, 0, 0], torch.tensor([1.0, 0.0, 0.2]), rtol=0, atol=0)


def test_alpha_is_kept_from_the_input(tmp_path: Path) -> None:
    pixels = random_pixels(np.uint8, 5, 6, 4)
    cv2.imwrite(str(tmp_path / "in.png"), pixels)
    stored = read_frame(tmp_path / "in.png")
    write_frame(tmp_path / "out.png", torch.zeros(3, 5, 6), like=stored)
    np.testing.assert_array_equal(decoded(tmp_path / "out.png")[..., 3], pixels[..., 3])
    assert decoded(tmp_path / "out.png")[..., :3].max() == 0


def test_values_are_clamped_and_rounded(tmp_path: Path) -> None:
    frame = torch.tensor([-0.3, 1.7, 100.4 / 255, 100.6 / 255]).expand(3, 1, 4)
    write_frame(tmp_path / "a.png", frame)
    assert decoded(tmp_path / "a.png")[0, :, 0].tolist() == [0, 255, 100, 101]


def test_jpeg_keeps_fine_colour(tmp_path: Path) -> None:
    """Red and blue columns in turn: with colour at half resolution they would run into each other."""
    frame = torch.zeros(3, 16, 16)
    frame[0, :, ::2] = 0.8
    frame[2, :, 1::2] = 0.8
    write_frame(tmp_path / "a.jpg", frame)
    # Measured 0.004 with 4:4:4, 0.475 with 4:2:0, both at quality 97.
    assert (read_frame(tmp_path / "a.jpg").frame - frame).abs().max() < 0.05


def test_grey_jpeg_stays_grey(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "in.jpg"), np.full((8, 8), 90, np.uint8))
    stored = read_frame(tmp_path / "in.jpg")
    write_frame(tmp_path / "out.jpg", stored.frame, like=stored)
    assert decoded(tmp_path / "out.jpg").shape == (8, 8)


def test_orientation_tag_is_not_applied(tmp_path: Path) -> None:
    encoded = cv2.imencode(".jpg", np.zeros((8, 16, 3), np.uint8))[1].tobytes()
    # One EXIF entry: tag 0x0112 (orientation), type short, one value, 6 = turned by a quarter.
    entry = b"\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00"
    exif = b"Exif\x00\x00MM\x00\x2a\x00\x00\x00\x08\x00\x01" + entry + b"\x00\x00\x00\x00"
    segment = b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif
    (tmp_path / "a.jpg").write_bytes(encoded[:2] + segment + encoded[2:])
    turned = cv2.imread(str(tmp_path / "a.jpg"), cv2.IMREAD_COLOR)
    assert turned is not None
    assert turned.shape == (16, 8, 3), "the tag is not seen: the test shows nothing"
    assert read_frame(tmp_path / "a.jpg").frame.shape == (3, 8, 16)


def test_frames_come_in_natural_order_without_strangers(tmp_path: Path) -> None:
    frames = ["a2.png", "a10.PNG", "a010b.png", "b1.png", "B2.jpg"]
    for name in [*reversed(frames), ".a1.png", "notes.txt", "Thumbs.db"]:
        (tmp_path / name).touch()
    (tmp_path / "a3.png").mkdir()
    assert [path.name for path in list_frames(tmp_path)] == ["a2.png", "a10.PNG", "a010b.png", "b1.png", "B2.jpg"]


@given(st.lists(st.text(alphabet="ab019_.²", max_size=8), max_size=8))
def test_natural_order_is_total(names: list[str]) -> None:
    names_backwards = names[::-1]
    assert sorted(names_backwards, key=natural_key) == sorted(names, key=natural_key)


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 8))
def test_natural_order_follows_the_numbers(a: int, b: int, zeros: int) -> None:
    first, second = natural_key(f"clip_{'0' * zeros}{a}.png"), natural_key(f"clip_{b}.png")
    if a != b:
        assert (first < second) == (a < b)


def test_different_size_names_the_first_file_that_differs(tmp_path: Path) -> None:
    for name, height in [("1.png", 8), ("2.png", 8), ("3.png", 9), ("4.png", 10)]:
        write_frame(tmp_path / name, torch.zeros(3, height, 12))
    with pytest.raises(MediaError, match=r"3\.png is 12x9 and 1\.png is 12x8"):
        list(read_frames(list_frames(tmp_path)))


def test_frames_are_read_when_asked_for(tmp_path: Path) -> None:
    write_frame(tmp_path / "1.png", torch.zeros(3, 4, 4))
    (tmp_path / "2.png").write_bytes(b"no picture")
    frames = read_frames(list_frames(tmp_path))
    assert next(frames).path.name == "1.png"
    with pytest.raises(MediaError, match=r"2\.png cannot be read"):
        next(frames)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_damaged_file_is_named(tmp_path: Path, suffix: str, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"broken{suffix}"
    write_frame(path, torch.rand(3, 32, 32, generator=torch.Generator().manual_seed(0)))
    for content in (path.read_bytes()[: path.stat().st_size // 2], b"", b"some text"):
        path.write_bytes(content)
        with pytest.raises(MediaError, match=rf"broken\{suffix} cannot be read as an image"):
            read_frame(path)
    assert capfd.readouterr() == ("", "")


def test_float_pixels_are_refused(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "a.tif"), np.zeros((4, 4, 3), np.float32))
    with pytest.raises(MediaError, match="float32 pixels; 8- or 16-bit"):
        read_frame(tmp_path / "a.tif")


def test_folder_errors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no folder .*nowhere"):
        list_frames(tmp_path / "nowhere")
    with pytest.raises(MediaError, match=r"no images in .*\.png"):
        list_frames(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="is a file"):
        list_frames(tmp_path / "file")


def test_formats_that_cannot_hold_the_frame_are_refused(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "a.png"), random_pixels(np.uint16, 4, 4))
    stored = read_frame(tmp_path / "a.png")
    with pytest.raises(MediaError, match="hold 8 bits, this frame has 16"):
        write_frame(tmp_path / "a.jpg", stored.frame, like=stored)
    with pytest.raises(MediaError, match="which format"):
        write_frame(tmp_path / "a.gif", stored.frame)
    with pytest.raises(ValueError, match=r"\[3, H, W\]; got a tensor of shape \[1, 4, 4\]"):
        write_frame(tmp_path / "b.png", stored.frame[:1])
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_alpha_of_another_size_is_refused(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "a.png"), random_pixels(np.uint8, 4, 4, 4))
    with pytest.raises(ValueError, match="alpha of the frame's size"):
        write_frame(tmp_path / "b.png", torch.zeros(3, 5, 5), like=read_frame(tmp_path / "a.png"))
