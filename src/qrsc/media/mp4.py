"""Plain MP4 files from frames, for demonstrations and simulated clips.

Convention
    Frames are RGB, float in [0, 1], `[3, H, W]`. Videos are written as H.264 in MP4 with 8 bits, colour at half
    resolution (yuv420p, which every player shows) and BT.709 colours, tagged as such. That format needs even sizes: a
    frame of odd width or height is padded by repeating its last column or row, so that no pixel is lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import pad

from qrsc.media.atomic import atomic_file
from qrsc.media.errors import MediaError
from qrsc.media.planes import reformatted
from qrsc.media.probe import pyav

# The number of BT.709 among the matrices, primaries and transfer curves of the H.264 standard; 1 is also "limited
# range" in FFmpeg's own list.
_BT709 = 1
_LIMITED_RANGE = 1


def write_video(path: Path, frames: Iterable[Tensor], fps: float | Fraction, *, quality: int = 16) -> int:
    """Writes an MP4 that is there whole or not at all.

    Args:
        path: ends in `.mp4`; replaced if it exists.
        frames: each `[3, H, W]`, all of one size; values outside [0, 1] are clamped.
        fps: frames per second.
        quality: constant rate factor, 0 (without loss) to 51; 16 looks like the original.

    Returns:
        How many frames were written.

    Raises:
        MediaError: the name or the frame rate cannot be used, or there are no frames, or they differ in size.
    """
    if path.suffix.lower() != ".mp4":
        raise MediaError(f"{path.name}: videos are written as MP4; let the name end in .mp4.")
    if not (math.isfinite(fps) and fps > 0):
        raise MediaError(f"the frame rate must be a positive number, got {fps}.")
    rate = Fraction(fps).limit_denominator(1001)
    with atomic_file(path) as work:
        return _encode(work, frames, rate, quality)


def _encode(path: Path, frames: Iterable[Tensor], rate: Fraction, quality: int) -> int:
    av = pyav()
    count = 0
    size: tuple[int, int] | None = None
    # The index goes to the front, so that a player can start before it has the whole file.
    with av.open(str(path), "w", format="mp4", options={"movflags": "faststart"}) as container:
        stream = container.add_stream("libx264", rate=rate, options={"crf": str(quality)})
        for frame in frames:
            pixels = _even_pixels(frame)
            if size is None:
                size = (frame.shape[-2], frame.shape[-1])
                _describe(stream, pixels)
            elif size != tuple(frame.shape[-2:]):
                raise MediaError(
                    f"all frames must have one size, but frame {count} is {frame.shape[-1]}x{frame.shape[-2]} and "
                    f"the first is {size[1]}x{size[0]}."
                )
            rgb = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            picture = reformatted(rgb, format="yuv420p", dst_colorspace="ITU709", dst_color_range="MPEG")
            picture.pts = count
            container.mux(stream.encode(picture))
            count += 1
        if count == 0:
            raise MediaError(f"no frames were given for {path.name}: a video needs at least one.")
        container.mux(stream.encode(None))
    return count


def _describe(stream: Any, pixels: npt.NDArray[np.uint8]) -> None:
    context = stream.codec_context
    context.height, context.width = pixels.shape[:2]
    context.pix_fmt = "yuv420p"
    context.colorspace = _BT709
    context.color_primaries = _BT709
    context.color_trc = _BT709
    context.color_range = _LIMITED_RANGE


def _even_pixels(frame: Tensor) -> npt.NDArray[np.uint8]:
    """`[H, W, 3]` with even H and W."""
    if frame.ndim != 3 or frame.shape[0] != 3:
        raise ValueError(f"a frame is [3, H, W]; got a tensor of shape {list(frame.shape)}.")
    height, width = frame.shape[-2:]
    even = pad(frame.detach().cpu().float()[None], (0, width % 2, 0, height % 2), mode="replicate")[0]
    stored = (even.clamp(0, 1) * 255).round().to(torch.uint8)
    return np.ascontiguousarray(stored.permute(1, 2, 0).numpy())
