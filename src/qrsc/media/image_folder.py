"""Folders of images: one file per frame, read in natural order and written back in the same format.

Convention
    A frame is RGB, float32 in [0, 1], `[3, H, W]`, whatever its file holds. The stored value v of an 8-bit file is
    v / 255, of a 16-bit file v / 65535; writing rounds to the nearest stored value, so that an untouched frame comes
    back bit for bit in every lossless format. A grey file gives three equal channels and is written as grey again.
    Pixels are read as stored: an orientation tag is neither applied (the readout runs along the stored rows) nor
    written back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from qrsc.media.errors import MediaError
from qrsc.media.image_header import read_content

if TYPE_CHECKING:
    import numpy.typing as npt

SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp")
_SIXTEEN_BIT_SUFFIXES = (".png", ".tif", ".tiff")


@dataclass(frozen=True)
class StoredFrame:
    """A frame with what is needed to write another in its place.

    Attributes:
        path: the file it was read from.
        frame: `[3, H, W]`, RGB in [0, 1].
        bits: 8 or 16 per channel.
        channels: 1 (grey), 3 (RGB) or 4 (RGB and alpha), as stored.
        alpha: `[1, H, W]` in [0, 1], or None. A frame written in place of this one gets it.
    """

    path: Path
    frame: Tensor
    bits: int
    channels: int
    alpha: Tensor | None


def list_frames(folder: Path) -> list[Path]:
    """The image files of a folder in natural order (`frame2` before `frame10`); hidden and other files are skipped.

    Raises:
        FileNotFoundError: there is no such folder.
        NotADirectoryError: it is a file.
        MediaError: it holds no image.
    """
    if not folder.exists():
        raise FileNotFoundError(f"there is no folder {folder}.")
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; a folder of images was expected.")
    paths = [
        path
        for path in folder.iterdir()
        if path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()
    ]
    if not paths:
        raise MediaError(f"no images in {folder}: files ending in {', '.join(SUFFIXES)} were looked for.")
    return sorted(paths, key=lambda path: natural_key(path.name))


def natural_key(name: str) -> tuple[list[tuple[int, str]], str]:
    """A sorting key that compares runs of digits as numbers; the name itself breaks ties such as `1` and `01`."""
    parts = re.split(r"(\d+)", name.casefold())
    # Splitting on one group alternates text and digits, so numbers only ever meet numbers in a comparison.
    return [(int(part), "") if index % 2 else (0, part) for index, part in enumerate(parts)], name


def read_frames(paths: Sequence[Path], *, device: torch.device | str | None = None) -> Iterator[StoredFrame]:
    """Read frames lazily, one by one.

    Raises:
        MediaError: a file cannot be read, or its size differs from the first one's.
    """
    first: tuple[Path, int, int] | None = None
    for path in paths:
        stored = read_frame(path, device=device)
        height, width = stored.frame.shape[-2:]
        if first is None:
            first = (path, height, width)
        elif (height, width) != first[1:]:
            raise MediaError(
                f"all frames must have one size, but {path} is {width}x{height} and {first[0].name} is "
                f"{first[2]}x{first[1]}. Is it part of the clip?"
            )
        yield stored


def read_frame(path: Path, *, device: torch.device | str | None = None) -> StoredFrame:
    """Read one image file.

    Raises:
        MediaError: it is damaged, not an image, too large, or its pixels are not 8- or 16-bit integers.
    """
    import cv2

    data = np.frombuffer(read_content(path), dtype=np.uint8)
    try:
        with _opencv_silent():
            # From memory, not by name: on Windows OpenCV cannot open names outside the local code page.
            pixels = cv2.imdecode(data, cv2.IMREAD_UNCHANGED)
    except cv2.error:  # for some damage, instead of no pixels
        pixels = None
    if pixels is None:
        raise MediaError(f"{path} cannot be read as an image: it is damaged, or its format is not that of its suffix.")
    if pixels.dtype not in (np.uint8, np.uint16):
        raise MediaError(f"{path} holds {pixels.dtype} pixels; 8- or 16-bit integers were expected. Convert it first.")
    bits = 8 * pixels.dtype.itemsize
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    scaled = torch.from_numpy(pixels.astype(np.float32) / (2**bits - 1)).to(device)
    if channels == 1:
        return StoredFrame(path, scaled.reshape(1, *pixels.shape[:2]).repeat(3, 1, 1), bits, 1, None)
    planes = scaled.permute(2, 0, 1)  # [3 or 4, H, W] in OpenCV's order: blue, green, red, alpha
    alpha = planes[3:].contiguous() if channels == 4 else None
    return StoredFrame(path, planes[:3].flip(0).contiguous(), bits, channels, alpha)


def write_frame(path: Path, frame: Tensor, like: StoredFrame | None = None) -> None:
    """Write a frame as an image file in the format of its suffix.

    PNG, TIFF, BMP and WebP are lossless; JPEG has quality 97 and full chroma resolution. (WebP drops the colour of
    fully transparent pixels.)

    Args:
        path: its suffix is one of `SUFFIXES`.
        frame: `[3, H, W]`, RGB; values outside [0, 1] are clamped.
        like: the frame whose bit depth, channels and alpha are taken over; 8-bit RGB if None.

    Raises:
        MediaError: the format is unknown, or cannot store the bit depth or the channels.
    """
    path.write_bytes(encode_frame(path.name, frame, like))


def encode_frame(name: str, frame: Tensor, like: StoredFrame | None = None) -> bytes:
    """The content of an image file of that name; see `write_frame`."""
    import cv2

    suffix = Path(name).suffix.lower()
    bits, channels = (8, 3) if like is None else (like.bits, like.channels)
    if suffix not in SUFFIXES:
        raise MediaError(f"{name} does not say which format to write; let it end in one of {', '.join(SUFFIXES)}.")
    if bits == 16 and suffix not in _SIXTEEN_BIT_SUFFIXES:
        raise MediaError(
            f"{name}: {suffix} files hold 8 bits, this frame has 16. Use {' or '.join(_SIXTEEN_BIT_SUFFIXES)}."
        )
    pixels = _stored_pixels(frame, bits, channels, None if like is None else like.alpha)
    with _opencv_silent():
        written, data = cv2.imencode(suffix, pixels, _encoder_settings(suffix))
    if not written:
        raise MediaError(f"{name} could not be encoded as {suffix} ({bits} bits, {channels} channels).")
    return data.tobytes()


def _stored_pixels(frame: Tensor, bits: int, channels: int, alpha: Tensor | None) -> npt.NDArray[Any]:
    """`[H, W]` or `[H, W, channels]` integers in OpenCV's channel order."""
    if frame.ndim != 3 or frame.shape[0] != 3:
        raise ValueError(f"a frame is [3, H, W]; got a tensor of shape {list(frame.shape)}.")
    planes = frame.detach().mean(0, keepdim=True) if channels == 1 else frame.detach().flip(0)
    if channels == 4:
        if alpha is None or alpha.shape[-2:] != frame.shape[-2:]:
            raise ValueError(
                f"four channels need an alpha of the frame's size {list(frame.shape[-2:])}; "
                f"got {'none' if alpha is None else list(alpha.shape)}."
            )
        planes = torch.cat([planes, alpha.to(planes)])
    levels = 2**bits - 1
    rounded: npt.NDArray[Any] = (planes.clamp(0, 1) * levels).round().permute(1, 2, 0).cpu().numpy()
    stored = rounded.astype(np.uint8 if bits == 8 else np.uint16)
    return stored[..., 0] if channels == 1 else stored


def _encoder_settings(suffix: str) -> list[int]:
    import cv2

    if suffix in (".jpg", ".jpeg"):
        full_chroma = [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444]
        return [cv2.IMWRITE_JPEG_QUALITY, 97, *full_chroma]
    if suffix == ".webp":
        # Above 100 means lossless.
        return [cv2.IMWRITE_WEBP_QUALITY, 101]
    return []


@contextmanager
def _opencv_silent() -> Iterator[None]:
    """Suppress the messages that OpenCV prints when a file is damaged."""
    import cv2

    # OpenCV 4 has the two functions at the top, OpenCV 5 in a module; 0 is silent in both.
    logging: Any = getattr(cv2.utils, "logging", cv2)
    level = logging.getLogLevel()
    logging.setLogLevel(0)
    try:
        yield
    finally:
        logging.setLogLevel(level)
